package rollout

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// State is the sum of a Health.
type State string

const (
	// Ready means that the wanted image serves and no older Pod does.
	Ready State = "Ready"
	// Progressing means that it may become ready by itself.
	Progressing State = "Progressing"
	// Failed means that it will not become ready unless somebody changes something.
	// It is what is seen now, not a verdict: the next look may say otherwise.
	Failed State = "Failed"
)

// Health says how far a rollout is.
type Health struct {
	State State
	// Reason is a word of the contract: DeploymentReady, DeploymentWaiting,
	// MinReplicasNotAvailable or DeploymentFailed.
	Reason string
	// Message is one sentence for a person, with what the Pods say.
	Message string
}

// Assess compares the Deployment and its Pods with the image that should run.
func Assess(d *appsv1.Deployment, wantImage string, pods []corev1.Pod) Health {
	return Health{}
}
