package main

import (
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/gitfn/gitfn/gitsource/dialer"
)

// Options are where the manager finds its configuration and what it listens on.
type Options struct {
	// ConfigFile holds a Configuration as YAML.
	ConfigFile string
	// TrustBundleFile holds further certificate authorities, PEM; it may be missing.
	TrustBundleFile string
	// MirrorDir is a directory on disk for mirrors of Git repositories.
	MirrorDir string
	// Namespace and Pod are the manager's own.
	Namespace, Pod string
	// MetricsAddress, HealthAddress, HooksAddress and BuiltAddress are listened on.
	MetricsAddress, HealthAddress, HooksAddress, BuiltAddress string
	// LeaderElection must be on when there is more than one replica.
	LeaderElection bool
	// LogLevel is 0, or 1 for debugging.
	LogLevel int
}

// Bind gives each option its flag and default.
func (o *Options) Bind(flags *flag.FlagSet) {
	flags.StringVar(&o.ConfigFile, "config", "/etc/gitfn/config/config.yaml", "file with the configuration, YAML")
	flags.StringVar(&o.TrustBundleFile, "trust-bundle", "/etc/gitfn/trust/ca.crt", "file with further certificate authorities, PEM; may be missing")
	flags.StringVar(&o.MirrorDir, "mirror-dir", "/var/cache/gitfn", "directory for mirrors of Git repositories")
	flags.StringVar(&o.Namespace, "namespace", "gitfn-system", "the namespace of gitfn itself")
	flags.StringVar(&o.Pod, "pod", "", "the name of this Pod, to label it as the leader; empty outside of a cluster")
	flags.StringVar(&o.MetricsAddress, "metrics-address", ":8080", "address of the metrics")
	flags.StringVar(&o.HealthAddress, "health-address", ":8081", "address of /healthz and /readyz")
	flags.StringVar(&o.HooksAddress, "hooks-address", ":8090", "address that takes push hints of forges")
	flags.StringVar(&o.BuiltAddress, "built-address", ":8091", "address that takes the hints of builds")
	flags.BoolVar(&o.LeaderElection, "leader-election", true, "work only while holding the lease")
	flags.IntVar(&o.LogLevel, "log-level", 0, "0, or 1 for debugging")
}

// Configuration is what the administrator decides. An unknown field is an error.
type Configuration struct {
	Registry struct {
		// PushAddress and PullAddress are the registry as build Pods and as
		// nodes reach it, host:port.
		PushAddress string `json:"pushAddress"`
		PullAddress string `json:"pullAddress"`
		// PlainHTTP is true if the registry speaks HTTP without TLS.
		PlainHTTP bool `json:"plainHTTP"`
	} `json:"registry"`
	Proxy struct {
		// URL is an http or https proxy in front of Git servers and registries,
		// without a user or a password: it stands in every build Job. Its own
		// address may be any. The environment is not looked at.
		URL string `json:"url"`
		// NoProxy lists the hosts that are reached without it, as in NO_PROXY.
		// Names of the cluster (.svc, .cluster.local) need not be listed.
		NoProxy string `json:"noProxy"`
	} `json:"proxy"`
	// BuilderImage is the image of the build program, as nodes pull it.
	BuilderImage string `json:"builderImage"`
	// RuntimeImages maps runtimes to their base images, by digest.
	RuntimeImages map[string]string `json:"runtimeImages"`
	Git           struct {
		// Interval is how often sources are polled that say nothing else, at
		// least MinInterval.
		Interval    metav1.Duration `json:"interval"`
		MinInterval metav1.Duration `json:"minInterval"`
		// HostInterval is the least time between two requests for refs to one
		// host, whatever repositories. Zero means no limit.
		HostInterval metav1.Duration `json:"hostInterval"`
		// AllowAddresses are CIDRs that Git servers, forges' APIs, users' proxies
		// and foreign registries may be in although they are refused.
		// DenyAddresses are refused besides loopback, link-local and metadata
		// addresses, and the ranges of the cluster that Kubernetes tells.
		AllowAddresses []string `json:"allowAddresses"`
		DenyAddresses  []string `json:"denyAddresses"`
		// MirrorSize bounds the disk that mirrors take.
		MirrorSize resource.Quantity `json:"mirrorSize"`
	} `json:"git"`
	Builds struct {
		// Concurrency is how many builds run at once.
		Concurrency int `json:"concurrency"`
		// HintURL is where builds say that they have pushed.
		HintURL string `json:"hintURL"`
		// DefaultPreset is for Functions that name none.
		DefaultPreset string `json:"defaultPreset"`
		// Presets are added to, or replace, those of the Function API.
		Presets map[string]corev1.ResourceRequirements `json:"presets"`
		// Timeout limits each stage of a build.
		Timeout metav1.Duration `json:"timeout"`
	} `json:"builds"`
	Functions struct {
		// DefaultPreset is for Functions that name none.
		DefaultPreset string `json:"defaultPreset"`
		// Presets are added to, or replace, those of the Function API.
		Presets map[string]corev1.ResourceRequirements `json:"presets"`
		// TargetCPUUtilizationPercentage is what autoscalers aim at, in
		// percent of the CPU that Pods request.
		TargetCPUUtilizationPercentage int32 `json:"targetCPUUtilizationPercentage"`
		// TraceEndpoint and PublisherAddress are handed to Functions.
		TraceEndpoint    string `json:"traceEndpoint"`
		PublisherAddress string `json:"publisherAddress"`
	} `json:"functions"`
}

