package rollout_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"

	"github.com/gitfn/gitfn/rollout"
	"github.com/gitfn/gitfn/runtimes"
)

var update = flag.Bool("update", false, "write the golden files")

func settings(modify ...func(*rollout.Settings)) rollout.Settings {
	s := rollout.Settings{
		Namespace: "shop", Name: "cart", UID: "0a1b",
		Owner: metav1.OwnerReference{
			APIVersion: "serverless.kyma-project.io/v1alpha2", Kind: "Function", Name: "cart", UID: "0a1b",
			Controller: new(true), BlockOwnerDeletion: new(true),
		},
		Image:    "localhost:32137/shop/cart@sha256:1111111111111111111111111111111111111111111111111111111111111111",
		Revision: "main@sha1:4f1c", Commit: "4f1c", Tree: "77aa",
		Runtime:        runtimes.Default()["nodejs22"],
		Replicas:       1,
		ServiceAccount: "serverless-function",
	}
	for _, m := range modify {
		m(&s)
	}
	return s
}

func full(s *rollout.Settings) {
	s.Labels = map[string]string{"team": "a", rollout.LabelUUID: "forged"}
	s.PodLabels = map[string]string{"tier": "web", rollout.LabelResource: "forged", "app.kubernetes.io/name": "forged"}
	s.PodAnnotations = map[string]string{"note": "hello", "proxy.istio.io/config": "{}"}
	s.Env = []corev1.EnvVar{
		{Name: "GREETING", Value: "first"},
		{Name: "FUNC_PORT", Value: "9000"},
		{Name: "GREETING", Value: "second"},
		{Name: "TOKEN", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: "token"}, Key: "token",
		}}},
		{Name: "FUNC_TIMEOUT", Value: "20"},
	}
	s.Replicas = 3
	s.Resources = corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: resource.MustParse("64Mi")},
		Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("150m"), corev1.ResourceMemory: resource.MustParse("256Mi")},
	}
	s.SecretMounts = []rollout.SecretMount{
		{SecretName: "db", MountPath: "/etc/db"},
		{SecretName: "db", MountPath: "/etc/db-again"},
		{SecretName: "tls.example.com", MountPath: "/etc/tls"},
		{SecretName: "tmp-dir", MountPath: "/etc/tmp"},
	}
	s.TraceEndpoint, s.PublisherAddress = "http://traces:4318/v1/traces", "http://events/publish"
	s.PodSecurityContext = &corev1.PodSecurityContext{FSGroup: new(int64(2000)), RunAsUser: new(int64(2000))}
	s.ContainerSecurityContext = &corev1.SecurityContext{
		ReadOnlyRootFilesystem: new(false), Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"NET_BIND_SERVICE"}},
	}
}

func TestManifests(t *testing.T) {
	for _, tt := range []struct {
		name, file string
		object     any
	}{
		{"the smallest Function has a Deployment", "deployment-small.yaml", rollout.Deployment(settings())},
		{"every setting has its place in the Deployment", "deployment-full.yaml", rollout.Deployment(settings(full))},
		{"a Function has a Service", "service.yaml", rollout.Service(settings(full))},
		{"a Function that scales has an autoscaler", "autoscaler.yaml", rollout.Autoscaler(settings(full), rollout.Scale{Min: 1, Max: 5, TargetCPU: 50})},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			text, err := yaml.Marshal(tt.object)
			g.Expect(err).NotTo(HaveOccurred())
			file := filepath.Join("testdata", tt.file)
			if *update {
				g.Expect(os.WriteFile(file, text, 0o644)).To(Succeed())
			}
			golden, err := os.ReadFile(file)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(string(text)).To(Equal(string(golden)), "renew with -update")
		})
	}
}

func TestEqualBoundsNeedNoAutoscaler(t *testing.T) {
	g := NewWithT(t)
	g.Expect(rollout.Autoscaler(settings(), rollout.Scale{Min: 3, Max: 3, TargetCPU: 50})).To(BeNil())
}

func TestPodsAreRestricted(t *testing.T) {
	for _, tt := range []struct {
		name     string
		settings rollout.Settings
		allowed  bool
	}{
		{"the smallest Function passes", settings(), true},
		{"one with every setting passes", settings(full), true},
		{"one that asks for root is left to the namespace to refuse", settings(func(s *rollout.Settings) {
			s.ContainerSecurityContext = &corev1.SecurityContext{Privileged: new(true)}
		}), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
			g.Expect(err).NotTo(HaveOccurred())
			pod := rollout.Deployment(tt.settings).Spec.Template
			level := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
			result := policy.AggregateCheckResults(evaluator.EvaluatePod(level, &pod.ObjectMeta, &pod.Spec))
			g.Expect(result.Allowed).To(Equal(tt.allowed), result.ForbiddenDetail())
		})
	}
}

