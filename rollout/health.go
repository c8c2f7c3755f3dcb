package rollout

import (
	"cmp"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// State is the sum of a Health.
type State string

const (
	// Ready means that the wanted image serves and no older Pod does. A
	// Function scaled to zero is ready too.
	Ready State = "Ready"
	// Progressing means that it may become ready by itself.
	Progressing State = "Progressing"
	// Failed means that it will not become ready unless somebody changes something.
	// It is what is seen now, not a verdict: the next look may say otherwise.
	Failed State = "Failed"
)

// Reasons of the contract's condition Running.
const (
	ReasonReady        = "DeploymentReady"
	ReasonWaiting      = "DeploymentWaiting"
	ReasonNotAvailable = "MinReplicasNotAvailable"
	ReasonFailed       = "DeploymentFailed"
)

// Health says how far a rollout is.
type Health struct {
	State State
	// Reason is one of the words above.
	Reason string
	// Message is one sentence for a person, with what the Pods say.
	Message string
	// Starting is set while a rollout that was finished has no Pod that serves,
	// and none with a problem: as after scaling up from zero.
	Starting bool
}

// Assess compares the Deployment with the image that should run. The Pods are
// those of the Deployment, of all its versions; they only make the message
// better and a crash known sooner, and may be missing. Nil is a Deployment that
// is not there yet.
//
// A finished rollout stays Ready while it is scaled, as long as one Pod serves
// and none has a problem.
func Assess(d *appsv1.Deployment, wantImage string, pods []corev1.Pod) Health {
	if d == nil {
		return waiting("the Deployment is not there yet")
	}
	if image := imageOf(d.Spec.Template.Spec); image != wantImage {
		return waiting(fmt.Sprintf("the Deployment still has image %s", image))
	}
	if d.Status.ObservedGeneration < d.Generation {
		return waiting("the Deployment has changed, and its controller has not looked yet")
	}
	problem := refusal(d)
	if problem == nil {
		problem = worst(wantImage, pods)
	}
	if failure, failed := failure(d, problem); failed {
		return failure
	}
	return progress(d, problem)
}

// failure is for what does not pass by itself.
func failure(d *appsv1.Deployment, problem *problem) (Health, bool) {
	if c := condition(d, appsv1.DeploymentProgressing); c != nil && c.Status == corev1.ConditionFalse && c.Reason == "ProgressDeadlineExceeded" {
		message := "Timeout: the new version did not become ready in time: "
		if problem == nil {
			return Health{State: Failed, Reason: ReasonFailed, Message: message + counts(d)}, true
		}
		return Health{State: Failed, Reason: ReasonFailed, Message: message + problem.sentence}, true
	}
	// One Pod of many that crashes does not make a version a failure that has served before.
	if problem != nil && problem.lasting && !finished(d) {
		return Health{State: Failed, Reason: ReasonFailed, Message: problem.String()}, true
	}
	return Health{}, false
}

// refusal is quota, Pod Security or a webhook: then there is no Pod to ask.
func refusal(d *appsv1.Deployment) *problem {
	c := condition(d, appsv1.DeploymentReplicaFailure)
	if c == nil || c.Status != corev1.ConditionTrue {
		return nil
	}
	return &problem{class: "PodRefused", sentence: "the cluster refuses a Pod: " + tidy(c.Message), lasting: true}
}

func progress(d *appsv1.Deployment, problem *problem) Health {
	wanted, available := replicas(d), d.Status.AvailableReplicas
	switch {
	case wanted == 0 && d.Status.Replicas == 0:
		return Health{State: Ready, Reason: ReasonReady, Message: "scaled to zero"}
	case finished(d) && wanted == 0:
		return Health{State: Ready, Reason: ReasonReady, Message: fmt.Sprintf("scaling to zero, %d replicas left", d.Status.Replicas)}
	case finished(d) && available >= wanted && d.Status.UpdatedReplicas == wanted:
		return Health{State: Ready, Reason: ReasonReady, Message: counts(d)}
	case finished(d) && available > 0 && problem == nil:
		return Health{State: Ready, Reason: ReasonReady, Message: counts(d) + ", others come or go"}
	}
	h := waiting(counts(d))
	if c := condition(d, appsv1.DeploymentAvailable); c != nil && c.Status == corev1.ConditionFalse {
		h.Reason = ReasonNotAvailable
	}
	if problem != nil {
		h.Message += "; " + problem.sentence
	}
	h.Starting = problem == nil && finished(d)
	return h
}

// finished means that the rollout came to its end once, and that all Pods that
// are not going already are of the newest version.
func finished(d *appsv1.Deployment) bool {
	c := condition(d, appsv1.DeploymentProgressing)
	return c != nil && c.Status == corev1.ConditionTrue && c.Reason == "NewReplicaSetAvailable" &&
		d.Status.Replicas == d.Status.UpdatedReplicas
}

func waiting(message string) Health {
	return Health{State: Progressing, Reason: ReasonWaiting, Message: message}
}

func replicas(d *appsv1.Deployment) int32 {
	if d.Spec.Replicas == nil {
		return 1
	}
	return *d.Spec.Replicas
}

func counts(d *appsv1.Deployment) string {
	text := fmt.Sprintf("%d of %d replicas available", min(d.Status.AvailableReplicas, d.Status.UpdatedReplicas), replicas(d))
	if old := d.Status.Replicas - d.Status.UpdatedReplicas; old > 0 {
		text += fmt.Sprintf(", %d of an older version", old)
	}
	return text
}

func condition(d *appsv1.Deployment, kind appsv1.DeploymentConditionType) *appsv1.DeploymentCondition {
	for i := range d.Status.Conditions {
		if d.Status.Conditions[i].Type == kind {
			return &d.Status.Conditions[i]
		}
	}
	return nil
}

func imageOf(spec corev1.PodSpec) string {
	for _, c := range spec.Containers {
		if c.Name == ContainerName {
			return c.Image
		}
	}
	return ""
}

// worst is the problem of the newest Pod that has one, lasting ones first. Pods
// of other images and those that are going do not count.
func worst(wantImage string, pods []corev1.Pod) *problem {
	newest := slices.Clone(pods)
	slices.SortStableFunc(newest, func(a, b corev1.Pod) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	var found *problem
	for i := range newest {
		pod := &newest[i]
		if pod.DeletionTimestamp != nil || imageOf(pod.Spec) != wantImage {
			continue
		}
		p := diagnose(pod)
		if p != nil && (found == nil || p.lasting && !found.lasting) {
			found = p
		}
	}
	return found
}
