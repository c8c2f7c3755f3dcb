package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
	"github.com/gitfn/gitfn/builder/job"
	"github.com/gitfn/gitfn/controllers"
	"github.com/gitfn/gitfn/gitsource"
	"github.com/gitfn/gitfn/gitsource/dialer"
	"github.com/gitfn/gitfn/gitsource/receiver"
	"github.com/gitfn/gitfn/registry"
	"github.com/gitfn/gitfn/registry/tenant"
	"github.com/gitfn/gitfn/runtimes"
)

// workers is how many Functions are looked at at once.
const workers = 8

// run wires the manager and works until ctx ends.
func run(ctx context.Context, o Options) error {
	if o.LogLevel < 0 || o.LogLevel > 1 {
		// Above it, client libraries log the bodies of requests, Secrets among them.
		return fmt.Errorf("--log-level is %d: it must be 0 or 1", o.LogLevel)
	}
	ctrl.SetLogger(logger(o.LogLevel))
	c, err := ReadConfiguration(o.ConfigFile)
	if err != nil {
		return err
	}
	mgr, err := newManager(o)
	if err != nil {
		return err
	}
	me := &self{client: mgr.GetClient(), live: mgr.GetAPIReader(), namespace: o.Namespace, pod: o.Pod}
	if err := me.unlabel(ctx); err != nil {
		return err
	}
	key, err := me.registryKey(ctx)
	if err != nil {
		return err
	}
	settings, err := translate(o, c, key)
	if err != nil {
		return err
	}
	ranges, err := controllers.ClusterRanges(ctx, mgr.GetAPIReader())
	if err != nil {
		return err
	}
	settings.DenyAddresses = append(settings.DenyAddresses, ranges...)
	catalogue, err := runtimes.Default().WithImages(c.RuntimeImages)
	if err != nil {
		return err
	}
	var waker *controllers.Waker
	git, err := gitClient(o, c, settings, func(url, reference string) { waker.Changed(url, reference) })
	if err != nil {
		return err
	}
	images, err := registryClient(settings)
	if err != nil {
		return err
	}

	counts, err := controllers.NewMetrics(metrics.Registry, git.Stats)
	if err != nil {
		return err
	}
	wake := make(chan event.TypedGenericEvent[types.NamespacedName], 1024)
	hints, places := &controllers.Hints{}, &controllers.Places{}
	waker = &controllers.Waker{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Metadata: mgr.GetCache(), Clock: clock.RealClock{}, Config: settings, Hints: hints, Forget: git.Forget, Wake: wake}
	functions := &controllers.FunctionReconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(),
		Recorder: mgr.GetEventRecorder("function-controller"), Clock: clock.RealClock{},
		Git:      git,
		Images:   images,
		Runtimes: catalogue, Config: settings, Hints: hints, Queue: places, Metrics: counts,
	}
	queue := &controllers.QueueReconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Clock: clock.RealClock{},
		Cap: c.Builds.Concurrency, Places: places, Wake: wake,
	}
	if err := errors.Join(
		functions.SetupWithManager(ctx, mgr, workers, wake),
		queue.SetupWithManager(mgr),
		mgr.Add(&endpoint{name: "hooks", address: o.HooksAddress, handler: receiver.New(receiver.Options{Secrets: waker.Secret, Notify: waker.Pushed, Count: counts.Hint})}),
		mgr.Add(&endpoint{name: "built", address: o.BuiltAddress, handler: waker.Built()}),
		mgr.Add(waker),
		mgr.Add(me),
		mgr.AddHealthzCheck("ping", healthz.Ping),
		mgr.AddReadyzCheck("ping", healthz.Ping),
	); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

func newManager(o Options) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), functionv1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	rest, err := config.GetConfig()
	if err != nil {
		return nil, fmt.Errorf("find the cluster: %w", err)
	}
	// The API server has its own fairness; a low limit here only adds seconds.
	rest.QPS, rest.Burst = 200, 400
	return ctrl.NewManager(rest, ctrl.Options{
		Scheme:                        scheme,
		Cache:                         controllers.CacheOptions(),
		Client:                        client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}},
		Metrics:                       server.Options{BindAddress: o.MetricsAddress},
		HealthProbeBindAddress:        o.HealthAddress,
		LeaderElection:                o.LeaderElection,
		LeaderElectionID:              "gitfn-manager",
		LeaderElectionNamespace:       o.Namespace,
		LeaderElectionReleaseOnCancel: true,
	})
}

