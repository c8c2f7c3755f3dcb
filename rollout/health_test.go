package rollout_test

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gitfn/gitfn/rollout"
)

const oldImage = "localhost:32137/shop/cart@sha256:0000000000000000000000000000000000000000000000000000000000000000"

type (
	deploymentOption func(*appsv1.Deployment)
	podOption        func(*corev1.Pod)
)

// newDeployment is one that rolled out long ago, with three replicas.
func newDeployment(options ...deploymentOption) *appsv1.Deployment {
	s := settings()
	s.Replicas = 3
	d := rollout.Deployment(s)
	d.Generation = 4
	d.Status = appsv1.DeploymentStatus{
		ObservedGeneration: 4, Replicas: 3, UpdatedReplicas: 3, ReadyReplicas: 3, AvailableReplicas: 3,
	}
	condition(appsv1.DeploymentProgressing, corev1.ConditionTrue, "NewReplicaSetAvailable", "")(d)
	condition(appsv1.DeploymentAvailable, corev1.ConditionTrue, "MinimumReplicasAvailable", "")(d)
	for _, option := range options {
		option(d)
	}
	return d
}

func condition(kind appsv1.DeploymentConditionType, status corev1.ConditionStatus, reason, message string) deploymentOption {
	return func(d *appsv1.Deployment) {
		c := appsv1.DeploymentCondition{Type: kind, Status: status, Reason: reason, Message: message}
		for i := range d.Status.Conditions {
			if d.Status.Conditions[i].Type == kind {
				d.Status.Conditions[i] = c
				return
			}
		}
		d.Status.Conditions = append(d.Status.Conditions, c)
	}
}

func rolling(d *appsv1.Deployment) {
	counted(4, 1, 3)(d)
	condition(appsv1.DeploymentProgressing, corev1.ConditionTrue, "ReplicaSetUpdated", "")(d)
}

func unavailable(d *appsv1.Deployment) {
	condition(appsv1.DeploymentAvailable, corev1.ConditionFalse, "MinimumReplicasUnavailable", "")(d)
}

func late(d *appsv1.Deployment) {
	condition(appsv1.DeploymentProgressing, corev1.ConditionFalse, "ProgressDeadlineExceeded", "")(d)
}

func refused(d *appsv1.Deployment) {
	condition(appsv1.DeploymentReplicaFailure, corev1.ConditionTrue, "FailedCreate", `pods "cart-1" is forbidden:
exceeded quota: small`)(d)
}

func counted(all, updated, available int32) deploymentOption {
	return func(d *appsv1.Deployment) {
		d.Status.Replicas, d.Status.UpdatedReplicas, d.Status.AvailableReplicas = all, updated, available
	}
}

func wanted(n int32) deploymentOption {
	return func(d *appsv1.Deployment) { d.Spec.Replicas = &n }
}

func newPod(options ...podOption) corev1.Pod {
	p := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "cart-1", CreationTimestamp: metav1.Unix(1000, 0)},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "function", Image: settings().Image, Resources: corev1.ResourceRequirements{
			Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")},
		}}}},
		Status: corev1.PodStatus{
			Phase:             corev1.PodRunning,
			ContainerStatuses: []corev1.ContainerStatus{{Name: "function", Image: "cart"}},
		},
	}
	for _, option := range options {
		option(&p)
	}
	return p
}

func named(name string, age time.Duration) podOption {
	return func(p *corev1.Pod) {
		p.Name, p.CreationTimestamp = name, metav1.NewTime(time.Unix(1000, 0).Add(-age))
	}
}

func held(reason, message string) podOption {
	return func(p *corev1.Pod) {
		p.Status.ContainerStatuses[0].State.Waiting = &corev1.ContainerStateWaiting{Reason: reason, Message: message}
	}
}

