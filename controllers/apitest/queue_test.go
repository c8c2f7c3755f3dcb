package apitest

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
	"github.com/gitfn/gitfn/builder/queue"
)

// request is what wakes the queue.
var request = ctrl.Request{NamespacedName: types.NamespacedName{Name: "builds"}}

// waiting is a world with as many Functions whose builds wait.
func waiting(t *testing.T, n int) *world {
	w := newWorld(t)
	w.git.push("main", files{"hello/handler.js": handler})
	for i := range n {
		name := fmt.Sprintf("fn-%02d", i)
		w.function(name)
		w.pass(name)
	}
	return w
}

// queuePass makes one pass of the queue.
func (w *world) queuePass() ctrl.Result {
	w.t.Helper()
	result, err := w.queue.Reconcile(w.ctx, request)
	w.Expect(err).NotTo(HaveOccurred())
	return result
}

// running are the Jobs that are admitted.
func (w *world) running() (running []*batchv1.Job) {
	w.t.Helper()
	for _, j := range w.jobs() {
		if !*j.Spec.Suspend {
			running = append(running, &j)
		}
	}
	return running
}

func owner(j *batchv1.Job) string { return j.Labels[functionv1.LabelFunctionName] }

func TestTwelveBuildsThreeAtOnce(t *testing.T) {
	t.Parallel()
	w := waiting(t, 12)
	w.Expect(w.running()).To(BeEmpty())
	w.queuePass()
	w.Expect(w.running()).To(HaveLen(buildCap))

	// Those who wait are woken, and say where they stand.
	places := map[int32]bool{}
	w.Expect(w.wake).To(HaveLen(12 - buildCap))
	for range 12 - buildCap {
		name := (<-w.wake).Object.Name
		fn, _ := w.pass(name)
		places[fn.Status.Build.QueuePosition] = true
		w.expect(fn,
			fmt.Sprintf("Ready False JobCreated: waits for a build slot, place %d", fn.Status.Build.QueuePosition),
			"Reconciling True JobCreated: place",
			"ConfigurationReady True SourceUpdated",
			"BuildReady Unknown JobCreated: place",
			"Running Unknown DeploymentWaiting",
		)
	}
	for place := range int32(12 - buildCap) {
		w.Expect(places).To(HaveKey(place + 1))
	}
	w.queuePass()
	w.Expect(w.wake).To(BeEmpty(), "no place has changed")

	for built := 0; built < 12; built++ {
		running := w.running()
		w.Expect(len(running)).To(Equal(min(buildCap, 12-built)))
		j := running[0]
		w.started(j)
		pod := w.pod(j)
		w.queuePass()
		w.Expect(w.running()).To(HaveLen(len(running)), "its slot is not free yet")
		digest := w.pushes(j)
		w.ends(pod, "push", reportOf(digest))
		w.pass(owner(j))
		w.queuePass()
	}
	w.Expect(w.jobs()).To(BeEmpty())
	w.Expect(w.tap.builds()).To(Equal(12))
}

