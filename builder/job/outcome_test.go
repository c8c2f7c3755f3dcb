package job

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gitfn/gitfn/builder"
)

// newPod is a Pod in which the stages have these states.
func newPod(changes ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	for _, stage := range order {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: string(stage), Image: "image-of-" + string(stage), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		})
	}
	for _, change := range changes {
		change(pod)
	}
	return pod
}

func set(pod *corev1.Pod, stage builder.Stage, state corev1.ContainerState) {
	for i := range pod.Status.ContainerStatuses {
		if pod.Status.ContainerStatuses[i].Name == string(stage) {
			pod.Status.ContainerStatuses[i].State = state
		}
	}
}

func ended(stage builder.Stage, code int32, second int, message string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		set(pod, stage, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: code, Reason: "Error", Message: message, FinishedAt: metav1.Time{Time: time.Unix(int64(second), 0)},
		}})
	}
}

func failed(stage builder.Stage, second int, class builder.Class, message string) func(*corev1.Pod) {
	return ended(stage, 1, second, string(builder.Report{Error: &builder.StepError{Stage: stage, Class: class, Message: message}}.Encode()))
}

func waits(stage builder.Stage, reason, message string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		set(pod, stage, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}})
	}
}

func phase(phase corev1.PodPhase, reason, message string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.Phase, pod.Status.Reason, pod.Status.Message = phase, reason, message
	}
}

func deleted(pod *corev1.Pod) { pod.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }

