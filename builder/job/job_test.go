package job

import (
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	psa "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"

	"github.com/gitfn/gitfn/builder"
)

var update = flag.Bool("update", false, "write the golden files anew")

func newPlan() builder.Plan {
	return builder.Plan{
		Namespace: "shop", Name: "checkout", Tree: "4b825dc642cb6eb9a060e54bf8d69288fbee4904", Runtime: "nodejs22", Recipe: 1,
		Origin:     builder.Origin{URL: "https://git.example/fn.git", Commit: strings.Repeat("a", 40), BaseDir: "checkout"},
		Base:       "registry.svc:5000/gitfn-system/runtimes/nodejs22@sha256:" + strings.Repeat("b", 64),
		Repository: "registry.svc:5000/shop/checkout",
	}
}

func newOptions() Options {
	list := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	}
	return Options{
		BuilderImage: "localhost:32137/gitfn-system/builder@sha256:" + strings.Repeat("c", 64),
		InstallImage: "localhost:32137/gitfn-system/runtimes/nodejs22@sha256:" + strings.Repeat("b", 64),
		Owner:        metav1.OwnerReference{APIVersion: "serverless.kyma-project.io/v1alpha2", Kind: "Function", Name: "checkout", UID: "1"},
		Labels:       map[string]string{"serverless.kyma-project.io/function-name": "checkout"},
		GitSecret:    "git", GitAuth: "basic", PullSecret: "pull", PushSecret: "push", PackageSecret: "packages", TrustBundle: "trust",
		ServiceAccount: "serverless-function", HintURL: "http://manager/built", AllowAddresses: []string{"10.1.0.0/16"}, DenyAddresses: []string{"10.96.0.0/12"},
		Resources: corev1.ResourceRequirements{Requests: list("200m", "200Mi"), Limits: list("700m", "700Mi")},
		Timeouts:  Timeouts{Fetch: time.Minute, Install: 8 * time.Minute, Push: 2 * time.Minute},
		PlainHTTP: true,
	}
}

func inline(o Options) Options {
	o.GitSecret, o.InlineConfigMap = "", "checkout-source"
	return o
}

func TestGolden(t *testing.T) {
	inlinePlan := newPlan()
	inlinePlan.Origin = builder.Origin{}
	for file, job := range map[string]*batchv1.Job{
		"testdata/git.yaml":    New(newPlan(), newOptions()),
		"testdata/inline.yaml": New(inlinePlan, inline(newOptions())),
		"testdata/least.yaml":  New(inlinePlan, Options{BuilderImage: "builder", InstallImage: "nodejs22", InlineConfigMap: "source"}),
	} {
		t.Run(file, func(t *testing.T) {
			g := NewWithT(t)
			got, err := yaml.Marshal(job)
			g.Expect(err).NotTo(HaveOccurred())
			if *update {
				g.Expect(os.WriteFile(file, got, 0o644)).To(Succeed())
			}
			want, err := os.ReadFile(file)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(string(got)).To(Equal(string(want)), "go test ./builder/job -update")
		})
	}
}

func TestPodSecurity(t *testing.T) {
	g := NewWithT(t)
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	g.Expect(err).NotTo(HaveOccurred())
	restricted := psa.LevelVersion{Level: psa.LevelRestricted, Version: psa.LatestVersion()}
	for name, o := range map[string]Options{"git": newOptions(), "inline": inline(newOptions()), "least": {}} {
		pod := New(newPlan(), o).Spec.Template
		got := policy.AggregateCheckResults(evaluator.EvaluatePod(restricted, &pod.ObjectMeta, &pod.Spec))
		g.Expect(got.Allowed).To(BeTrue(), "%s: %s", name, got.ForbiddenDetail())
	}
}

