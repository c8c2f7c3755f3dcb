package apitest

import (
	"container/heap"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
)

// crowd is Functions of one repository that are only in memory, and the queue
// that brings each back when it wants to be. The Git server is real.
type crowd struct {
	w         *world
	functions map[string]*functionv1.Function
	wrote     map[string]int // how often a status was
	turns     turns
	// came are the moments of those requests for refs that Functions made.
	came []time.Time
}

type turn struct {
	at   time.Time
	name string
}

// turns is a heap, the next turn first.
type turns []turn

func (t turns) Len() int           { return len(t) }
func (t turns) Less(i, j int) bool { return t[i].at.Before(t[j].at) }
func (t turns) Swap(i, j int)      { t[i], t[j] = t[j], t[i] }
func (t *turns) Push(x any)        { *t = append(*t, x.(turn)) }
func (t *turns) Pop() any {
	last := (*t)[len(*t)-1]
	*t = (*t)[:len(*t)-1]
	return last
}

// newCrowd makes n Functions whose directory is not there: so a pass ends with
// the source, and comes back when its poll is due.
func newCrowd(w *world, n int, modify func(i int, fn *functionv1.Function)) *crowd {
	c := &crowd{w: w, functions: map[string]*functionv1.Function{}, wrote: map[string]int{}}
	for i := range n {
		fn := &functionv1.Function{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: fmt.Sprintf("fn-%04d", i), Generation: 1, ResourceVersion: "1"},
			Spec: functionv1.FunctionSpec{
				Runtime: "nodejs22",
				Source:  functionv1.Source{GitRepository: &functionv1.GitRepository{URL: w.git.url, Reference: "main", BaseDir: "none"}},
			},
		}
		if modify != nil {
			modify(i, fn)
		}
		c.functions[fn.Name] = fn
		heap.Push(&c.turns, turn{w.clock.Now(), fn.Name})
	}
	w.functions.Client = interceptor.NewClient(w.client, interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
			fn, is := o.(*functionv1.Function)
			if !is || c.functions[key.Name] == nil {
				return apierrors.NewNotFound(corev1.Resource("any"), key.Name)
			}
			c.functions[key.Name].DeepCopyInto(fn)
			return nil
		},
		SubResourcePatch: func(_ context.Context, _ client.Client, _ string, o client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
			c.wrote[o.GetName()]++
			return c.patch(o, patch)
		},
	})
	return c
}

// patch merges a status as the API server does.
func (c *crowd) patch(o client.Object, patch client.Patch) error {
	data, err := patch.Data(o)
	if err != nil {
		return err
	}
	fn := c.functions[o.GetName()]
	var before, change map[string]any
	c.w.Expect(json.Unmarshal([]byte(jsonOf(fn)), &before)).To(Succeed())
	c.w.Expect(json.Unmarshal(data, &change)).To(Succeed())
	merge(before, change)
	fn.Status = functionv1.FunctionStatus{}
	return json.Unmarshal([]byte(jsonOf(before)), fn)
}

func merge(into, change map[string]any) {
	for name, value := range change {
		below, isMap := value.(map[string]any)
		old, wasMap := into[name].(map[string]any)
		switch {
		case value == nil:
			delete(into, name)
		case isMap && wasMap:
			merge(old, below)
		default:
			into[name] = value
		}
	}
}

// written is the Functions whose status was written, and how often any was. It forgets them.
func (c *crowd) written() (functions, writes int) {
	functions = len(c.wrote)
	for _, n := range c.wrote {
		writes += n
	}
	c.wrote = map[string]int{}
	return functions, writes
}