func crashed(restarts, exitCode int32, reason, output string) podOption {
	return func(p *corev1.Pod) {
		end := &corev1.ContainerStateTerminated{ExitCode: exitCode, Reason: reason, Message: output}
		status := &p.Status.ContainerStatuses[0]
		status.RestartCount = restarts
		if restarts == 0 {
			status.State.Terminated = end
			return
		}
		status.State.Waiting = &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off 10s"}
		status.LastTerminationState.Terminated = end
	}
}

func recovered(p *corev1.Pod) {
	started := true
	status := &p.Status.ContainerStatuses[0]
	status.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	status.Started = &started
}

func unschedulable(p *corev1.Pod) {
	p.Status.Phase = corev1.PodPending
	p.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/1 nodes are available: 1 Insufficient cpu.",
	}}
}

func evicted(p *corev1.Pod) {
	p.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "The node was low on resource: memory."}
}

func sidecar(p *corev1.Pod) { p.Status.ContainerStatuses[0].Name = "istio-proxy" }

func going(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Unix(2000, 0)} }

func old(p *corev1.Pod) { p.Spec.Containers[0].Image = oldImage }

func TestAssess(t *testing.T) {
	const (
		ready, waits, notAvailable, failed = "DeploymentReady", "DeploymentWaiting", "MinReplicasNotAvailable", "DeploymentFailed"
		syntax                             = "\nfile:///usr/src/app/function/handler.js:1\nexport cnst main\n       ^^^^\n\nSyntaxError: Unexpected token\n"
	)
	image := settings().Image
	for _, tt := range []struct {
		name       string
		deployment *appsv1.Deployment
		pods       []corev1.Pod
		want       rollout.Health
	}{
		{name: "no Deployment yet: waits",
			want: rollout.Health{State: rollout.Progressing, Reason: waits, Message: "the Deployment is not there yet"}},
		{name: "the Deployment has another image: waits",
			deployment: newDeployment(func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = oldImage }),
			want:       rollout.Health{State: rollout.Progressing, Reason: waits, Message: "the Deployment still has image " + oldImage}},
		{name: "its controller has not looked: old status is not believed",
			deployment: newDeployment(func(d *appsv1.Deployment) { d.Generation = 5 }),
			want:       rollout.Health{State: rollout.Progressing, Reason: waits, Message: "the Deployment has changed, and its controller has not looked yet"}},
		{name: "all replicas are new and available: ready", deployment: newDeployment(),
			want: rollout.Health{State: rollout.Ready, Reason: ready, Message: "3 of 3 replicas available"}},
		{name: "an old replica still serves: not ready", deployment: newDeployment(counted(4, 3, 4)),
			want: rollout.Health{State: rollout.Progressing, Reason: waits, Message: "3 of 3 replicas available, 1 of an older version"}},
		{name: "rolling: waits", deployment: newDeployment(rolling), pods: []corev1.Pod{newPod()},
			want: rollout.Health{State: rollout.Progressing, Reason: waits, Message: "1 of 3 replicas available, 3 of an older version"}},
		{name: "the first rollout has nothing available: says so", deployment: newDeployment(rolling, unavailable, wanted(1), counted(1, 1, 0)),
			want: rollout.Health{State: rollout.Progressing, Reason: notAvailable, Message: "0 of 1 replicas available"}},
		{name: "scaled to zero: ready", deployment: newDeployment(wanted(0), counted(0, 0, 0)),
			want: rollout.Health{State: rollout.Ready, Reason: ready, Message: "scaled to zero"}},
		{name: "going to zero: ready, and the last ones are counted", deployment: newDeployment(wanted(0), counted(2, 2, 2)),
			want: rollout.Health{State: rollout.Ready, Reason: ready, Message: "scaling to zero, 2 replicas left"}},
		{name: "scaled out after the rollout: stays ready", deployment: newDeployment(wanted(5), unavailable, counted(5, 5, 3)), pods: []corev1.Pod{newPod()},
			want: rollout.Health{State: rollout.Ready, Reason: ready, Message: "3 of 5 replicas available, others come or go"}},
		{name: "scaled out, but no node takes the Pod: says why", deployment: newDeployment(wanted(5), unavailable, counted(5, 5, 3)), pods: []corev1.Pod{newPod(unschedulable)},
			want: rollout.Health{State: rollout.Progressing, Reason: notAvailable,
				Message: "3 of 5 replicas available; no node takes Pod cart-1: 0/1 nodes are available: 1 Insufficient cpu."}},
		{name: "scaled out over the quota: says why, and is no failure", deployment: newDeployment(wanted(5), refused),
			want: rollout.Health{State: rollout.Progressing, Reason: waits,
				Message: `3 of 5 replicas available; the cluster refuses a Pod: pods "cart-1" is forbidden: exceeded quota: small`}},
		{name: "a rollout is refused: failed", deployment: newDeployment(rolling, refused),
			want: rollout.Health{State: rollout.Failed, Reason: failed, Message: `PodRefused: the cluster refuses a Pod: pods "cart-1" is forbidden: exceeded quota: small`}},
		{name: "one crash may pass: waits and says it", deployment: newDeployment(rolling), pods: []corev1.Pod{newPod(crashed(0, 1, "Error", syntax))},
			want: rollout.Health{State: rollout.Progressing, Reason: waits, Message: "1 of 3 replicas available, 3 of an older version; " +
				"Pod cart-1 crashed with exit code 1: export cnst main | ^^^^ | SyntaxError: Unexpected token"}},
		{name: "a crash loop: failed, with the last lines", deployment: newDeployment(rolling), pods: []corev1.Pod{newPod(crashed(2, 1, "Error", syntax))},
			want: rollout.Health{State: rollout.Failed, Reason: failed,
				Message: "Crash: Pod cart-1 crashed with exit code 1, and was restarted 2 times: export cnst main | ^^^^ | SyntaxError: Unexpected token"}},
		{name: "crashed once and serves again: no problem", deployment: newDeployment(rolling), pods: []corev1.Pod{newPod(crashed(5, 1, "Error", "x"), recovered)},
			want: rollout.Health{State: rollout.Progressing, Reason: waits, Message: "1 of 3 replicas available, 3 of an older version"}},
		{name: "too little memory: says the limit", deployment: newDeployment(rolling), pods: []corev1.Pod{newPod(crashed(1, 137, "OOMKilled", ""))},
			want: rollout.Health{State: rollout.Progressing, Reason: waits, Message: "1 of 3 replicas available, 3 of an older version; " +
				"Pod cart-1 was killed because it used more memory than its limit of 256Mi, and was restarted once"}},
		{name: "an image that cannot be pulled: says why", deployment: newDeployment(rolling),
			pods: []corev1.Pod{newPod(held("ImagePullBackOff", "Back-off pulling image: 403 Forbidden"))},
			want: rollout.Health{State: rollout.Progressing, Reason: waits, Message: "1 of 3 replicas available, 3 of an older version; " +
				"Pod cart-1 cannot pull image cart: Back-off pulling image: 403 Forbidden"}},
		{name: "an image that is no name: failed", deployment: newDeployment(rolling), pods: []corev1.Pod{newPod(held("InvalidImageName", ""))},
			want: rollout.Health{State: rollout.Failed, Reason: failed, Message: "ImagePull: Pod cart-1 cannot use image cart: InvalidImageName"}},
		{name: "a Secret is missing: says which", deployment: newDeployment(rolling), pods: []corev1.Pod{newPod(held("CreateContainerConfigError", `secret "db" not found`))},
			want: rollout.Health{State: rollout.Progressing, Reason: waits, Message: "1 of 3 replicas available, 3 of an older version; " +
				`Pod cart-1 cannot start: secret "db" not found`}},
		{name: "a Pod being created: no problem", deployment: newDeployment(rolling), pods: []corev1.Pod{newPod(held("ContainerCreating", ""))},
			want: rollout.Health{State: rollout.Progressing, Reason: waits, Message: "1 of 3 replicas available, 3 of an older version"}},
		{name: "an evicted Pod: says why", deployment: newDeployment(rolling), pods: []corev1.Pod{newPod(evicted)},
			want: rollout.Health{State: rollout.Progressing, Reason: waits, Message: "1 of 3 replicas available, 3 of an older version; " +
				"Pod cart-1 ended: The node was low on resource: memory."}},
		{name: "another container crashes: is named", deployment: newDeployment(rolling), pods: []corev1.Pod{newPod(sidecar, crashed(3, 255, "Error", ""))},
			want: rollout.Health{State: rollout.Failed, Reason: failed, Message: "Crash: container istio-proxy of Pod cart-1 crashed with exit code 255, and was restarted 3 times"}},
		{name: "old Pods and those that go have no say", deployment: newDeployment(rolling),
			pods: []corev1.Pod{newPod(old, crashed(9, 1, "Error", "")), newPod(going, crashed(9, 1, "Error", ""))},
			want: rollout.Health{State: rollout.Progressing, Reason: waits, Message: "1 of 3 replicas available, 3 of an older version"}},
		{name: "of several problems the lasting one is said, of the newest Pod", deployment: newDeployment(rolling), pods: []corev1.Pod{
			newPod(named("oldest", time.Hour), crashed(2, 1, "Error", "")), newPod(named("newer", time.Minute), crashed(3, 2, "Error", "")), newPod(named("newest", 0), unschedulable)},
			want: rollout.Health{State: rollout.Failed, Reason: failed, Message: "Crash: Pod newer crashed with exit code 2, and was restarted 3 times"}},
		{name: "the deadline is over: failed, with the cause", deployment: newDeployment(rolling, late), pods: []corev1.Pod{newPod(unschedulable)},
			want: rollout.Health{State: rollout.Failed, Reason: failed,
				Message: "Timeout: the new version did not become ready in time: no node takes Pod cart-1: 0/1 nodes are available: 1 Insufficient cpu."}},
		{name: "the deadline is over and nobody knows why: failed, with the counts", deployment: newDeployment(rolling, late),
			want: rollout.Health{State: rollout.Failed, Reason: failed,
				Message: "Timeout: the new version did not become ready in time: 1 of 3 replicas available, 3 of an older version"}},
		{name: "a Pod crashes long after the rollout: not failed, the others serve", deployment: newDeployment(counted(3, 3, 2), unavailable),
			pods: []corev1.Pod{newPod(crashed(7, 1, "Error", "bye"))},
			want: rollout.Health{State: rollout.Progressing, Reason: notAvailable,
				Message: "2 of 3 replicas available; Pod cart-1 crashed with exit code 1, and was restarted 7 times: bye"}},
		{name: "all Pods are gone long after the rollout: not ready", deployment: newDeployment(counted(3, 3, 0), unavailable),
			want: rollout.Health{State: rollout.Progressing, Reason: notAvailable, Message: "0 of 3 replicas available", Starting: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(rollout.Assess(tt.deployment, image, tt.pods)).To(Equal(tt.want))
		})
	}
}

func TestOutputOfACrashIsOneTidyLine(t *testing.T) {
	g := NewWithT(t)
	output := "\x1b[31mred\x1b[0m\x00\n" + strings.Repeat("ä", 500) + "\n"
	health := rollout.Assess(newDeployment(rolling), settings().Image, []corev1.Pod{newPod(crashed(2, 1, "Error", output))})
	g.Expect(health.Message).To(HavePrefix("Crash: Pod cart-1 crashed with exit code 1, and was restarted 2 times: …ä"))
	g.Expect(health.Message).To(HaveSuffix("ä"))
	g.Expect(len(health.Message)).To(BeNumerically("<", 500))
	g.Expect(health.Message).NotTo(ContainSubstring("\n"))
}

func TestAssessLeavesThePodsInTheirOrder(t *testing.T) {
	g := NewWithT(t)
	pods := []corev1.Pod{newPod(named("old", time.Hour)), newPod(named("new", 0))}
	rollout.Assess(newDeployment(rolling), settings().Image, pods)
	g.Expect(pods[0].Name).To(Equal("old"))
}
