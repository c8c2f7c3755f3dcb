package main

import (
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	psaapi "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"

	"github.com/gitfn/gitfn/registry/tenant"
)

const complete = `
registry: {pushAddress: "registry.svc:5000", pullAddress: "localhost:32137", plainHTTP: true}
builderImage: builder:1
`

func TestReadConfiguration(t *testing.T) {
	rows := []struct{ name, text, err string }{
		{name: "what is needed is enough", text: complete},
		{name: "an unknown field is an error, not a setting without effect", text: complete + "bilds: {}\n", err: `unknown field "bilds"`},
		{name: "every missing field is named", text: "{}", err: "registry.pushAddress is missing"},
		{name: "no builds at once would build nothing", text: complete + "builds: {concurrency: 0}\n", err: "builds.concurrency is 0: it must be at least 1"},
		{name: "an interval below the least is refused", text: complete + "git: {interval: 1s}\n", err: "git.interval must be at least git.minInterval"},
		{name: "an address range that is none is refused", text: complete + "git: {allowAddresses: [10.0.0.1]}\n", err: "read address range"},
		{name: "a proxy is taken", text: complete + "proxy: {url: 'http://proxy.example:3128', noProxy: '.example'}\n"},
		{name: "a proxy that is none is refused", text: complete + "proxy: {url: 'proxy.example:3128'}\n", err: "proxy.url: it is no http or https URL"},
		{name: "a proxy with a password is refused", text: complete + "proxy: {url: 'http://u:canary@proxy.example:3128'}\n", err: "proxy.url has a user in it"},
		{name: "a file that is no YAML is refused", text: "{", err: "read configuration"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			g := NewWithT(t)
			file := filepath.Join(t.TempDir(), "config.yaml")
			g.Expect(os.WriteFile(file, []byte(row.text), 0o600)).To(Succeed())
			c, err := ReadConfiguration(file)
			if row.err != "" {
				g.Expect(err).To(MatchError(ContainSubstring(row.err)))
				g.Expect(err.Error()).NotTo(ContainSubstring("canary"))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(c.Git.Interval.Duration).To(Equal(time.Minute), "the default")
			g.Expect(c.Builds.Concurrency).To(Equal(5), "the default")
		})
	}
}

func TestShippedConfigurationIsComplete(t *testing.T) {
	_, err := ReadConfiguration("../../config/manager/config.yaml")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
}

func TestTranslate(t *testing.T) {
	g := NewWithT(t)
	file := filepath.Join(t.TempDir(), "config.yaml")
	g.Expect(os.WriteFile(file, []byte(complete+`
builds: {presets: {slow: {requests: {cpu: 1}}, huge: {requests: {cpu: 8}}}}
git: {allowAddresses: [10.0.0.0/8], denyAddresses: [10.96.0.0/16]}
proxy: {url: "http://proxy.example:3128", noProxy: git.example}
`), 0o600)).To(Succeed())
	c, err := ReadConfiguration(file)
	g.Expect(err).NotTo(HaveOccurred())
	settings, err := translate(Options{Namespace: "gitfn-system", TrustBundleFile: filepath.Join(t.TempDir(), "none")}, c, tenant.NewKey())
	g.Expect(err).NotTo(HaveOccurred(), "a trust bundle may be missing")
	g.Expect(settings.BuildPresets).To(HaveKey("huge"))
	g.Expect(settings.BuildPresets).To(HaveKey("fast"), "shipped presets stay")
	own := settings.BuildPresets["slow"].Requests[corev1.ResourceCPU]
	g.Expect(own.String()).To(Equal("1"), "an own preset wins")
	g.Expect(settings.DenyAddresses).To(Equal([]string{"10.96.0.0/16"}))
	g.Expect(settings.NoProxy).To(Equal("git.example,.svc,.cluster.local"), "what is in the cluster goes without")
	git, err := gitClient(Options{MirrorDir: t.TempDir()}, c, settings, nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(git).NotTo(BeNil())
	_, err = registryClient(settings)
	g.Expect(err).NotTo(HaveOccurred())
	shipped := buildPresets["slow"].Requests[corev1.ResourceCPU]
	g.Expect(shipped.String()).To(Equal("200m"), "the shipped table stays as it is")
}

// TestDeployment reads the manifest as it is shipped.
func TestDeployment(t *testing.T) {
	g := NewWithT(t)
	var deployment appsv1.Deployment
	read(g, "../../config/manager/deployment.yaml", &deployment)
	container := deployment.Spec.Template.Spec.Containers[0]

	var options Options
	flags := flag.NewFlagSet("manager", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	options.Bind(flags)
	g.Expect(flags.Parse(container.Args)).To(Succeed(), "the program knows its arguments")

	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	g.Expect(err).NotTo(HaveOccurred())
	level := psaapi.LevelVersion{Level: psaapi.LevelRestricted, Version: psaapi.LatestVersion()}
	for _, result := range evaluator.EvaluatePod(level, &deployment.Spec.Template.ObjectMeta, &deployment.Spec.Template.Spec) {
		g.Expect(result.Allowed).To(BeTrue(), result.ForbiddenDetail)
	}
}

func TestRolesHaveNoWildcards(t *testing.T) {
	g := NewWithT(t)
	text, err := os.ReadFile("../../config/rbac/role.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var role rbacv1.ClusterRole
		g.Expect(yaml.Unmarshal([]byte(document), &role)).To(Succeed())
		for _, rule := range role.Rules {
			g.Expect(append(append(rule.Verbs, rule.Resources...), rule.APIGroups...)).NotTo(ContainElement("*"))
		}
	}
}

func read(g *WithT, file string, into any) {
	text, err := os.ReadFile(file)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(yaml.UnmarshalStrict(text, into)).To(Succeed())
}

func TestLogLevelHasABound(t *testing.T) {
	err := run(t.Context(), Options{LogLevel: 8})
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring("--log-level is 8")), "client libraries would log Secrets")
}