// during lets time go by, and every Function have its turns.
func (c *crowd) during(d time.Duration) {
	c.w.t.Helper()
	end := c.w.clock.Now().Add(d)
	for c.turns[0].at.Before(end) {
		next := heap.Pop(&c.turns).(turn)
		c.w.clock.SetTime(next.at)
		asked := c.w.git.refsRequests()
		result, err := c.w.try(next.name)
		c.w.Expect(err).NotTo(HaveOccurred())
		c.w.Expect(result.RequeueAfter).To(BeNumerically(">=", time.Second), "a crowd must not run in circles")
		for range c.w.git.refsRequests() - asked {
			c.came = append(c.came, next.at)
		}
		heap.Push(&c.turns, turn{c.w.clock.Now().Add(result.RequeueAfter), next.name})
	}
	c.w.clock.SetTime(end)
}

// taken returns the moments of the requests so far as seconds since a moment, and forgets them.
func (c *crowd) taken(since time.Time) (seconds []int) {
	for _, at := range c.came {
		seconds = append(seconds, int(at.Sub(since).Seconds()))
	}
	c.came = nil
	return seconds
}

func TestOneRequestPerInterval(t *testing.T) {
	for _, row := range []struct {
		name   string
		modify func(i int, fn *functionv1.Function)
		most   int
	}{
		{"all have the default interval: one request in it", nil, 11},
		{"one has a shorter one: it asks, and all others hear it", func(i int, fn *functionv1.Function) {
			if i == 17 {
				fn.Spec.Source.GitRepository.Interval = &metav1.Duration{Duration: 20 * time.Second}
			}
		}, 31},
		{"one has a longer one: that changes nothing", func(i int, fn *functionv1.Function) {
			if i == 17 {
				fn.Spec.Source.GitRepository.Interval = &metav1.Duration{Duration: time.Hour}
			}
		}, 11},
		{"all have a schedule: one request each time", func(_ int, fn *functionv1.Function) {
			fn.Spec.Source.GitRepository.Schedule = "CRON_TZ=Asia/Kolkata */2 * * * *"
		}, 6},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.git.push("main", files{"hello/handler.js": handler})
			c := newCrowd(w, 100, row.modify)
			c.during(10 * pollInterval)
			requests := len(c.taken(w.clock.Now()))
			t.Logf("%d requests in 10 intervals of 100 Functions", requests)
			w.Expect(requests).To(BeNumerically("<=", row.most))
			w.Expect(requests).To(BeNumerically(">=", row.most-2))
			functions, writes := c.written()
			w.Expect(functions).To(Equal(100))
			w.Expect(writes).To(BeNumerically("<=", 2*100), "conditions and the rest of status, once: nothing changes")
		})
	}
}

func TestBrokenRepositoryIsAskedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.git.push("main", files{"hello/handler.js": handler})
	c := newCrowd(w, 200, nil)
	c.during(pollInterval)
	w.git.set(func(s *gitServer) { s.broken = true })
	c.taken(w.clock.Now())
	c.written()
	begin := w.clock.Now()
	c.during(90 * time.Minute)
	asked := c.taken(begin)
	t.Logf("200 Functions of a repository that is away asked at seconds %v", asked)
	w.Expect(len(asked)).To(BeNumerically("<=", 10))
	for i := 1; i < len(asked); i++ {
		least := min(30<<(i-1), 900)
		w.Expect(asked[i]-asked[i-1]).To(And(BeNumerically(">=", least), BeNumerically("<=", least+70)), "step %d", i)
	}
	_, writes := c.written()
	w.Expect(writes).To(BeNumerically("<=", 2*200), "the sentence stays the same")

	// Who has a reason asks at once, and not for all the others as well.
	for _, name := range []string{"fn-0001", "fn-0002", "fn-0003"} {
		c.functions[name].Annotations = map[string]string{"reconcile.fluxcd.io/requestedAt": "now"}
		c.due(name)
	}
	c.functions["fn-0004"].Generation = 2
	c.due("fn-0004")
	c.during(10 * time.Second)
	w.Expect(c.taken(begin)).To(HaveLen(1))

	// The first good answer is everybody's.
	w.git.set(func(s *gitServer) { s.broken = false })
	c.functions["fn-0005"].Generation = 2
	c.due("fn-0005")
	c.during(pollInterval * 12 / 10)
	w.Expect(len(c.taken(begin))).To(BeNumerically("<=", 2))
	for name, fn := range c.functions {
		w.Expect(fn.Status.Source.Class).To(Equal("RefNotFound"), name+" has heard of it within its poll")
	}
}

