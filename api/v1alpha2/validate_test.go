package v1alpha2_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
)

// function is a Function without a fault, modified.
func function(modify ...func(*functionv1.Function)) *functionv1.Function {
	fn := &functionv1.Function{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "hello"},
		Spec:       functionv1.FunctionSpec{Runtime: "nodejs22", Source: functionv1.Source{Inline: &functionv1.Inline{Source: "x"}}},
	}
	for _, m := range modify {
		m(fn)
	}
	return fn
}

func named(name string) func(*functionv1.Function) {
	return func(fn *functionv1.Function) { fn.Name = name }
}

func withInline(runtime, source, dependencies string) func(*functionv1.Function) {
	return func(fn *functionv1.Function) {
		fn.Spec.Runtime, fn.Spec.Source.Inline = runtime, &functionv1.Inline{Source: source, Dependencies: dependencies}
	}
}

func withEnv(names ...string) func(*functionv1.Function) {
	return func(fn *functionv1.Function) {
		for _, name := range names {
			fn.Spec.Env = append(fn.Spec.Env, corev1.EnvVar{Name: name})
		}
	}
}

func withSecrets(names ...string) func(*functionv1.Function) {
	return func(fn *functionv1.Function) {
		for _, name := range names {
			fn.Spec.SecretMounts = append(fn.Spec.SecretMounts, functionv1.SecretMount{SecretName: name, MountPath: "/" + name})
		}
	}
}

func withLabel(key, value string) func(*functionv1.Function) {
	return func(fn *functionv1.Function) { fn.Spec.Labels = map[string]string{key: value} }
}

func resources(request, limit string) *functionv1.ResourceRequirements {
	own := &corev1.ResourceRequirements{Requests: corev1.ResourceList{}, Limits: corev1.ResourceList{}}
	if request != "" {
		own.Requests[corev1.ResourceMemory] = resource.MustParse(request)
	}
	if limit != "" {
		own.Limits[corev1.ResourceMemory] = resource.MustParse(limit)
	}
	return &functionv1.ResourceRequirements{Resources: own}
}

func withResources(function, build *functionv1.ResourceRequirements) func(*functionv1.Function) {
	return func(fn *functionv1.Function) {
		fn.Spec.ResourceConfiguration = &functionv1.ResourceConfiguration{Function: function, Build: build}
	}
}

func TestDefault(t *testing.T) {
	g := NewWithT(t)
	fn := function()
	functionv1.Default(fn)
	g.Expect(*fn.Spec.Replicas).To(Equal(int32(1)))
	g.Expect(*fn.Spec.RevisionHistoryLimit).To(Equal(int32(10)))

	*fn.Spec.Replicas, *fn.Spec.RevisionHistoryLimit = 0, 3
	functionv1.Default(fn)
	g.Expect(*fn.Spec.Replicas).To(BeZero(), "zero is a number of replicas")
	g.Expect(*fn.Spec.RevisionHistoryLimit).To(Equal(int32(3)))
}

func TestValidate(t *testing.T) {
	for _, row := range []struct {
		name   string
		modify func(*functionv1.Function)
		// want are the faults: the beginning of each, in order. None is none.
		want []string
	}{
		{"nothing wrong", func(*functionv1.Function) {}, nil},
		{"a Git source: its fields are checked elsewhere", func(fn *functionv1.Function) {
			fn.Spec.Source = functionv1.Source{GitRepository: &functionv1.GitRepository{}}
		}, nil},
		{"a name with a dot", named("a.b"), []string{"metadata.name: Invalid value: \"a.b\": the Function's Service has this name"}},
		{"a name that begins with a digit", named("1a"), []string{"metadata.name"}},
		{"a name of 64 signs", named(strings.Repeat("a", 64)), []string{"metadata.name"}},
		{"a name of 63 signs", named(strings.Repeat("a", 63)), nil},
		{"names of variables", withEnv("A", "a.b-C_1"), nil},
		{"a variable without a name", withEnv("A", ""), []string{"spec.env[1].name"}},
		{"a variable with an equals sign", withEnv("A=B"), []string{"spec.env[0].name"}},
		{"names of Secrets", withSecrets("a", "b.c"), nil},
		{"a Secret that none can be called", withSecrets("A_b"), []string{"spec.secretMounts[0].secretName: Invalid value"}},
		{"a Secret twice", withSecrets("a", "b", "a"), []string{"spec.secretMounts[2].secretName: Duplicate value"}},
		{"blank source", withInline("nodejs22", " \n", ""), []string{"spec.source.inline.source: Required value: the handler's code is missing"}},
		{"blank dependencies", withInline("nodejs22", "x", " \n"), nil},
		{"dependencies", withInline("nodejs22", "x", ` {"dependencies": {"lodash": "4"}} `), nil},
		{"dependencies that are a list", withInline("nodejs22", "x", "[]"), []string{"spec.source.inline.dependencies: Invalid value: must be the JSON object of a package.json"}},
		{"dependencies that are null", withInline("nodejs22", "x", "null"), []string{"spec.source.inline.dependencies: Invalid value: must be the JSON object"}},
		{"dependencies that break off", withInline("nodejs22", "x", `{"a"`), []string{"spec.source.inline.dependencies"}},
		{"requirements.txt is no JSON", withInline("python312", "x", "requests==2"), nil},
		{"a label", withLabel("example.org/a", "b"), nil},
		{"a label with a bad key", withLabel("a b", "c"), []string{"spec.labels: Invalid value: \"a b\""}},
		{"a label with a bad value", withLabel("a", "b c"), []string{"spec.labels[a]: Invalid value: \"b c\""}},
		{"a request at its limit", withResources(resources("1Gi", "1024Mi"), nil), nil},
		{"a request without a limit", withResources(resources("1Gi", ""), resources("", "1Mi")), nil},
		{"a request above its limit", withResources(resources("2Gi", "1Gi"), nil),
			[]string{"spec.resourceConfiguration.function.resources.requests.memory: Invalid value: \"2Gi\": must be at most the limit of 1Gi"}},
		{"a build's request above its limit", withResources(nil, resources("2", "1")), []string{"spec.resourceConfiguration.build.resources.requests.memory"}},
		{"all that is wrong at once", func(fn *functionv1.Function) { named("1")(fn); withEnv("=")(fn); withLabel("a", "b c")(fn) },
			[]string{"metadata.name", "spec.env[0].name", "spec.labels[a]"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			g := NewWithT(t)
			faults := functionv1.Validate(function(row.modify))
			g.Expect(faults).To(HaveLen(len(row.want)), "%v", faults)
			for i, fault := range faults {
				g.Expect(fault.Error()).To(HavePrefix(row.want[i]))
			}
		})
	}
}

func TestValidateRepeatsNoContent(t *testing.T) {
	fn := function(withInline("nodejs22", "x", `{"//": "hunter2"`))
	NewWithT(t).Expect(functionv1.Validate(fn).ToAggregate().Error()).NotTo(ContainSubstring("hunter2"))
}
