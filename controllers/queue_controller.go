package controllers

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
	"github.com/gitfn/gitfn/builder/queue"
)

// A Job that was admitted and has no running Pod is looked at after startGrace:
// if the API refuses its Pod, it is sent back at once; if not, after startLimit.
const (
	startGrace = 1500 * time.Millisecond
	startLimit = 60 * time.Second
)

// QueueReconciler is the one admitter of builds: whatever happens to a build Job
// or its Pod leads to one pass over all of them. It reads past the cache, so
// that it never admits on old news, and writes Jobs alone.
type QueueReconciler struct {
	client.Client
	// Live reads past the cache.
	Live  client.Reader
	Clock clock.PassiveClock
	// Cap is how many builds run at once in the whole cluster.
	Cap int
	// Places receives the places of those that wait.
	Places *Places
	// Wake receives the Functions of Jobs whose place has changed: they say so.
	Wake chan<- event.TypedGenericEvent[types.NamespacedName]
}

// +kubebuilder:rbac:groups="",resources=events,verbs=list

// Reconcile makes one pass over all builds.
func (r *QueueReconciler) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	jobs, pods := &batchv1.JobList{}, &corev1.PodList{}
	builds := client.MatchingLabels{functionv1.LabelManagedBy: functionv1.ManagedBy, labelResource: resourceBuild}
	if err := r.Live.List(ctx, jobs, builds); err != nil {
		return ctrl.Result{}, fmt.Errorf("list build Jobs: %w", err)
	}
	if err := r.Live.List(ctx, pods, builds); err != nil {
		return ctrl.Result{}, fmt.Errorf("list build Pods: %w", err)
	}
	now := r.Clock.Now()
	again, err := r.sendBack(ctx, jobs.Items, pods.Items, now)
	if err != nil {
		return outdated(err)
	}
	decision := queue.Decide(jobs.Items, pods.Items, r.Cap, now)
	for _, name := range decision.Admit {
		if err := r.admit(ctx, jobs.Items, name); err != nil {
			return outdated(err)
		}
	}
	r.tellPlaces(jobs.Items, decision.Places)
	if wait := decision.Next.Sub(now); !decision.Next.IsZero() && (again == 0 || wait < again) {
		again = max(wait, time.Millisecond)
	}
	return ctrl.Result{RequeueAfter: again}, nil
}

// outdated ends a pass that met a Job which has changed, or gone, since it was
// read: what was decided on it counts no more, so it is all read again.
func outdated(err error) (ctrl.Result, error) {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return ctrl.Result{RequeueAfter: shortly}, nil
	}
	return ctrl.Result{}, err
}

func (r *QueueReconciler) tellPlaces(jobs []batchv1.Job, places map[types.NamespacedName]int) {
	moved := r.Places.set(places)
	for i := range jobs {
		if slices.Contains(moved, client.ObjectKeyFromObject(&jobs[i])) {
			function := types.NamespacedName{Namespace: jobs[i].Namespace, Name: jobs[i].Labels[functionv1.LabelFunctionName]}
			r.Wake <- event.TypedGenericEvent[types.NamespacedName]{Object: function}
		}
	}
}

// admit un-suspends a Job, if it still waits. The Job controller writes the
// status of a new Job at about the same time: then it is read once more, because
// the decision stands as long as the Job waits.
func (r *QueueReconciler) admit(ctx context.Context, jobs []batchv1.Job, name types.NamespacedName) error {
	i := slices.IndexFunc(jobs, func(job batchv1.Job) bool { return client.ObjectKeyFromObject(&job) == name })
	job, fresh := &jobs[i], true
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if !fresh {
			if err := r.Live.Get(ctx, name, job); err != nil {
				return client.IgnoreNotFound(err)
			}
		}
		fresh = false
		if !queue.Waiting(job) {
			return nil
		}
		before := job.DeepCopy()
		off := false
		job.Spec.Suspend = &off
		if err := r.patch(ctx, job, before); err != nil {
			return err
		}
		logf.FromContext(ctx).Info("admitted build", "job", name)
		return nil
	})
	if err != nil {
		return fmt.Errorf("admit Job %s: %w", name, err)
	}
	return nil
}

// patch writes a Job only at the version that was read.
func (r *QueueReconciler) patch(ctx context.Context, job, before *batchv1.Job) error {
	return r.Patch(ctx, job, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(FieldOwner))
}