// DefaultConfiguration is what holds where the file says nothing.
func DefaultConfiguration() Configuration {
	var c Configuration
	c.Git.Interval.Duration = time.Minute
	c.Git.MinInterval.Duration = 5 * time.Second
	c.Git.HostInterval.Duration = 20 * time.Millisecond
	c.Git.MirrorSize = resource.MustParse("2Gi")
	c.Builds.Concurrency = 5
	c.Builds.DefaultPreset = "normal"
	c.Builds.Timeout.Duration = 10 * time.Minute
	c.Functions.DefaultPreset = "L"
	c.Functions.TargetCPUUtilizationPercentage = 50
	return c
}

// ReadConfiguration reads a file over the defaults and checks it.
func ReadConfiguration(file string) (Configuration, error) {
	c := DefaultConfiguration()
	text, err := os.ReadFile(file)
	if err != nil {
		return c, fmt.Errorf("read configuration: %w", err)
	}
	if err := yaml.UnmarshalStrict(text, &c); err != nil {
		return c, fmt.Errorf("read configuration %s: %w", file, err)
	}
	if err := c.Validate(); err != nil {
		return c, fmt.Errorf("check configuration %s: %w", file, err)
	}
	return c, nil
}

// Validate returns every fault, each with the name of its field.
func (c Configuration) Validate() error {
	var faults []error
	for name, value := range map[string]string{
		"registry.pushAddress": c.Registry.PushAddress,
		"registry.pullAddress": c.Registry.PullAddress,
		"builderImage":         c.BuilderImage,
	} {
		if value == "" {
			faults = append(faults, fmt.Errorf("%s is missing", name))
		}
	}
	if c.Builds.Concurrency < 1 {
		faults = append(faults, fmt.Errorf("builds.concurrency is %d: it must be at least 1", c.Builds.Concurrency))
	}
	if c.Git.Interval.Duration < c.Git.MinInterval.Duration || c.Git.MinInterval.Duration <= 0 {
		faults = append(faults, errors.New("git.interval must be at least git.minInterval, and that above zero"))
	}
	if c.Functions.TargetCPUUtilizationPercentage < 1 {
		faults = append(faults, fmt.Errorf("functions.targetCPUUtilizationPercentage is %d: it must be at least 1", c.Functions.TargetCPUUtilizationPercentage))
	}
	if c.Proxy.URL != "" {
		if at, err := dialer.ParseProxy(c.Proxy.URL); err != nil {
			faults = append(faults, fmt.Errorf("proxy.url: %w", err))
		} else if at.User != nil {
			faults = append(faults, errors.New("proxy.url has a user in it: it stands in build Jobs, where users read it; let the proxy know gitfn by its address"))
		}
	}
	for _, list := range [][]string{c.Git.AllowAddresses, c.Git.DenyAddresses} {
		if _, err := prefixes(list); err != nil {
			faults = append(faults, err)
		}
	}
	return errors.Join(faults...)
}

func prefixes(list []string) ([]netip.Prefix, error) {
	var all []netip.Prefix
	for _, text := range list {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("read address range: %w", err)
		}
		all = append(all, prefix)
	}
	return all, nil
}