// due gives a Function its turn now, as a watch event does.
func (c *crowd) due(name string) {
	i := slices.IndexFunc(c.turns, func(t turn) bool { return t.name == name })
	c.turns[i].at = c.w.clock.Now()
	heap.Fix(&c.turns, i)
}

// TestStartAsksNobody wants that a manager that starts believes what is at rest
// for a while: all repositories of a cluster would be asked at one moment.
func TestStartAsksNobody(t *testing.T) {
	t.Parallel()
	w, served := servingWorld(t)
	asked := w.git.refsRequests()
	w.start(&tap{})
	fn, result := w.pass("hello")
	w.serves(fn, served.Status.Revision)
	w.Expect(w.git.refsRequests()).To(Equal(asked))
	w.Expect(w.tap.taken()).NotTo(ContainElement(ContainSubstring("Function")), "its status is as it was")
	w.Expect(result.RequeueAfter).To(BeNumerically("<=", pollInterval+time.Second))

	second := w.git.push("main", files{"hello/handler.js": handler, "README.md": "two"})
	w.later(result.RequeueAfter)
	fn, _ = w.pass("hello")
	w.serves(fn, "main@sha1:"+second)
	w.Expect(w.git.refsRequests()).To(Equal(asked + 1))

	// One that has something to do asks at once.
	w.change("hello", func(fn *functionv1.Function) {
		fn.Annotations = map[string]string{"reconcile.fluxcd.io/requestedAt": "now"}
	})
	w.start(&tap{})
	w.pass("hello")
	w.Expect(w.git.refsRequests()).To(Equal(asked + 2))
}

func TestIntervalBelowTheLeast(t *testing.T) {
	t.Parallel()
	w, _ := servingWorld(t, func(fn *functionv1.Function) {
		fn.Spec.Source.GitRepository.Interval = &metav1.Duration{Duration: time.Second}
	})
	const says = "interval 1s is raised to 5s, the least that the administrator allows"
	w.Expect(w.events.taken()).To(ContainElement("Warning SourceUpdated: " + says))
	fn, result := w.pass("hello")
	w.Expect(fn.Status.GitRepository.Warnings).To(Equal([]string{says}))
	w.Expect(fn.Status.GitRepository.Ref).To(Equal("refs/heads/main"))
	w.Expect(result.RequeueAfter).To(BeNumerically("~", 5250*time.Millisecond, 250*time.Millisecond))
	w.later(result.RequeueAfter)
	w.pass("hello")
	w.Expect(w.events.taken()).To(BeEmpty())
}

// TestReferenceThatIsGone wants the last good version to go on serving, by name.
func TestReferenceThatIsGone(t *testing.T) {
	t.Parallel()
	w, served := servingWorld(t)
	w.git.git("", "--git-dir", w.git.dir, "update-ref", "-d", "refs/heads/main")
	w.later(2 * pollInterval)
	w.events.taken()
	fn, _ := w.pass("hello")
	w.expect(fn,
		"Ready False SourceUpdateFailed: RefNotFound: ",
		"Stalled True SourceUpdateFailed: RefNotFound: ",
		"ConfigurationReady False SourceUpdateFailed: ; "+served.Status.Revision+" goes on serving",
		"BuildReady True JobFinished", "Running True DeploymentReady: serves "+served.Status.Revision,
	)
	w.Expect(fn.Status.Image).To(Equal(served.Status.Image))
	w.Expect(w.events.taken()).To(HaveLen(1))

	// It comes back with another history, as after a push by force.
	w.git.push("main", files{"hello/handler.js": handler + "// forced"})
	w.later(2 * pollInterval)
	w.pass("hello")
	w.builds(w.job())
	w.pass("hello")
	w.rollsOut("hello")
	fn, _ = w.pass("hello")
	w.serves(fn, "main@sha1:"+fn.Status.Commit)
}