// sendBack suspends admitted Jobs whose Pods do not come up, so that their slots
// serve others. It returns when to look again at those that may yet come up.
func (r *QueueReconciler) sendBack(ctx context.Context, jobs []batchv1.Job, pods []corev1.Pod, now time.Time) (again time.Duration, err error) {
	for i := range jobs {
		job := &jobs[i]
		if *job.Spec.Suspend || queue.Finished(job) || !job.DeletionTimestamp.IsZero() || job.Status.StartTime == nil {
			continue
		}
		pod := podOf(job, pods)
		if pod != nil && started(pod) {
			continue
		}
		waited := now.Sub(job.Status.StartTime.Time)
		if waited < startGrace {
			again = soonest(again, startGrace-waited)
			continue
		}
		why := ""
		if pod == nil {
			if why, err = r.refusal(ctx, job); err != nil {
				return 0, err
			}
		}
		if why == "" && waited >= startLimit {
			why = stuck(pod)
		}
		if why == "" {
			again = soonest(again, min(2*time.Second, startLimit-waited))
			continue
		}
		if err := r.suspend(ctx, job, why, now); err != nil {
			return 0, err
		}
	}
	return again, nil
}

func soonest(a, b time.Duration) time.Duration {
	if a == 0 {
		return b
	}
	return min(a, b)
}

// suspend sends a Job to the end of its namespace's line, with the reason.
func (r *QueueReconciler) suspend(ctx context.Context, job *batchv1.Job, why string, now time.Time) error {
	before := job.DeepCopy()
	on, refusals := true, queue.Refusals(job)+1
	job.Spec.Suspend = &on
	for annotation, value := range map[string]string{
		queue.AnnotationRefused:    why,
		queue.AnnotationRefusals:   strconv.Itoa(refusals),
		queue.AnnotationRequeuedAt: now.UTC().Format(time.RFC3339),
		queue.AnnotationNotBefore:  now.Add(retryAfter(int32(refusals))).UTC().Format(time.RFC3339),
	} {
		metav1.SetMetaDataAnnotation(&job.ObjectMeta, annotation, value)
	}
	if err := r.patch(ctx, job, before); err != nil {
		return fmt.Errorf("send Job %s back: %w", job.Name, err)
	}
	logf.FromContext(ctx).Info("sent build back", "job", client.ObjectKeyFromObject(job), "why", why)
	return nil
}

// refusal is what the API said when the Job controller tried to make the Pod.
func (r *QueueReconciler) refusal(ctx context.Context, job *batchv1.Job) (string, error) {
	list := &corev1.EventList{}
	err := r.Live.List(ctx, list, client.InNamespace(job.Namespace), client.MatchingFieldsSelector{
		Selector: fields.AndSelectors(
			fields.OneTermEqualSelector("involvedObject.uid", string(job.UID)),
			fields.OneTermEqualSelector("reason", "FailedCreate"),
		),
	})
	if err != nil {
		return "", fmt.Errorf("list events of Job %s: %w", job.Name, err)
	}
	var last corev1.Event
	for _, e := range list.Items {
		// What was said before this start of the Job does not count.
		if said := eventTime(&e); !said.Before(job.Status.StartTime.Time) && !said.Before(eventTime(&last)) {
			last = e
		}
	}
	return last.Message, nil
}

func eventTime(e *corev1.Event) time.Time {
	return cmp.Or(e.LastTimestamp.Time, e.EventTime.Time, e.FirstTimestamp.Time)
}

func podOf(job *batchv1.Job, pods []corev1.Pod) *corev1.Pod {
	for i := range pods {
		if metav1.IsControlledBy(&pods[i], job) && pods[i].DeletionTimestamp.IsZero() {
			return &pods[i]
		}
	}
	return nil
}

// started reports whether a container of the Pod has ever run.
func started(pod *corev1.Pod) bool {
	for _, status := range pod.Status.ContainerStatuses {
		if status.State.Running != nil || status.State.Terminated != nil {
			return true
		}
	}
	return pod.Status.Phase != corev1.PodPending
}

// stuck says why a Pod has not started.
func stuck(pod *corev1.Pod) string {
	if pod == nil {
		return "the cluster made no Pod for it"
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status != corev1.ConditionTrue {
			return "its Pod finds no node: " + condition.Message
		}
	}
	for _, status := range pod.Status.ContainerStatuses {
		if waiting := status.State.Waiting; waiting != nil && waiting.Message != "" {
			return fmt.Sprintf("its container %s does not start: %s: %s", status.Name, waiting.Reason, waiting.Message)
		}
	}
	return "its Pod did not start"
}
