package apitest

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
	"github.com/gitfn/gitfn/controllers"
)

// requests counts what a manager asks of the API server, watches apart.
type requests struct {
	to   http.RoundTripper
	mu   sync.Mutex
	seen []string
}

// RoundTrip notes a request and passes it on.
func (r *requests) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL.Query().Get("watch") != "true" {
		r.mu.Lock()
		r.seen = append(r.seen, request.Method+" "+request.URL.Path)
		r.mu.Unlock()
	}
	return r.to.RoundTrip(request)
}

func (r *requests) taken() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := r.seen
	r.seen = nil
	return seen
}

// runManager runs a manager as cmd/manager wires it, over one namespace.
func (w *world) runManager() *requests {
	w.t.Helper()
	counted := &requests{}
	reach := rest.CopyConfig(cluster)
	reach.Wrap(func(to http.RoundTripper) http.RoundTripper { counted.to = to; return counted })
	options := controllers.CacheOptions()
	options.DefaultNamespaces = map[string]cache.Config{w.namespace: {}}
	mgr, err := ctrl.NewManager(reach, ctrl.Options{
		Scheme: scheme, Cache: options, Metrics: server.Options{BindAddress: "0"},
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}},
		// The other tests of this process have controllers of these names too.
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	})
	w.Expect(err).NotTo(HaveOccurred())
	reader, err := client.New(reach, client.Options{Scheme: scheme})
	w.Expect(err).NotTo(HaveOccurred())
	live := client.NewNamespacedClient(reader, w.namespace)
	w.functions.Client, w.functions.Live, w.functions.Recorder = mgr.GetClient(), live, mgr.GetEventRecorder("function-controller")
	w.queue.Client, w.queue.Live = mgr.GetClient(), live
	w.waker.Client, w.waker.Live, w.waker.Metadata = mgr.GetClient(), live, mgr.GetCache()
	w.functions.Clock, w.queue.Clock, w.waker.Clock = clock.RealClock{}, clock.RealClock{}, clock.RealClock{}
	w.Expect(w.functions.SetupWithManager(w.ctx, mgr, 4, w.wake)).To(Succeed())
	w.Expect(w.queue.SetupWithManager(mgr)).To(Succeed())
	w.Expect(mgr.Add(w.waker)).To(Succeed())
	w.managed.Store(true)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	w.t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			w.t.Error(err)
		}
	})
	w.Expect(mgr.GetCache().WaitForCacheSync(w.ctx)).To(BeTrue())
	return counted
}

// until waits for a Function to get somewhere.
func (w *world) until(name string, there func(*functionv1.Function) bool) *functionv1.Function {
	w.t.Helper()
	fn := &functionv1.Function{}
	w.Eventually(func() bool {
		return w.client.Get(w.ctx, w.key(name), fn) == nil && there(fn)
	}, 30*time.Second, 20*time.Millisecond).Should(BeTrue(), func() string { return jsonOf(fn.Status) })
	return fn
}

// TestManager runs the whole of it once, woken by nothing but watches and hints.
func TestManager(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *controllers.Config) { c.PollInterval = time.Hour })
	// The reconcilers' clock is the real one from here on, and so is the Git client's.
	w.clock.SetTime(time.Now())
	asked := w.runManager()
	w.git.push("main", files{"hello/handler.js": handler})
	w.secret("hook", map[string]string{"token": "k3y"})
	w.function("hello")

	brought := func(commit string) *functionv1.Function {
		t.Helper()
		w.until("hello", func(fn *functionv1.Function) bool {
			return fn.Status.Commit == commit && fn.Status.Build != nil && fn.Status.Build.State == functionv1.BuildRunning
		})
		j := w.job()
		w.started(j)
		pod := w.pod(j)
		digest := w.pushes(j)
		w.ends(pod, "push", reportOf(digest))
		w.Eventually(func() bool {
			d := &appsv1.Deployment{}
			if err := w.client.Get(w.ctx, w.key("hello"), d); err != nil || !strings.HasSuffix(d.Spec.Template.Spec.Containers[0].Image, digest) {
				return false
			}
			w.rollsOut("hello")
			return true
		}, 30*time.Second, 20*time.Millisecond).Should(BeTrue())
		return w.until("hello", func(fn *functionv1.Function) bool {
			return conditions.IsReady(fn) && fn.Status.Revision == "main@sha1:"+commit
		})
	}
	first := w.git.git("", "--git-dir", w.git.dir, "rev-parse", "main")
	w.serves(brought(first), "main@sha1:"+first)
	w.Eventually(w.jobs, 10*time.Second, 20*time.Millisecond).Should(BeEmpty())

	second := w.git.push("main", files{"hello/handler.js": handler + "// two"})
	w.clock.SetTime(time.Now())
	w.Expect(w.hook(w.namespace, "hook", "k3y", w.git.url, "refs/heads/main")).To(Equal(202))
	w.serves(brought(second), "main@sha1:"+second)
	w.Eventually(w.jobs, 10*time.Second, 20*time.Millisecond).Should(BeEmpty())

	// A deleted child comes back, by its watch.
	w.Expect(w.client.Delete(w.ctx, w.deployment("hello"))).To(Succeed())
	w.Eventually(func() error {
		return w.client.Get(w.ctx, w.key("hello"), &appsv1.Deployment{})
	}, 10*time.Second, 20*time.Millisecond).Should(Succeed())
	w.rollsOut("hello")
	w.until("hello", func(fn *functionv1.Function) bool { return conditions.IsReady(fn) })
	events := &corev1.EventList{}
	w.Eventually(func() int {
		w.Expect(w.client.List(w.ctx, events, client.InNamespace(w.namespace))).To(Succeed())
		return len(events.Items)
	}, 10*time.Second, 20*time.Millisecond).Should(BeNumerically(">=", 6))
	for _, e := range events.Items {
		w.Expect(e.InvolvedObject.Name).To(Equal("hello"))
	}

	// Looked at again, a Function at rest asks nothing of the API server.
	w.Eventually(func() []string {
		asked.taken()
		for range 5 {
			_, err := w.try("hello")
			w.Expect(err).NotTo(HaveOccurred())
		}
		return asked.taken()
	}, 20*time.Second, 200*time.Millisecond).Should(BeEmpty())

	// Credentials are read once, and again when they change.
	reads := func() (n int) {
		for _, request := range asked.taken() {
			if request == "GET /api/v1/namespaces/"+w.namespace+"/secrets/git" {
				n++
			}
		}
		return n
	}
	w.secret("git", map[string]string{"username": "u", "password": "one"})
	w.change("hello", withSecret("git"))
	w.until("hello", func(fn *functionv1.Function) bool { return fn.Status.ObservedGeneration == fn.Generation })
	w.Expect(reads()).To(BeNumerically(">", 0))
	w.Eventually(func() int {
		for range 5 {
			_, err := w.try("hello")
			w.Expect(err).NotTo(HaveOccurred())
		}
		return reads()
	}, 20*time.Second, 200*time.Millisecond).Should(BeZero())
	w.secret("git", map[string]string{"username": "u", "password": "two"})
	w.Eventually(reads, 20*time.Second, 200*time.Millisecond).Should(BeNumerically(">", 0))
}
