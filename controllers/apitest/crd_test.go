package apitest

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
)

// manifest is a Function with this spec, as kubectl would send it.
func (w *world) manifest(spec string) *unstructured.Unstructured {
	w.t.Helper()
	u := &unstructured.Unstructured{}
	w.Expect(yaml.Unmarshal([]byte("spec: {"+spec+"}"), &u.Object)).To(Succeed())
	u.SetGroupVersionKind(functionv1.GroupVersion.WithKind("Function"))
	u.SetNamespace(w.namespace)
	u.SetGenerateName("fn-")
	return u
}

const (
	runtimeAndInline = "runtime: nodejs22, source: {inline: {source: x}}"
	git              = "runtime: nodejs22, source: {gitRepository: {url: 'https://git.example/fn.git', baseDir: /, reference: main"
)

func TestManifestsThatTheAPIRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, row := range map[string]struct{ spec, message string }{
		"no runtime":                         {"source: {inline: {source: x}}", "spec.runtime: Required value"},
		"no source":                          {"runtime: nodejs22", "spec.source: Required value"},
		"a source that is none":              {"runtime: nodejs22, source: {}", "set exactly one of gitRepository and inline"},
		"two sources":                        {git + "}, inline: {source: x}}", "set exactly one of gitRepository and inline"},
		"empty inline source":                {"runtime: nodejs22, source: {inline: {source: ''}}", "spec.source.inline.source"},
		"no URL":                             {"runtime: nodejs22, source: {gitRepository: {baseDir: /, reference: main}}", "url: Required value"},
		"no base directory":                  {"runtime: nodejs22, source: {gitRepository: {url: x, reference: main}}", "baseDir is required: use / for the root"},
		"blank base directory":               {"runtime: nodejs22, source: {gitRepository: {url: x, reference: main, baseDir: '  '}}", "baseDir is required"},
		"no reference":                       {"runtime: nodejs22, source: {gitRepository: {url: x, baseDir: /}}", "reference is required: a branch, a tag or a full commit id"},
		"blank reference":                    {"runtime: nodejs22, source: {gitRepository: {url: x, baseDir: /, reference: ' '}}", "reference is required"},
		"interval and schedule":              {git + ", interval: 1m, schedule: '* * * * *'}}", "set at most one of interval and schedule"},
		"unknown kind of credentials":        {git + ", auth: {type: magic, secretName: s}}}", `Unsupported value: "magic"`},
		"credentials without a Secret":       {git + ", auth: {type: basic, secretName: ' '}}}", "secretName must not be blank"},
		"a variable of the runtime's own":    {runtimeAndInline + ", env: [{name: FUNC_PORT, value: '1'}]", "env may not set FUNC_RUNTIME, FUNC_HANDLER, FUNC_PORT"},
		"a profile that is none":             {runtimeAndInline + ", resourceConfiguration: {function: {profile: XXL}}", "profile must be one of XS, S, M, L, XL"},
		"an empty resource configuration":    {runtimeAndInline + ", resourceConfiguration: {function: {}}", "set exactly one of profile and resources"},
		"profile and resources":              {runtimeAndInline + ", resourceConfiguration: {build: {profile: fast, resources: {}}}", "set exactly one of profile and resources"},
		"a build profile for a Function":     {runtimeAndInline + ", resourceConfiguration: {function: {profile: fast}}", "profile must be one of XS, S, M, L, XL"},
		"a Function profile for a build":     {runtimeAndInline + ", resourceConfiguration: {build: {profile: XS}}", "profile must be one of local-dev, slow, normal, fast"},
		"a lower bound above the upper":      {runtimeAndInline + ", scaleConfig: {minReplicas: 2, maxReplicas: 1}", "minReplicas must be at most maxReplicas"},
		"a scale from zero":                  {runtimeAndInline + ", scaleConfig: {minReplicas: 0, maxReplicas: 1}", "minReplicas"},
		"a scale with one bound":             {runtimeAndInline + ", scaleConfig: {minReplicas: 1}", "maxReplicas: Required value"},
		"fewer than no replicas":             {runtimeAndInline + ", replicas: -1", "spec.replicas"},
		"labels of the old template":         {runtimeAndInline + ", template: {labels: {a: b}}", "template.labels is not supported: use spec.labels"},
		"annotations of the old template":    {runtimeAndInline + ", template: {annotations: {a: b}}", "template.annotations is not supported: use spec.annotations"},
		"a Secret without a path":            {runtimeAndInline + ", secretMounts: [{secretName: s}]", "mountPath: Required value"},
		"a Secret without a name":            {runtimeAndInline + ", secretMounts: [{secretName: '', mountPath: /s}]", "secretMounts[0].secretName"},
		"a reserved label":                   {runtimeAndInline + ", labels: {serverless.kyma-project.io/uuid: x}", "labels with the prefix serverless.kyma-project.io/ are reserved"},
		"a label that is too long":           {runtimeAndInline + ", labels: {a: " + long(64) + "}", "values of labels have at most 63 characters"},
		"a reserved annotation":              {runtimeAndInline + ", annotations: {serverless.kyma-project.io/x: x}", "annotations with the prefix serverless.kyma-project.io/ are reserved"},
		"a history of nothing":               {runtimeAndInline + ", revisionHistoryLimit: 0", "spec.revisionHistoryLimit"},
		"a history that is longer than long": {runtimeAndInline + ", revisionHistoryLimit: 101", "spec.revisionHistoryLimit"},
	} {
		err := w.client.Create(w.ctx, w.manifest(row.spec))
		w.Expect(err).To(HaveOccurred(), name)
		w.Expect(err.Error()).To(ContainSubstring(row.message), name)
	}
}