func TestOutcome(t *testing.T) {
	result := builder.Result{Digest: "sha256:" + strings.Repeat("a", 64), Cached: true}
	success := string(builder.Report{Result: &result}.Encode())
	rows := []struct {
		name   string
		pod    *corev1.Pod
		result bool
		stage  builder.Stage
		class  builder.Class // empty is no failure
		says   string
	}{
		{name: "all run: neither", pod: newPod()},
		{name: "the Pod is pending: neither", pod: &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending}}},
		{name: "containers are being made: neither", pod: newPod(waits("fetch", "ContainerCreating", ""))},
		{name: "push told a digest while others still end: a result", pod: newPod(ended("push", 0, 5, success)), result: true},
		{name: "push told a digest and install was stopped: a result", pod: newPod(ended("push", 0, 5, success), ended("install", 143, 6, "")), result: true},
		{name: "push told a digest and the Pod goes: a result", pod: newPod(ended("push", 0, 5, success), deleted), result: true},
		{name: "install tells a digest: it is not believed", pod: newPod(ended("install", 0, 5, success))},
		{name: "fetch tells a digest: it is not believed", pod: newPod(ended("fetch", 0, 5, success))},
		{name: "push told no digest", pod: newPod(ended("push", 0, 5, "")), stage: "push", class: builder.ClassRegistryUnavailable, says: "without saying"},
		{name: "push told what is no digest", pod: newPod(ended("push", 0, 5, `{"result":{"digest":"latest"}}`)), stage: "push", class: builder.ClassRegistryUnavailable, says: "without saying"},
		{name: "fetch failed", pod: newPod(failed("fetch", 1, builder.ClassGitAuth, "no")), stage: "fetch", class: builder.ClassGitAuth, says: "no"},
		{name: "fetch failed and the others gave up in the same second: fetch", pod: newPod(ended("push", 3, 1, ""), ended("install", 3, 1, ""), failed("fetch", 1, builder.ClassGitAuth, "no")),
			stage: "fetch", class: builder.ClassGitAuth},
		{name: "push gave up and the end of install is not seen yet: neither", pod: newPod(ended("push", 3, 1, ""), ended("fetch", 0, 1, ""))},
		{name: "push gave up and install failed later: install", pod: newPod(ended("push", 3, 1, ""), ended("fetch", 0, 1, ""), failed("install", 2, builder.ClassOutOfMemory, "no")),
			stage: "install", class: builder.ClassOutOfMemory},
		{name: "both gave up and the end of fetch is not seen yet: neither", pod: newPod(ended("push", 3, 1, ""), ended("install", 3, 1, ""))},
		{name: "push gave up and install ended well: install said what was not so", pod: newPod(ended("push", 3, 1, ""), ended("fetch", 0, 1, ""), ended("install", 0, 2, "")),
			stage: "install", class: builder.ClassInstallFailed, says: "ended as if it had not"},
		{name: "push failed before fetch: push", pod: newPod(failed("push", 1, builder.ClassRegistryAuth, "no"), failed("fetch", 2, builder.ClassGitAuth, "no")),
			stage: "push", class: builder.ClassRegistryAuth},
		{name: "install fails with a class of its own", pod: newPod(failed("install", 1, builder.ClassDependencyNotFound, "no pad")), stage: "install", class: builder.ClassDependencyNotFound},
		{name: "install claims a class of another stage: InstallFailed", pod: newPod(failed("install", 1, builder.ClassGitAuth, "check your password at evil.example")), stage: "install", class: builder.ClassInstallFailed},
		{name: "install claims a class that is none: InstallFailed", pod: newPod(failed("install", 1, "Great", "x")), stage: "install", class: builder.ClassInstallFailed},
		{name: "install claims to be push: it stays install", pod: newPod(ended("install", 1, 1, `{"error":{"stage":"push","class":"RegistryAuth","message":"x"}}`)), stage: "install", class: builder.ClassInstallFailed},
		{name: "a message moves no cursor", pod: newPod(failed("install", 1, builder.ClassInstallFailed, "a\x1b[2Jb\nc\u202ed")), stage: "install", class: builder.ClassInstallFailed, says: "ab cd"},
		{name: "install was killed for memory", pod: newPod(func(pod *corev1.Pod) {
			set(pod, "install", corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}})
		}), stage: "install", class: builder.ClassOutOfMemory, says: "resourceConfiguration.build"},
		{name: "install ends and says nothing", pod: newPod(ended("install", 139, 1, "Segmentation fault")), stage: "install", class: builder.ClassInstallFailed, says: "code 139"},
		{name: "fetch ends and says nothing", pod: newPod(ended("fetch", 137, 1, "")), stage: "fetch", class: builder.ClassNodeLost},
		{name: "the Pod is deleted and its containers were stopped: the Job knows why", pod: newPod(ended("install", 143, 1, ""), ended("push", 143, 1, ""), phase(corev1.PodFailed, "", ""), deleted)},
		{name: "the Pod is deleted after a stage failed: that failure", pod: newPod(failed("install", 1, builder.ClassInstallFailed, "x"), ended("push", 137, 0, ""), deleted), stage: "install", class: builder.ClassInstallFailed},
		{name: "an image cannot be pulled", pod: newPod(waits("install", "ImagePullBackOff", "Back-off pulling image \"x\"")), stage: "install", class: builder.ClassRegistryUnavailable, says: "image-of-install"},
		{name: "a name of an image is wrong", pod: newPod(waits("fetch", "InvalidImageName", "")), stage: "fetch", class: builder.ClassPodRefused, says: "InvalidImageName"},
		{name: "a Secret is not there", pod: newPod(waits("fetch", "CreateContainerConfigError", "secret \"x\" not found")), stage: "fetch", class: builder.ClassPodRefused, says: `secret "x" not found`},
		{name: "the node was short of memory", pod: newPod(phase(corev1.PodFailed, "Evicted", "The node was low on resource: memory."), ended("install", 137, 1, "")), class: builder.ClassNodeLost, says: "low on resource"},
		{name: "a volume is full", pod: newPod(phase(corev1.PodFailed, "Evicted", `Usage of EmptyDir volume "work" exceeds the limit "4Gi".`)), class: builder.ClassInstallFailed, says: "work"},
		{name: "the build took too long", pod: newPod(phase(corev1.PodFailed, "DeadlineExceeded", "")), class: builder.ClassTimeout},
		{name: "the node went away", pod: newPod(phase(corev1.PodFailed, "NodeLost", "")), class: builder.ClassNodeLost},
		{name: "the cluster took the Pod away", pod: newPod(ended("install", 137, 1, ""), func(pod *corev1.Pod) {
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "PreemptionByScheduler"}}
		}), class: builder.ClassNodeLost, says: "PreemptionByScheduler"},
		{name: "the Pod failed before any container", pod: &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed, Reason: "OutOfcpu", Message: "no room"}}, class: builder.ClassNodeLost, says: "OutOfcpu: no room"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			g := NewWithT(t)
			got, failure := Outcome(row.pod)
			if row.result {
				g.Expect(got).To(HaveValue(Equal(result)))
				g.Expect(failure).To(BeNil())
				return
			}
			g.Expect(got).To(BeNil())
			if row.class == "" {
				g.Expect(failure).To(BeNil())
				return
			}
			g.Expect(failure).NotTo(BeNil())
			g.Expect(failure.Class).To(Equal(row.class))
			g.Expect(failure.Stage).To(Equal(row.stage))
			g.Expect(failure.Message).To(ContainSubstring(row.says))
			g.Expect(failure.Message).NotTo(ContainSubstring("\x1b"))
		})
	}
}
