// Package rollout turns a digest into running Pods, as values.
//
// In go the settings of a Function and the digest of its image; out come the
// Deployment, Service, autoscaler and disruption budget that should exist, fit for server-side apply, and
// from the Deployment and Pods that do exist, how healthy they are. It never
// calls a cluster and knows no clock.
package rollout

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gitfn/gitfn/runtimes"
)

// Settings is all that the children of a Function depend on.
type Settings struct {
	Namespace, Name, UID string
	// Owner is the controller reference that the children carry.
	Owner metav1.OwnerReference
	// Labels are the Function's own, metadata.labels.
	Labels map[string]string
	// PodLabels and PodAnnotations are spec.labels and spec.annotations.
	PodLabels, PodAnnotations map[string]string

	// Image is the address that nodes pull from, by digest.
	Image string
	// Revision, Commit and Tree say what the image was built from. They stand
	// on the Deployment's metadata only: a commit that changes nothing must not
	// restart a Pod. The empty string leaves the annotation away.
	Revision, Commit, Tree string

	Runtime   runtimes.Runtime
	Env       []corev1.EnvVar
	Replicas  int32
	Resources corev1.ResourceRequirements
	// SecretMounts are Secrets of the namespace that the Function sees as files.
	SecretMounts []SecretMount
	// SecretsSum is another when a Secret that the Pods read changes: then they
	// are replaced. Empty is none.
	SecretsSum string
	// Only makes the Service select Pods of this pod-template-hash alone, while
	// others that bear the same labels leave. Empty selects all.
	Only string
	// ServiceAccount brings the pull credential. Its token is not mounted.
	ServiceAccount string
	// TraceEndpoint and PublisherAddress may be empty: then the server neither traces nor publishes.
	TraceEndpoint, PublisherAddress string
	// PodSecurityContext and ContainerSecurityContext are laid over the
	// defaults field by field. Nil changes nothing.
	PodSecurityContext       *corev1.PodSecurityContext
	ContainerSecurityContext *corev1.SecurityContext
}

// SecretMount shows a Secret as files under a path.
type SecretMount struct{ SecretName, MountPath string }