func TestPodRefused(t *testing.T) {
	t.Parallel()
	w := waiting(t, buildCap+1)
	w.queuePass()
	refused := w.running()[0]
	for _, j := range w.running() {
		w.started(j)
		if j.UID != refused.UID {
			w.pod(j)
		}
	}
	w.Expect(w.client.Create(w.ctx, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: w.namespace, GenerateName: "refused-"},
		InvolvedObject: corev1.ObjectReference{Kind: "Job", Namespace: w.namespace, Name: refused.Name, UID: refused.UID},
		Reason:         "FailedCreate", Message: "exceeded quota: pods=1", LastTimestamp: metav1.NewTime(w.clock.Now()),
	})).To(Succeed())
	w.Expect(w.queuePass().RequeueAfter).To(BeNumerically("<=", 2*time.Second))
	w.Expect(w.running()).To(HaveLen(buildCap), "it may yet come")
	w.later(2 * time.Second)
	w.queuePass()

	running := w.running()
	w.Expect(running).To(HaveLen(buildCap), "the slot is free, and taken by who waited")
	for _, j := range running {
		w.Expect(j.UID).NotTo(Equal(refused.UID))
	}
	w.Expect(w.client.Get(w.ctx, client.ObjectKeyFromObject(refused), refused)).To(Succeed())
	w.Expect(*refused.Spec.Suspend).To(BeTrue())
	w.Expect(refused.Annotations).To(HaveKeyWithValue(queue.AnnotationRefused, "exceeded quota: pods=1"))
	w.Expect(refused.Annotations).To(HaveKeyWithValue(queue.AnnotationRefusals, "1"))
	fn, _ := w.pass(owner(refused))
	w.expect(fn,
		"Ready False JobFailed: PodRefused: exceeded quota: pods=1",
		"Reconciling True JobFailed: PodRefused",
		"ConfigurationReady True SourceUpdated",
		"BuildReady False JobFailed: PodRefused: exceeded quota: pods=1",
		"Running Unknown DeploymentWaiting",
	)
	w.Expect(fn.Status.Build.Class).To(Equal("PodRefused"))

	// It comes back after a time, if there is a slot.
	for _, j := range running {
		w.Expect(w.client.Delete(w.ctx, j, client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
		if pods := w.podsOf(j); len(pods) > 0 {
			pods[0].Status.Phase = corev1.PodFailed
			w.Expect(w.client.Status().Update(w.ctx, &pods[0])).To(Succeed())
		}
	}
	w.Expect(w.queuePass().RequeueAfter).To(BeNumerically("~", 30*time.Second, time.Second))
	w.Expect(w.running()).To(BeEmpty())
	w.later(31 * time.Second)
	w.queuePass()
	w.Expect(w.running()).To(HaveLen(1))
	fn, _ = w.pass(owner(refused))
	w.Expect(fn.Status.Build.State).To(Equal(functionv1.BuildRunning))
	w.Expect(fn.Status.Build.Class).To(BeEmpty())
}

func TestPodThatDoesNotStart(t *testing.T) {
	t.Parallel()
	w := waiting(t, 1)
	w.queuePass()
	j := w.running()[0]
	w.started(j)
	pod := w.pod(j)
	pod.Status.Phase, pod.Status.ContainerStatuses = corev1.PodPending, nil
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/1 nodes are available"}}
	w.Expect(w.client.Status().Update(w.ctx, pod)).To(Succeed())
	w.later(59 * time.Second)
	w.Expect(w.queuePass().RequeueAfter).To(BeNumerically("<=", time.Second))
	w.Expect(w.running()).To(HaveLen(1))
	w.later(time.Second)
	w.queuePass()
	w.Expect(w.running()).To(BeEmpty())
	w.Expect(w.job().Annotations).To(HaveKeyWithValue(queue.AnnotationRefused, "its Pod finds no node: 0/1 nodes are available"))
}

// TestJobThatChangesUnderTheQueue lets a write meet a Job that has changed since
// it was read: it is read again, and as long as that does not help nothing is
// said to be done.
func TestJobThatChangesUnderTheQueue(t *testing.T) {
	t.Parallel()
	w := waiting(t, buildCap+2)
	conflicts := &atomic.Int32{}
	conflicts.Store(1000)
	w.queue.Client = conflicting{w.queue.Client, conflicts}
	var logged strings.Builder
	ctx := logf.IntoContext(w.ctx, funcr.New(func(_, args string) { logged.WriteString(args + "\n") }, funcr.Options{}))

	result, err := w.queue.Reconcile(ctx, request)
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(result.RequeueAfter).To(And(BeNumerically(">", 0), BeNumerically("<=", time.Second)))
	w.Expect(logged.String()).To(BeEmpty())
	w.Expect(w.running()).To(BeEmpty())

	conflicts.Store(1)
	_, err = w.queue.Reconcile(ctx, request)
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(w.running()).To(HaveLen(buildCap))
	w.Expect(strings.Count(logged.String(), "admitted build")).To(Equal(buildCap))
}

func (w *world) podsOf(j *batchv1.Job) []corev1.Pod {
	w.t.Helper()
	pods := &corev1.PodList{}
	w.Expect(w.client.List(w.ctx, pods, client.InNamespace(w.namespace), client.MatchingLabels{batchv1.JobNameLabel: j.Name})).To(Succeed())
	return pods.Items
}

func conflict(o client.Object) error {
	return apierrors.NewConflict(batchv1.Resource("jobs"), o.GetName(), fmt.Errorf("it has changed"))
}
