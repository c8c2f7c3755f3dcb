package apitest

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions/check"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
	"github.com/gitfn/gitfn/controllers"
	"github.com/gitfn/gitfn/gitsource"
	"github.com/gitfn/gitfn/registry"
	"github.com/gitfn/gitfn/registry/tenant"
	"github.com/gitfn/gitfn/runtimes"
)

const (
	pollInterval = time.Minute
	buildCap     = 3
	// pullAddress is how nodes would reach the registry. No test connects to it.
	pullAddress = "127.0.0.1:30500"
)

// world is a namespace, a Git server, a registry, a clock and the reconcilers
// between them. Tests of different worlds run at the same time.
type world struct {
	*WithT
	t         testing.TB
	ctx       context.Context
	namespace string
	// client is the test's own, who plays the rest of the cluster.
	client client.WithWatch
	clock  *clocktesting.FakeClock
	git    *gitServer
	images *imageServer
	events *recorder
	wake   chan event.TypedGenericEvent[types.NamespacedName]
	config controllers.Config

	// managed is true once a manager runs, with an index of Functions.
	managed atomic.Bool

	tap       *tap
	functions *controllers.FunctionReconciler
	queue     *controllers.QueueReconciler
	waker     *controllers.Waker
}

func newWorld(t testing.TB, change ...func(*controllers.Config)) *world {
	t.Helper()
	w := &world{
		WithT: NewWithT(t), t: t, ctx: t.Context(),
		clock: clocktesting.NewFakeClock(time.Now().Truncate(time.Second)),
		git:   newGitServer(t), images: newImageServer(t),
		events: &recorder{},
		wake:   make(chan event.TypedGenericEvent[types.NamespacedName], 4096),
	}
	w.config = controllers.Config{
		Namespace:    "gitfn-system",
		Registry:     registry.Address{Push: w.images.host, Pull: pullAddress, PlainHTTP: true},
		RegistryKey:  tenant.NewKey(),
		BuilderImage: pullAddress + "/gitfn-system/builder@sha256:" + strings.Repeat("b", 64),
		PollInterval: pollInterval, MinPollInterval: 5 * time.Second, TargetCPU: 50,
	}
	for _, c := range change {
		c(&w.config)
	}
	var err error
	w.client, err = client.NewWithWatch(cluster, client.Options{Scheme: scheme})
	w.Expect(err).NotTo(HaveOccurred())
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "t-"}}
	w.Expect(w.client.Create(w.ctx, namespace)).To(Succeed())
	w.namespace = namespace.Name
	w.start(&tap{})
	return w
}

// start starts the manager, with an empty memory, behind a tap.
func (w *world) start(p *tap) {
	w.t.Helper()
	w.tap = p
	tapped := client.NewNamespacedClient(p.client(w.client), w.namespace)
	git, err := gitsource.New(gitsource.Options{
		CacheDir: w.t.TempDir(), Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Now: w.clock.Now,
		Changed: func(url, reference string) {
			if w.managed.Load() {
				w.waker.Changed(url, reference)
			}
		},
	})
	w.Expect(err).NotTo(HaveOccurred())
	catalogue, err := runtimes.Default().WithImages(map[string]string{"nodejs22": pullAddress + "/gitfn-system/runtimes/nodejs22@sha256:" + strings.Repeat("a", 64)})
	w.Expect(err).NotTo(HaveOccurred())
	hints, places := &controllers.Hints{}, &controllers.Places{}
	manage := w.config.RegistryKey.Credential(w.config.Namespace, tenant.Manage)
	w.functions = &controllers.FunctionReconciler{
		Client: tapped, Live: tapped, Recorder: w.events, Clock: w.clock,
		Git: git, Images: registry.New(w.config.Registry, manage.Username, manage.Password),
		Runtimes: catalogue, Config: w.config, Hints: hints, Queue: places,
	}
	w.queue = &controllers.QueueReconciler{Client: tapped, Live: tapped, Clock: w.clock, Cap: buildCap, Places: places, Wake: w.wake}
	w.waker = &controllers.Waker{Client: tapped, Live: tapped, Clock: w.clock, Config: w.config, Hints: hints, Forget: git.Forget, Wake: w.wake}
}