func long(n int) string { return strings.Repeat("x", n) }

func TestManifestsThatTheAPITakes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, spec := range map[string]string{
		"the least":           runtimeAndInline,
		"from Git":            git + "}}",
		"all of it":           git + ", interval: 30s, auth: {type: basic, secretName: s}}}, env: [{name: A, value: b}, {name: B, valueFrom: {secretKeyRef: {name: s, key: k}}}], resourceConfiguration: {function: {profile: XS}, build: {resources: {limits: {cpu: 1}}}}, scaleConfig: {minReplicas: 1, maxReplicas: 1}, replicas: 0, secretMounts: [{secretName: s, mountPath: /s}], labels: {a: b}, annotations: {c: d}, suspend: true, pin: abcdef0, revisionHistoryLimit: 100",
		"with a schedule":     git + ", schedule: '0 * * * *'}}",
		"an unused template":  runtimeAndInline + ", template: {}",
		"a label of 63 signs": runtimeAndInline + ", labels: {a: " + long(63) + "}",
	} {
		u := w.manifest(spec)
		w.Expect(w.client.Create(w.ctx, u)).To(Succeed(), name)
		replicas, _, _ := unstructured.NestedInt64(u.Object, "spec", "replicas")
		limit, _, _ := unstructured.NestedInt64(u.Object, "spec", "revisionHistoryLimit")
		if name == "the least" {
			w.Expect(replicas).To(Equal(int64(1)))
			w.Expect(limit).To(Equal(int64(10)))
		}
	}
}

func TestScaleSubresource(t *testing.T) {
	t.Parallel()
	w, _ := servingWorld(t)
	fn, scale := &functionv1.Function{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "hello"}}, &autoscalingv1.Scale{}
	w.Expect(w.client.SubResource("scale").Get(w.ctx, fn, scale)).To(Succeed())
	w.Expect(scale.Status.Selector).To(ContainSubstring("serverless.kyma-project.io/function-name=hello"))
	w.Expect(scale.Status.Replicas).To(Equal(int32(1)))
	scale.Spec.Replicas = 4
	w.Expect(w.client.SubResource("scale").Update(w.ctx, fn, client.WithSubResourceBody(scale))).To(Succeed())
	w.pass("hello")
	w.Expect(*w.deployment("hello").Spec.Replicas).To(Equal(int32(4)))
}
