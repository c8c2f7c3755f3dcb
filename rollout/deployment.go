package rollout

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Annotations of the Deployment that say what its image was built from.
const (
	AnnotationRevision = "serverless.kyma-project.io/revision"
	AnnotationCommit   = "serverless.kyma-project.io/commit"
	AnnotationTree     = "serverless.kyma-project.io/tree"
)

// AnnotationSecrets stands on the Pods, and stands for the content of the
// Secrets that they read.
const AnnotationSecrets = "serverless.kyma-project.io/secrets"

// ContainerName is the container that runs the Function.
const ContainerName = "function"

const (
	serverPort = 8080
	// userID is neither root nor anybody of the base images.
	userID = 10001
	// tmpVolume is the only place that a Function may write to.
	tmpVolume, tmpPath, tmpSize = "tmp-dir", "/tmp", "100Mi"
	// secretMode lets the server's user read what root owns.
	secretMode = 0o666

	revisionHistoryLimit = 10
	// progressDeadline is the seconds after which a rollout that made no
	// progress has failed. A node may have to come first and pull a large
	// image; a Pod that crashes is reported long before, see Assess.
	progressDeadline = 600

	// farewell is how many seconds a Pod that is going still takes requests,
	// until every node has heard that it goes.
	farewell = 5
	// stopMargin is the seconds between the last request's end and the kill.
	stopMargin = 5
	// defaultTimeout and maxTimeout bound FUNC_TIMEOUT, in seconds. The first is the servers' default.
	defaultTimeout, maxTimeout = 180, 3600
)

// Deployment is the Deployment of a Function: all that gitfn owns of it and
// nothing else, so that it can be applied; the API drops the empty status that
// its type has. It has the Function's name.
func Deployment(s Settings) *appsv1.Deployment {
	// A quarter more, rounded up, and never a replica less: one that serves goes when another does.
	surge, unavailable := intstr.FromString("25%"), intstr.FromInt32(0)
	return &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: objectMeta(s, origin(s)),
		Spec: appsv1.DeploymentSpec{
			Replicas: new(s.Replicas),
			Selector: &metav1.LabelSelector{MatchLabels: Selector(s)},
			Strategy: appsv1.DeploymentStrategy{
				Type: appsv1.RollingUpdateDeploymentStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDeployment{
					MaxSurge: &surge, MaxUnavailable: &unavailable,
				},
			},
			RevisionHistoryLimit:    new(int32(revisionHistoryLimit)),
			ProgressDeadlineSeconds: new(int32(progressDeadline)),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: podLabels(s), Annotations: podAnnotations(s)},
				Spec:       podSpec(s),
			},
		},
	}
}

func objectMeta(s Settings, annotations map[string]string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: s.Namespace, Name: s.Name,
		Labels: Labels(s), Annotations: annotations,
		OwnerReferences: []metav1.OwnerReference{s.Owner},
	}
}

func origin(s Settings) map[string]string {
	annotations := map[string]string{}
	for name, value := range map[string]string{AnnotationRevision: s.Revision, AnnotationCommit: s.Commit, AnnotationTree: s.Tree} {
		if value != "" {
			annotations[name] = value
		}
	}
	return annotations
}

// podAnnotations end with Istio's, as the contract wants: the server must not
// start, and call out, before its proxy does.
func podAnnotations(s Settings) map[string]string {
	ours := map[string]string{"proxy.istio.io/config": `{ "holdApplicationUntilProxyStarts": true }`}
	if s.SecretsSum != "" {
		ours[AnnotationSecrets] = s.SecretsSum
	}
	return overlaid(s.PodAnnotations, ours)
}

func podSpec(s Settings) corev1.PodSpec {
	volumes, mounts := files(s.SecretMounts)
	return corev1.PodSpec{
		ServiceAccountName:            s.ServiceAccount,
		AutomountServiceAccountToken:  new(false),
		EnableServiceLinks:            new(false),
		TerminationGracePeriodSeconds: new(gracePeriod(s.Env)),
		SecurityContext: over(corev1.PodSecurityContext{
			RunAsNonRoot:   new(true),
			RunAsUser:      new(int64(userID)),
			RunAsGroup:     new(int64(userID)),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		}, s.PodSecurityContext),
		Containers:                []corev1.Container{container(s, mounts)},
		Volumes:                   volumes,
		TopologySpreadConstraints: spread(s),
	}
}

