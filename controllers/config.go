package controllers

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gitfn/gitfn/builder/job"
	"github.com/gitfn/gitfn/registry"
	"github.com/gitfn/gitfn/registry/tenant"
)

// Names of what gitfn puts into the namespaces of Functions.
const (
	// SecretPush holds the credential that may pull and push images of its
	// namespace; nodes pull with it, builds push with it.
	SecretPush = "serverless-registry-config-default"
	// SecretPull holds the credential that may only pull them.
	SecretPull = "serverless-registry-config-pull"
	// SecretPackages is made by users: .npmrc, pip.conf.
	SecretPackages = "serverless-package-registry-config"
	// ServiceAccount runs builds and Functions. It has no rights and no token.
	ServiceAccount = "serverless-function"
	// ConfigMapTrust holds further certificate authorities for builds.
	ConfigMapTrust = "serverless-trust-bundle"
)

// Config is what the administrator decides for all Functions of the cluster.
type Config struct {
	// Namespace is gitfn's own. Its hint Secrets wake every Function.
	Namespace string
	// Registry is where images are pushed to and pulled from.
	Registry registry.Address
	// RegistryKey derives the credentials of the namespaces.
	RegistryKey tenant.Key
	// BuilderImage is the image of the build program, as nodes pull it.
	BuilderImage string
	// HintURL is where builds say that they have pushed.
	HintURL string
	// TrustBundle are further certificate authorities, PEM, for Git and for builds.
	TrustBundle []byte
	// AllowAddresses are CIDRs that may be connected to for a user although they
	// look like the inside of the cluster.
	AllowAddresses []string
	// DenyAddresses are CIDRs that may not: the cluster's own.
	DenyAddresses []string
	// Proxy is the URL of a proxy in front of Git servers and registries, without a
	// user or a password. NoProxy lists the hosts that are reached without it.
	Proxy, NoProxy string
	// PollInterval is how often sources without an own interval are looked at;
	// MinPollInterval bounds what Functions may ask for.
	PollInterval, MinPollInterval time.Duration
	// BuildTimeouts limit the stages of a build.
	BuildTimeouts job.Timeouts
	// FunctionPresets and BuildPresets map profile names to resources; the
	// defaults name the profile of Functions that say nothing.
	FunctionPresets, BuildPresets             map[string]corev1.ResourceRequirements
	DefaultFunctionPreset, DefaultBuildPreset string
	// TargetCPU is the share of the requested CPU, in percent, that autoscalers aim at.
	TargetCPU int32
	// TraceEndpoint and PublisherAddress are handed to Functions.
	TraceEndpoint, PublisherAddress string
}

// custom is the profile name in status when resources are given in full.
const custom = "custom"

// FunctionResources are the resources of a Function's Pods, and the profile's name.
func (c Config) FunctionResources(profile string, own *corev1.ResourceRequirements) (corev1.ResourceRequirements, string) {
	return pick(c.FunctionPresets, c.DefaultFunctionPreset, profile, own)
}

// BuildResources are the resources of a build Pod, and the profile's name.
func (c Config) BuildResources(profile string, own *corev1.ResourceRequirements) (corev1.ResourceRequirements, string) {
	return pick(c.BuildPresets, c.DefaultBuildPreset, profile, own)
}

func pick(presets map[string]corev1.ResourceRequirements, fallback, profile string, own *corev1.ResourceRequirements) (corev1.ResourceRequirements, string) {
	if preset, found := presets[profile]; found {
		return preset, profile
	}
	if own != nil {
		return *own, custom
	}
	return presets[fallback], fallback
}