func TestSecretsStayInTheirStage(t *testing.T) {
	o := newOptions()
	o.InlineConfigMap = "inline" // a source has one of the two; both must stay in fetch
	pod := New(newPlan(), o).Spec.Template.Spec
	rows := []struct {
		volume string
		in     []string
		writes []string
	}{
		{volumeGit, []string{"fetch"}, nil},
		{volumeInline, []string{"fetch"}, nil},
		{volumePull, []string{"fetch"}, nil},
		{volumePackage, []string{"install"}, nil},
		{volumePush, []string{"push"}, nil},
		{volumeTrust, []string{"fetch", "install", "push"}, nil},
		{volumeProgram, []string{"install"}, nil},
		{volumeWork, []string{"install"}, []string{"install"}},
		{volumeSource, []string{"fetch", "install", "push"}, []string{"fetch"}},
		{volumeLayers, []string{"install", "push"}, []string{"install"}},
		{volumeTmp + "fetch", []string{"fetch"}, []string{"fetch"}},
		{volumeTmp + "install", []string{"install"}, []string{"install"}},
		{volumeTmp + "push", []string{"push"}, []string{"push"}},
	}
	g := NewWithT(t)
	g.Expect(pod.Volumes).To(HaveLen(len(rows)), "a row for every volume")
	for _, row := range rows {
		t.Run(row.volume, func(t *testing.T) {
			g := NewWithT(t)
			var in, writes []string
			for _, c := range pod.Containers {
				for _, m := range c.VolumeMounts {
					if m.Name == row.volume {
						in = append(in, c.Name)
						if !m.ReadOnly {
							writes = append(writes, c.Name)
						}
					}
				}
			}
			g.Expect(in).To(ConsistOf(row.in))
			g.Expect(writes).To(Equal(row.writes))
		})
	}
	for _, c := range pod.Containers {
		for _, v := range c.Env {
			g.Expect(v.ValueFrom).To(BeNil(), "no Secret in the environment")
		}
		g.Expect(c.EnvFrom).To(BeEmpty())
	}
}

func TestResources(t *testing.T) {
	g := NewWithT(t)
	o := newOptions()
	cpu, memory := resource.Quantity{}, resource.Quantity{}
	for _, c := range New(newPlan(), o).Spec.Template.Spec.Containers {
		cpu.Add(*c.Resources.Requests.Cpu())
		memory.Add(*c.Resources.Requests.Memory())
	}
	g.Expect(cpu.Cmp(*o.Resources.Requests.Cpu())).To(BeZero(), "the preset is the Pod's total")
	g.Expect(memory.Cmp(*o.Resources.Requests.Memory())).To(BeZero())
	o.Resources.Requests[corev1.ResourceMemory] = resource.MustParse("16Mi")
	install := New(newPlan(), o).Spec.Template.Spec.Containers[2]
	g.Expect(install.Resources.Requests.Memory().Sign()).To(BeZero(), "never below nothing")
}

func TestPlanOf(t *testing.T) {
	g := NewWithT(t)
	plan := newPlan()
	plan.Rebuild, plan.Origin.BaseDir = "\"quotes\" $(GOMEMLIMIT) $$ & more", "a b/ü"
	job := New(plan, newOptions())
	text, err := json.Marshal(job)
	g.Expect(err).NotTo(HaveOccurred())
	read := &batchv1.Job{}
	g.Expect(json.Unmarshal(text, read)).To(Succeed())
	g.Expect(PlanOf(read)).To(Equal(plan))
	g.Expect(read.Spec.Template.Spec.Containers[0].Args[0]).NotTo(ContainSubstring("$"), "Kubernetes would expand it")
	_, err = PlanOf(&batchv1.Job{})
	g.Expect(err).To(HaveOccurred())
	read.Spec.Template.Spec.Containers[0].Args = []string{"--plan={"}
	_, err = PlanOf(read)
	g.Expect(err).To(HaveOccurred())
}

func TestName(t *testing.T) {
	g := NewWithT(t)
	plan := newPlan()
	key := plan.Key()[:10]
	g.Expect(Name(plan, 0)).To(Equal("checkout-build-" + key))
	g.Expect(Name(plan, 1)).To(Equal("checkout-build-" + key))
	g.Expect(Name(plan, 3)).To(Equal("checkout-build-" + key + "-3"))
	plan.Name = strings.Repeat("a", 40) + "-one"
	one := Name(plan, 1)
	plan.Name = strings.Repeat("a", 40) + "-two"
	g.Expect(Name(plan, 1)).NotTo(Equal(one), "long names of Functions with equal content stay apart")
	g.Expect(len(one)).To(BeNumerically("<=", 57))
}
