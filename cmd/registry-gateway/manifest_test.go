package main

import (
	"flag"
	"io"
	"os"
	"path"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"

	"github.com/gitfn/gitfn/registry/gateway"
)

func readPod(g *WithT) corev1.PodSpec {
	text, err := os.ReadFile("../../config/registry/deployment.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	deployment := &appsv1.Deployment{}
	g.Expect(yaml.UnmarshalStrict(text, deployment)).To(Succeed())
	return deployment.Spec.Template.Spec
}

func TestRegistryPodIsRestricted(t *testing.T) {
	g := NewWithT(t)
	spec := readPod(g)
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	g.Expect(err).NotTo(HaveOccurred())
	level := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	result := policy.AggregateCheckResults(evaluator.EvaluatePod(level, &metav1.ObjectMeta{}, &spec))
	g.Expect(result.Allowed).To(BeTrue(), result.ForbiddenDetail())
}

// What the gateway, the registry and the Pod must agree on.
func TestRegistryPodAndConfigurationFit(t *testing.T) {
	g := NewWithT(t)
	spec := readPod(g)
	o := defaults()
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	o.bind(flags)
	at := slices.IndexFunc(spec.Containers, func(c corev1.Container) bool { return c.Name == "gateway" })
	g.Expect(flags.Parse(spec.Containers[at].Args)).To(Succeed())
	g.Expect(o.Validate()).To(Succeed())
	g.Expect(mountPaths(spec.Containers[at])).To(ContainElement(path.Dir(o.KeyFile)))
	g.Expect(mountPaths(spec.InitContainers[0])).To(ConsistOf(path.Dir(o.KeyFile), path.Dir(o.JWKSFile)))

	text, err := os.ReadFile("../../config/registry/config.yml")
	g.Expect(err).NotTo(HaveOccurred())
	var config struct {
		HTTP struct{ Addr string }
		Auth struct {
			Token struct{ Service, Issuer, JWKS, AutoRedirectPath string }
		}
	}
	g.Expect(yaml.Unmarshal(text, &config)).To(Succeed())
	g.Expect(o.Registry).To(Equal("http://" + config.HTTP.Addr))
	g.Expect(config.Auth.Token.Service).To(Equal(gateway.Service))
	g.Expect(config.Auth.Token.Issuer).To(Equal(gateway.Issuer))
	g.Expect(config.Auth.Token.AutoRedirectPath).To(Equal(gateway.TokenPath))
	g.Expect(config.Auth.Token.JWKS).To(Equal(o.JWKSFile))
}

func mountPaths(c corev1.Container) []string {
	var paths []string
	for _, mount := range c.VolumeMounts {
		paths = append(paths, mount.MountPath)
	}
	return paths
}