// clusterNames never go through a proxy.
const clusterNames = ",.svc,.cluster.local"

// translate turns options and file into what the controllers know.
func translate(o Options, c Configuration, key tenant.Key) (controllers.Config, error) {
	bundle, err := os.ReadFile(o.TrustBundleFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return controllers.Config{}, fmt.Errorf("read trust bundle: %w", err)
	}
	return controllers.Config{
		Namespace:             o.Namespace,
		Registry:              registry.Address{Push: c.Registry.PushAddress, Pull: c.Registry.PullAddress, PlainHTTP: c.Registry.PlainHTTP},
		RegistryKey:           key,
		BuilderImage:          c.BuilderImage,
		HintURL:               c.Builds.HintURL,
		TrustBundle:           bundle,
		AllowAddresses:        c.Git.AllowAddresses,
		DenyAddresses:         c.Git.DenyAddresses,
		Proxy:                 c.Proxy.URL,
		NoProxy:               strings.Trim(c.Proxy.NoProxy+clusterNames, ","),
		PollInterval:          c.Git.Interval.Duration,
		MinPollInterval:       c.Git.MinInterval.Duration,
		BuildTimeouts:         job.Timeouts{Fetch: c.Builds.Timeout.Duration, Install: c.Builds.Timeout.Duration, Push: c.Builds.Timeout.Duration},
		FunctionPresets:       withPresets(functionPresets, c.Functions.Presets),
		BuildPresets:          withPresets(buildPresets, c.Builds.Presets),
		DefaultFunctionPreset: c.Functions.DefaultPreset,
		DefaultBuildPreset:    c.Builds.DefaultPreset,
		TargetCPU:             c.Functions.TargetCPUUtilizationPercentage,
		TraceEndpoint:         c.Functions.TraceEndpoint,
		PublisherAddress:      c.Functions.PublisherAddress,
	}, nil
}

// gitClient reads Git repositories within the reach that the configuration gives.
func gitClient(o Options, c Configuration, settings controllers.Config, changed func(url, reference string)) (*gitsource.Client, error) {
	policy, err := policyOf(settings)
	if err != nil {
		return nil, err
	}
	return gitsource.New(gitsource.Options{
		CacheDir: o.MirrorDir, CacheBytes: c.Git.MirrorSize.Value(),
		Allow: policy.Allow, Deny: policy.Deny, RootCAs: settings.TrustBundle,
		Proxy: settings.Proxy, NoProxy: settings.NoProxy,
		HostInterval: c.Git.HostInterval.Duration, Changed: changed,
	})
}

// policyOf is what the dialer lets users reach.
func policyOf(settings controllers.Config) (dialer.Policy, error) {
	allow, err := prefixes(settings.AllowAddresses)
	if err != nil {
		return dialer.Policy{}, err
	}
	deny, err := prefixes(settings.DenyAddresses)
	return dialer.Policy{Allow: allow, Deny: deny}, err
}

// registryClient asks with the manager's own credential, which sees every
// namespace's images and pushes none.
func registryClient(settings controllers.Config) (*registry.Client, error) {
	policy, err := policyOf(settings)
	if err != nil {
		return nil, err
	}
	credential := settings.RegistryKey.Credential(settings.Namespace, tenant.Manage)
	return registry.NewWithKeys(settings.Registry, registry.Credential(settings.Registry.Push, credential.Username, credential.Password), registry.Options{
		Roots: settings.TrustBundle, Policy: policy, Proxy: settings.Proxy, NoProxy: settings.NoProxy,
	})
}

// logger writes JSON lines.
func logger(level int) logr.Logger {
	handler := slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: slog.Level(-level)})
	return logr.FromSlogHandler(handler)
}