func TestCommitAloneRestartsNoPod(t *testing.T) {
	g := NewWithT(t)
	before := rollout.Deployment(settings())
	after := rollout.Deployment(settings(func(s *rollout.Settings) {
		s.Revision, s.Commit, s.Labels = "main@sha1:99ff", "99ff", map[string]string{"team": "b"}
	}))
	g.Expect(after.Spec).To(Equal(before.Spec))
	g.Expect(after.ObjectMeta).NotTo(Equal(before.ObjectMeta))
}

func TestSelectorHasFourLabels(t *testing.T) {
	g := NewWithT(t)
	want := map[string]string{
		"serverless.kyma-project.io/function-name": "cart",
		"serverless.kyma-project.io/managed-by":    "function-controller",
		"serverless.kyma-project.io/uuid":          "0a1b",
		"serverless.kyma-project.io/resource":      "deployment",
	}
	s := settings(full)
	g.Expect(rollout.Selector(s)).To(Equal(want))
	g.Expect(rollout.Service(s).Spec.Selector).To(Equal(want))
	g.Expect(rollout.Deployment(s).Spec.Selector.MatchLabels).To(Equal(want))
}

func TestEnvironmentHasEveryNameOnce(t *testing.T) {
	g := NewWithT(t)
	var names []string
	values := map[string]string{}
	for _, v := range rollout.Deployment(settings(full)).Spec.Template.Spec.Containers[0].Env {
		names = append(names, v.Name)
		values[v.Name] = v.Value
	}
	g.Expect(names).To(Equal(strings.Fields(`GREETING TOKEN FUNC_TIMEOUT FUNC_RUNTIME HANDLER_PATH FUNC_NAME
		SERVICE_NAMESPACE TRACE_COLLECTOR_ENDPOINT PUBLISHER_PROXY_ADDRESS FUNC_HANDLER MOD_NAME FUNC_PORT`)))
	g.Expect(values).To(HaveKeyWithValue("GREETING", "second"))
	g.Expect(values).To(HaveKeyWithValue("FUNC_PORT", "8080"))
}

func TestEnvironmentOfPython(t *testing.T) {
	g := NewWithT(t)
	values := map[string]string{}
	s := settings(func(s *rollout.Settings) { s.Runtime = runtimes.Default()["python313"] })
	for _, v := range rollout.Deployment(s).Spec.Template.Spec.Containers[0].Env {
		values[v.Name] = v.Value
	}
	for name, value := range map[string]string{
		"FUNC_RUNTIME": "python313", "FUNCTION_PATH": "/kubeless", "MOD_NAME": "handler", "FUNC_HANDLER": "main",
		"PYTHONPATH": "/kubeless/lib/python3.13/site-packages:/kubeless", "PYTHONUNBUFFERED": "TRUE",
	} {
		g.Expect(values).To(HaveKeyWithValue(name, value))
	}
	g.Expect(values).NotTo(HaveKey("HANDLER_PATH"))
}

func TestGracePeriodCoversTheTimeout(t *testing.T) {
	timeout := func(values ...string) (env []corev1.EnvVar) {
		for _, value := range values {
			env = append(env, corev1.EnvVar{Name: "FUNC_TIMEOUT", Value: value})
		}
		return env
	}
	for _, tt := range []struct {
		name string
		env  []corev1.EnvVar
		want int64
	}{
		{"the server's default holds where nothing is said", nil, 190},
		{"a short timeout makes it short", timeout("2"), 12},
		{"a fraction is rounded", timeout("2.6"), 13},
		{"a long timeout makes it long", timeout("900"), 910},
		{"an endless timeout has an end", timeout("1e12"), 3610},
		{"what is no number counts as the default", timeout("soon"), 190},
		{"NaN counts as the default", timeout("NaN"), 190},
		{"nothing and less count as the default", timeout("-1"), 190},
		{"a value from elsewhere counts as the default", timeout(""), 190},
		{"the last of two counts", timeout("900", "2"), 12},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			s := settings(func(s *rollout.Settings) { s.Env = tt.env })
			g.Expect(rollout.Deployment(s).Spec.Template.Spec.TerminationGracePeriodSeconds).To(HaveValue(Equal(tt.want)))
		})
	}
}

func TestSettingsAreNotTouched(t *testing.T) {
	g := NewWithT(t)
	s := settings(full)
	d := rollout.Deployment(s)
	d.Labels["team"], d.Spec.Template.Annotations["note"] = "changed", "changed"
	*d.Spec.Template.Spec.SecurityContext.FSGroup = 1
	d.Spec.Template.Spec.Containers[0].Env[0].Value = "changed"
	*d.Spec.Replicas = 9
	g.Expect(s).To(Equal(settings(full)))
}
