// Package job writes a build as a Kubernetes Job, and reads what its Pod told.
//
// In goes a builder.Plan with the names of the Secrets that each stage may see;
// out comes a suspended Job whose Pod passes Pod Security "restricted". The Pod
// has three containers that start together and wait for one another's word:
// fetch writes the volume "source", install reads it and writes the volume
// "layers", push reads both and writes to the registry. Nobody but fetch sees
// the Git credentials, nobody but install the package registry's, nobody but
// push the credential that may push; see package builder/executor for what they
// do. The way back is Outcome: from the Pod's container statuses to a Result or
// a StepError. The package never talks to a cluster, and puts no secret into a
// Job: only names of Secrets.
package job

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/gitfn/gitfn/builder"
)

// Options are what a build needs beyond its plan.
type Options struct {
	// BuilderImage runs fetch and push, and is mounted into install.
	BuilderImage string
	// InstallImage is the plan's base image as nodes pull it.
	InstallImage string
	// Owner is the Function: the Job goes with it.
	Owner metav1.OwnerReference
	// Labels are on the Job and on its Pod.
	Labels map[string]string

	// GitSecret holds the credentials of the Git source; empty for none. GitAuth
	// says how they are read: a gitsource.AuthKind.
	GitSecret, GitAuth string
	// InlineConfigMap holds the keys source and dependencies of an inline source.
	InlineConfigMap string
	// PullSecret and PushSecret hold .dockerconfigjson.
	PullSecret, PushSecret string
	// PackageSecret may hold .npmrc and pip.conf; it need not exist.
	PackageSecret string
	// TrustBundle is a ConfigMap with further authorities as ca.crt; empty for none.
	TrustBundle string

	// ServiceAccount runs the Pod, without a token.
	ServiceAccount string
	// HintURL is told when the push is done; empty for nobody.
	HintURL string
	// AllowAddresses are CIDRs that may be connected to although they are refused.
	AllowAddresses []string
	// DenyAddresses are CIDRs that may not be connected to: the cluster's own.
	DenyAddresses []string
	// Proxy is the URL of a proxy in front of Git servers and registries, without a
	// user or a password: it stands in the Job. NoProxy lists the hosts that are
	// reached without it.
	Proxy, NoProxy string
	// Resources are those of the whole Pod.
	Resources corev1.ResourceRequirements
	// Timeouts limit the stages.
	Timeouts Timeouts
	// Deadline limits the whole build from un-suspending; zero is the sum of the
	// stages and a minute.
	Deadline time.Duration
	// TTL is how long a finished Job stays, should nobody delete it. Zero means
	// DefaultTTL.
	TTL time.Duration
	// Attempt is part of the Job's name if it is above 1.
	Attempt int
	// PlainHTTP is true if the registry of the plan speaks no TLS.
	PlainHTTP bool
}

// Timeouts limit what each stage works, without its waiting. Zero means DefaultTimeout.
type Timeouts struct{ Fetch, Install, Push time.Duration }

// DefaultTimeout limits a stage of which nothing else is said.
const DefaultTimeout = 10 * time.Minute

func (t Timeouts) withDefaults() Timeouts {
	for _, d := range []*time.Duration{&t.Fetch, &t.Install, &t.Push} {
		if *d <= 0 {
			*d = DefaultTimeout
		}
	}
	return t
}

// DefaultTTL is how long a finished Job stays of which nothing else is said.
const DefaultTTL = time.Hour

// Name is the name of a plan's Job. It is derived, so that making it twice is
// finding it there. An attempt above 1 gives another name.
func Name(plan builder.Plan, attempt int) string {
	suffix := "-build-" + plan.Key()[:10]
	if attempt > 1 {
		suffix += "-" + strconv.Itoa(attempt)
	}
	name := plan.Name
	if room := 63 - len(suffix) - 6; len(name) > room { // the Job controller adds 6 to name the Pod
		// The key is of content alone: without the hash two long names could be one Job.
		sum := sha256.Sum256([]byte(name))
		name = strings.TrimRight(name[:room-7], "-.") + "-" + hex.EncodeToString(sum[:3])
	}
	return name + suffix
}

// New is the Job of a plan, suspended.
func New(plan builder.Plan, o Options) *batchv1.Job {
	o.Timeouts = o.Timeouts.withDefaults()
	text, err := json.Marshal(plan)
	if err != nil {
		panic(err) // strings and ints always marshal
	}
	// Kubernetes reads $(NAME) and $$ in arguments; in JSON a dollar can be written without one.
	planArgument := argumentPlan + strings.ReplaceAll(string(text), "$", `\u0024`)
	if o.Deadline <= 0 {
		o.Deadline = o.Timeouts.Fetch + o.Timeouts.Install + o.Timeouts.Push + time.Minute
	}
	if o.TTL <= 0 {
		o.TTL = DefaultTTL
	}
	return &batchv1.Job{
		TypeMeta: metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: plan.Namespace, Name: Name(plan, o.Attempt), Labels: o.Labels,
			OwnerReferences: []metav1.OwnerReference{o.Owner},
		},
		Spec: batchv1.JobSpec{
			Suspend:     ptr.To(true),
			Parallelism: ptr.To[int32](1), Completions: ptr.To[int32](1),
			BackoffLimit:            ptr.To[int32](0),
			ActiveDeadlineSeconds:   ptr.To(int64(o.Deadline.Seconds())),
			TTLSecondsAfterFinished: ptr.To(int32(o.TTL.Seconds())),
			// A Pod that is ending still holds the build's slot.
			PodReplacementPolicy: ptr.To(batchv1.Failed),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: o.Labels, Annotations: map[string]string{"sidecar.istio.io/inject": "false"}},
				Spec: corev1.PodSpec{
					RestartPolicy:                 corev1.RestartPolicyNever,
					ServiceAccountName:            o.ServiceAccount,
					AutomountServiceAccountToken:  ptr.To(false),
					EnableServiceLinks:            ptr.To(false),
					TerminationGracePeriodSeconds: ptr.To[int64](1),
					SecurityContext: &corev1.PodSecurityContext{
						RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To[int64](user), RunAsGroup: ptr.To[int64](user),
						SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
					},
					Containers: []corev1.Container{
						// The node starts them in this order, one after the other: push goes
						// before install because it reads the base image meanwhile.
						fetchContainer(planArgument, o), pushContainer(planArgument, o), installContainer(plan, planArgument, o),
					},
					Volumes: volumes(o),
				},
			},
		},
	}
}

// argumentPlan begins the argument that holds the plan.
const argumentPlan = "--plan="

// PlanOf reads the plan back from a Job.
func PlanOf(job *batchv1.Job) (builder.Plan, error) {
	for _, container := range job.Spec.Template.Spec.Containers {
		for _, argument := range container.Args {
			text, found := strings.CutPrefix(argument, argumentPlan)
			if !found {
				continue
			}
			var plan builder.Plan
			if err := json.Unmarshal([]byte(text), &plan); err != nil {
				return builder.Plan{}, fmt.Errorf("read plan of Job %s: %w", job.Name, err)
			}
			return plan, nil
		}
	}
	return builder.Plan{}, fmt.Errorf("read plan of Job %s: it has none", job.Name)
}
