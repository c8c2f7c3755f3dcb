// Package queue says which waiting build Jobs may run now.
//
// In go the build Jobs and their Pods as just read from the cluster, the cap and
// the time; out comes a Decision: which Jobs to admit, and the place of every
// Job that goes on waiting. A suspended Job waits; admitting is un-suspending,
// which the caller does. A slot is held by an admitted Job until it is finished,
// and by any Pod of a build until it has ended, also when its Job is deleted or
// suspended again: Pods are what loads the cluster. The state is in the cluster
// alone, so a restart forgets nothing. The package never talks to the cluster
// and keeps nothing between calls.
package queue

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Annotations of a Job that was admitted and whose Pod did not come up. It
// waits again, behind the others of its namespace, and not before a time.
const (
	// AnnotationRequeuedAt is when it went back into the queue, RFC 3339.
	AnnotationRequeuedAt = "serverless.kyma-project.io/requeued-at"
	// AnnotationNotBefore is when it may be admitted again, RFC 3339.
	AnnotationNotBefore = "serverless.kyma-project.io/not-before"
	// AnnotationRefused is the sentence that says why its Pod did not come up.
	AnnotationRefused = "serverless.kyma-project.io/refused"
	// AnnotationRefusals counts how often that happened, from 1.
	AnnotationRefusals = "serverless.kyma-project.io/refusals"
)

// Decision is what to do now.
type Decision struct {
	// Admit lists the Jobs to un-suspend, in order.
	Admit []types.NamespacedName
	// Places are the places, from 1, of the Jobs that go on waiting for a slot.
	Places map[types.NamespacedName]int
	// Running counts the slots that are held, without those of Admit.
	Running int
	// Next is when a Job that waits for a time becomes eligible; zero if none does.
	Next time.Time
}

// Decide admits waiting Jobs up to the cap: in turn to the namespace that holds
// the fewest slots, and there to the Job that waits longest. A cap below 1
// admits nothing.
func Decide(jobs []batchv1.Job, pods []corev1.Pod, cap int, now time.Time) Decision {
	decision := Decision{Places: map[types.NamespacedName]int{}}
	held := slots(jobs, pods)
	byNamespace := map[string]int{}
	for _, namespace := range held {
		byNamespace[namespace]++
	}
	decision.Running = len(held)

	waiting := map[string][]batchv1.Job{}
	for _, job := range jobs {
		if !Waiting(&job) {
			continue
		}
		if notBefore := annotatedTime(&job, AnnotationNotBefore); notBefore.After(now) {
			if decision.Next.IsZero() || notBefore.Before(decision.Next) {
				decision.Next = notBefore
			}
			continue
		}
		// Its own Pod may still be ending, after it was suspended again: one
		// Job has one Pod at a time.
		if _, ending := held[job.UID]; ending {
			continue
		}
		waiting[job.Namespace] = append(waiting[job.Namespace], job)
	}
	for _, line := range waiting {
		slices.SortFunc(line, func(a, b batchv1.Job) int {
			return cmp.Or(queuedAt(&a).Compare(queuedAt(&b)), cmp.Compare(a.Name, b.Name))
		})
	}

	free := cap - len(held)
	for place := 1; len(waiting) > 0; {
		namespace := nextNamespace(waiting, byNamespace)
		job := waiting[namespace][0]
		if waiting[namespace] = waiting[namespace][1:]; len(waiting[namespace]) == 0 {
			delete(waiting, namespace)
		}
		byNamespace[namespace]++
		name := types.NamespacedName{Namespace: job.Namespace, Name: job.Name}
		if free > 0 {
			free--
			decision.Admit = append(decision.Admit, name)
			continue
		}
		decision.Places[name] = place
		place++
	}
	return decision
}

// Waiting reports whether a Job is in the queue.
func Waiting(job *batchv1.Job) bool {
	return job.Spec.Suspend != nil && *job.Spec.Suspend && job.DeletionTimestamp.IsZero() && !Finished(job)
}

// Finished reports whether a Job is over, well or not.
func Finished(job *batchv1.Job) bool {
	for _, condition := range job.Status.Conditions {
		if condition.Status == corev1.ConditionTrue && (condition.Type == batchv1.JobComplete || condition.Type == batchv1.JobFailed) {
			return true
		}
	}
	return false
}

// Refusals is how often the Pod of a Job did not come up.
func Refusals(job *batchv1.Job) int {
	count, err := strconv.Atoi(job.Annotations[AnnotationRefusals])
	if err != nil {
		return 0
	}
	return count
}

// slots maps what holds a slot, by the UID of the Job, to its namespace.
func slots(jobs []batchv1.Job, pods []corev1.Pod) map[types.UID]string {
	held := map[types.UID]string{}
	for _, job := range jobs {
		suspended := job.Spec.Suspend != nil && *job.Spec.Suspend
		if !suspended && !Finished(&job) {
			held[job.UID] = job.Namespace
		}
	}
	for _, pod := range pods {
		if ended(&pod) {
			continue
		}
		owner := pod.UID
		for _, reference := range pod.OwnerReferences {
			if reference.Kind == "Job" {
				owner = reference.UID
			}
		}
		held[owner] = pod.Namespace
	}
	return held
}

func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

func nextNamespace(waiting map[string][]batchv1.Job, held map[string]int) string {
	best := ""
	for namespace, line := range waiting {
		if best == "" {
			best = namespace
			continue
		}
		other := waiting[best]
		if order := cmp.Or(
			cmp.Compare(held[namespace], held[best]),
			queuedAt(&line[0]).Compare(queuedAt(&other[0])),
			cmp.Compare(namespace, best),
		); order < 0 {
			best = namespace
		}
	}
	return best
}

// queuedAt is when a Job began to wait: at its creation, or when it was sent back.
func queuedAt(job *batchv1.Job) time.Time {
	if requeued := annotatedTime(job, AnnotationRequeuedAt); !requeued.IsZero() {
		return requeued
	}
	return job.CreationTimestamp.Time
}

func annotatedTime(job *batchv1.Job, annotation string) time.Time {
	at, err := time.Parse(time.RFC3339, job.Annotations[annotation])
	if err != nil {
		return time.Time{}
	}
	return at
}
