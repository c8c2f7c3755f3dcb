package apitest

import (
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
	"github.com/gitfn/gitfn/builder"
	"github.com/gitfn/gitfn/builder/job"
)

// function creates a Function that follows main:hello of the world's repository.
func (w *world) function(name string, modify ...func(*functionv1.Function)) *functionv1.Function {
	w.t.Helper()
	fn := &functionv1.Function{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		Spec: functionv1.FunctionSpec{
			Runtime: "nodejs22",
			Source:  functionv1.Source{GitRepository: &functionv1.GitRepository{URL: w.git.url, Reference: "main", BaseDir: "hello"}},
		},
	}
	for _, m := range modify {
		m(fn)
	}
	w.Expect(w.client.Create(w.ctx, fn)).To(Succeed())
	return fn
}

func inline(source string) func(*functionv1.Function) {
	return func(fn *functionv1.Function) {
		fn.Spec.Source = functionv1.Source{Inline: &functionv1.Inline{Source: source}}
	}
}

func withEnv(name, value string) func(*functionv1.Function) {
	return func(fn *functionv1.Function) { fn.Spec.Env = []corev1.EnvVar{{Name: name, Value: value}} }
}

func withReplicas(n int32) func(*functionv1.Function) {
	return func(fn *functionv1.Function) { fn.Spec.Replicas = &n }
}

func withSecret(name string) func(*functionv1.Function) {
	return func(fn *functionv1.Function) {
		fn.Spec.Source.GitRepository.Auth = &functionv1.RepositoryAuth{Type: functionv1.AuthBasic, SecretName: name}
	}
}

// jobs are the Jobs of the namespace.
func (w *world) jobs() []batchv1.Job {
	w.t.Helper()
	list := &batchv1.JobList{}
	w.Expect(w.client.List(w.ctx, list, client.InNamespace(w.namespace))).To(Succeed())
	return list.Items
}

// job is the one Job of the namespace.
func (w *world) job() *batchv1.Job {
	w.t.Helper()
	jobs := w.jobs()
	w.Expect(jobs).To(HaveLen(1))
	return &jobs[0]
}

// admit lets a Job run, as the queue does, and starts it, as the Job controller does.
func (w *world) admit(j *batchv1.Job) {
	w.t.Helper()
	suspended := false
	j.Spec.Suspend = &suspended
	w.Expect(w.client.Update(w.ctx, j)).To(Succeed())
	w.started(j)
}

func (w *world) started(j *batchv1.Job) {
	w.t.Helper()
	now := metav1.NewTime(w.clock.Now())
	j.Status.StartTime = &now
	w.Expect(w.client.Status().Update(w.ctx, j)).To(Succeed())
}

// pod makes the Pod of a Job, whose containers all run.
func (w *world) pod(j *batchv1.Job) *corev1.Pod {
	w.t.Helper()
	template := j.Spec.Template.DeepCopy()
	pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.Namespace, pod.GenerateName = j.Namespace, j.Name+"-"
	pod.Labels[batchv1.JobNameLabel] = j.Name
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(j, batchv1.SchemeGroupVersion.WithKind("Job"))}
	w.Expect(w.client.Create(w.ctx, pod)).To(Succeed())
	pod.Status.Phase = corev1.PodRunning
	for _, c := range pod.Spec.Containers {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(w.clock.Now())}},
		})
	}
	w.Expect(w.client.Status().Update(w.ctx, pod)).To(Succeed())
	return pod
}

// ends ends one container of a Pod with a report.
func (w *world) ends(pod *corev1.Pod, stage builder.Stage, report builder.Report) {
	w.t.Helper()
	ended := &corev1.ContainerStateTerminated{Message: string(report.Encode()), FinishedAt: metav1.NewTime(w.clock.Now())}
	if report.Error != nil {
		ended.ExitCode = 1
	}
	for i := range pod.Status.ContainerStatuses {
		if pod.Status.ContainerStatuses[i].Name == string(stage) {
			pod.Status.ContainerStatuses[i].State = corev1.ContainerState{Terminated: ended}
		}
	}
	if stage == builder.StagePush {
		pod.Status.Phase = corev1.PodSucceeded
	}
	w.Expect(w.client.Status().Update(w.ctx, pod)).To(Succeed())
}

// pushes pushes the image that a Job builds, and returns its digest.
func (w *world) pushes(j *batchv1.Job) string {
	w.t.Helper()
	plan, err := job.PlanOf(j)
	w.Expect(err).NotTo(HaveOccurred())
	return w.images.push(plan.Pin())
}

// builds runs a Job to its good end and returns the digest.
func (w *world) builds(j *batchv1.Job) string {
	w.t.Helper()
	w.admit(j)
	pod := w.pod(j)
	digest := w.pushes(j)
	w.ends(pod, builder.StagePush, builder.Report{Result: &builder.Result{Digest: digest}})
	return digest
}

// fails runs a Job to a bad end.
func (w *world) fails(j *batchv1.Job, stage builder.Stage, class builder.Class) {
	w.t.Helper()
	w.admit(j)
	w.ends(w.pod(j), stage, builder.Report{Error: &builder.StepError{Class: class, Message: "it went wrong", Output: "npm error 42"}})
}

// jobEnds gives a Job its last condition. A Job that fails has no Pod any more.
func (w *world) jobEnds(j *batchv1.Job, kind batchv1.JobConditionType, reason string) {
	w.t.Helper()
	now := metav1.NewTime(w.clock.Now())
	last := func(t batchv1.JobConditionType) batchv1.JobCondition {
		return batchv1.JobCondition{Type: t, Status: corev1.ConditionTrue, Reason: reason, LastTransitionTime: now, LastProbeTime: now}
	}
	first := batchv1.JobFailureTarget
	if kind == batchv1.JobComplete {
		first = batchv1.JobSuccessCriteriaMet
		j.Status.CompletionTime, j.Status.Succeeded = &now, 1
	}
	j.Status.Conditions = []batchv1.JobCondition{last(first), last(kind)}
	w.Expect(w.client.Status().Update(w.ctx, j)).To(Succeed())
}

func (w *world) deployment(name string) *appsv1.Deployment {
	w.t.Helper()
	d := &appsv1.Deployment{}
	w.Expect(w.client.Get(w.ctx, w.key(name), d)).To(Succeed())
	return d
}

// rollsOut brings a Deployment to its end, as its controller does.
func (w *world) rollsOut(name string) *appsv1.Deployment {
	w.t.Helper()
	d := w.deployment(name)
	before, n := d.DeepCopy(), *d.Spec.Replicas
	d.Status = appsv1.DeploymentStatus{
		ObservedGeneration: d.Generation, Replicas: n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n,
		Conditions: []appsv1.DeploymentCondition{
			{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue, Reason: "MinimumReplicasAvailable"},
			{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable"},
		},
	}
	w.Expect(w.client.Status().Patch(w.ctx, d, client.MergeFrom(before))).To(Succeed())
	return d
}

// runs brings a Function that is not built yet to where it serves.
func (w *world) runs(name string) *functionv1.Function {
	w.t.Helper()
	w.pass(name)
	w.builds(w.job())
	w.pass(name)
	w.rollsOut(name)
	fn, _ := w.pass(name)
	w.Expect(w.jobs()).To(BeEmpty())
	return fn
}

// later lets time go by.
func (w *world) later(d time.Duration) { w.clock.Step(d) }

func reportOf(digest string) builder.Report {
	return builder.Report{Result: &builder.Result{Digest: digest}}
}