func container(s Settings, mounts []corev1.VolumeMount) corev1.Container {
	return corev1.Container{
		Name:            ContainerName,
		Image:           s.Image,
		ImagePullPolicy: corev1.PullIfNotPresent,
		Env:             environment(s),
		Ports:           []corev1.ContainerPort{{Name: "http", ContainerPort: serverPort, Protocol: corev1.ProtocolTCP}},
		Resources:       s.Resources,
		VolumeMounts:    mounts,
		StartupProbe:    probe(corev1.Probe{PeriodSeconds: 1, SuccessThreshold: 1, FailureThreshold: 150}),
		ReadinessProbe:  probe(corev1.Probe{PeriodSeconds: 5, TimeoutSeconds: 2, FailureThreshold: 1}),
		LivenessProbe:   probe(corev1.Probe{PeriodSeconds: 5, TimeoutSeconds: 4, FailureThreshold: 3}),
		Lifecycle: &corev1.Lifecycle{
			PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: farewell}},
		},
		// The last lines of a crash stand in the Pod's status, and Assess reads them.
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		SecurityContext: over(corev1.SecurityContext{
			Privileged:               new(false),
			AllowPrivilegeEscalation: new(false),
			ReadOnlyRootFilesystem:   new(true),
			Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		}, s.ContainerSecurityContext),
	}
}

func probe(p corev1.Probe) *corev1.Probe {
	p.HTTPGet = &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromInt32(serverPort)}
	return &p
}

// over lays the fields that the user set over ours, however deep; lists are replaced.
func over[T any](ours T, users *T) *T {
	text, _ := json.Marshal(users) // an API type: neither direction can fail
	_ = json.Unmarshal(text, &ours)
	return &ours
}

// environment has the contract's order. Of variables with one name the last
// counts there, and stands alone here: server-side apply takes a name once.
func environment(s Settings) []corev1.EnvVar {
	env := slices.Clone(s.Env)
	set := func(name, value string) { env = append(env, corev1.EnvVar{Name: name, Value: value}) }
	set("FUNC_RUNTIME", s.Runtime.Name)
	for _, v := range s.Runtime.Env {
		set(v.Name, v.Value)
	}
	set("FUNC_NAME", s.Name)
	set("SERVICE_NAMESPACE", s.Namespace)
	set("TRACE_COLLECTOR_ENDPOINT", s.TraceEndpoint)
	set("PUBLISHER_PROXY_ADDRESS", s.PublisherAddress)
	set("FUNC_HANDLER", "main")
	set("MOD_NAME", "handler")
	set("FUNC_PORT", strconv.Itoa(serverPort))

	last := map[string]int{}
	for i, v := range env {
		last[v.Name] = i
	}
	var once []corev1.EnvVar
	for i, v := range env {
		if last[v.Name] == i {
			once = append(once, v)
		}
	}
	return once
}

// gracePeriod lets the longest request end that the server would let run. A
// server that has none left ends at once, so that a large value costs nothing.
func gracePeriod(env []corev1.EnvVar) int64 {
	timeout := float64(defaultTimeout)
	for _, v := range env {
		if v.Name != "FUNC_TIMEOUT" {
			continue
		}
		timeout = defaultTimeout
		if given, err := strconv.ParseFloat(v.Value, 64); err == nil && given > 0 {
			timeout = min(given, maxTimeout)
		}
	}
	whole := time.Duration(timeout * float64(time.Second)).Round(time.Second)
	return farewell + int64(whole/time.Second) + stopMargin
}

// files are the writable folder and the Secrets, each volume once.
func files(secrets []SecretMount) (volumes []corev1.Volume, mounts []corev1.VolumeMount) {
	size := resource.MustParse(tmpSize)
	volumes = []corev1.Volume{{Name: tmpVolume, VolumeSource: corev1.VolumeSource{
		EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: &size},
	}}}
	mounts = []corev1.VolumeMount{{Name: tmpVolume, MountPath: tmpPath}}
	for _, secret := range secrets {
		name := volumeName(secret.SecretName)
		mounts = append(mounts, corev1.VolumeMount{Name: name, MountPath: secret.MountPath, ReadOnly: true})
		if slices.ContainsFunc(volumes, func(v corev1.Volume) bool { return v.Name == name }) {
			continue
		}
		volumes = append(volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			Secret: &corev1.SecretVolumeSource{
				SecretName: secret.SecretName, DefaultMode: new(int32(secretMode)), Optional: new(false),
			},
		}})
	}
	return volumes, mounts
}

// volumeName is the Secret's name, as the contract wants, where a volume may
// be called so: Secrets may have dots and 253 characters in their names.
func volumeName(secret string) string {
	if len(validation.IsDNS1123Label(secret)) == 0 && secret != tmpVolume {
		return secret
	}
	sum := sha256.Sum256([]byte(secret))
	return "secret-" + hex.EncodeToString(sum[:8])
}