func (w *world) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: w.namespace, Name: name}
}

// try makes one pass over a Function.
func (w *world) try(name string) (ctrl.Result, error) {
	return w.functions.Reconcile(w.ctx, ctrl.Request{NamespacedName: w.key(name)})
}

// pass makes one pass that must not fail, and looks at what every pass owes:
// a status that kstatus understands, and a next look that is not at once.
func (w *world) pass(name string) (*functionv1.Function, ctrl.Result) {
	w.t.Helper()
	result, err := w.try(name)
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(result.RequeueAfter).To(BeNumerically(">=", 100*time.Millisecond), "a pass must not be followed by the next at once")
	return w.look(name), result
}

// failing makes one pass that must end in an error, which backs off.
func (w *world) failing(name string) (*functionv1.Function, error) {
	w.t.Helper()
	result, err := w.try(name)
	w.Expect(err).To(HaveOccurred())
	w.Expect(result).To(BeZero())
	return w.look(name), err
}

// look reads a Function and checks that kstatus understands it.
func (w *world) look(name string) *functionv1.Function {
	w.t.Helper()
	fn := &functionv1.Function{}
	w.Expect(w.client.Get(w.ctx, w.key(name), fn)).To(Succeed())
	checker := check.NewChecker(w.client, &check.Conditions{NegativePolarity: []string{meta.StalledCondition, meta.ReconcilingCondition}})
	checker.DisableFetch = true
	fail, warn := checker.Check(w.ctx, fn)
	w.Expect(fail).NotTo(HaveOccurred())
	w.Expect(warn).NotTo(HaveOccurred())
	return fn
}

// change changes a Function as its user would.
func (w *world) change(name string, change func(*functionv1.Function)) {
	w.t.Helper()
	fn := &functionv1.Function{}
	w.Expect(w.client.Get(w.ctx, w.key(name), fn)).To(Succeed())
	change(fn)
	w.Expect(w.client.Update(w.ctx, fn)).To(Succeed())
}

// expect wants exactly these conditions of a Function, each written as
// "Type Status Reason" and, after a colon, a part of the message.
func (w *world) expect(fn *functionv1.Function, want ...string) {
	w.t.Helper()
	var have []string
	for _, c := range fn.Status.Conditions {
		have = append(have, fmt.Sprintf("%s %s %s: %s", c.Type, c.Status, c.Reason, c.Message))
	}
	for _, row := range want {
		at := slices.IndexFunc(have, func(h string) bool { return matches(h, row) })
		w.Expect(at).To(BeNumerically(">=", 0), "want %q among\n%s", row, strings.Join(have, "\n"))
		have = slices.Delete(have, at, at+1)
	}
	w.Expect(have).To(BeEmpty(), "conditions that nobody wanted")
}

func matches(have, want string) bool {
	state, part, _ := strings.Cut(want, ": ")
	return strings.HasPrefix(have, state+": ") && strings.Contains(have, part)
}

// serves wants a Function of which all is well.
func (w *world) serves(fn *functionv1.Function, revision string) {
	w.t.Helper()
	w.expect(fn,
		"Ready True DeploymentReady: serves "+revision,
		"ConfigurationReady True SourceUpdated: "+fn.Status.Tree,
		"BuildReady True JobFinished: image sha256:",
		"Running True DeploymentReady: serves "+revision,
	)
	w.Expect(fn.Status.ObservedGeneration).To(Equal(fn.Generation))
	w.Expect(fn.Status.Revision).To(Equal(revision))
}

// recorder keeps Events.
type recorder struct {
	mu   sync.Mutex
	told []string
}

// Eventf notes an Event.
func (r *recorder) Eventf(_, _ runtime.Object, kind, reason, _, note string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told = append(r.told, kind+" "+reason+": "+fmt.Sprintf(note, args...))
}

// taken returns the Events so far, and forgets them.
func (r *recorder) taken() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	told := r.told
	r.told = nil
	return told
}
