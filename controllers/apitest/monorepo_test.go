package apitest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
	"github.com/gitfn/gitfn/builder"
	"github.com/gitfn/gitfn/controllers"
)

// TestMonorepo runs a manager over many Functions of one repository, and pushes
// commits that touch one of them.
func TestMonorepo(t *testing.T) {
	t.Parallel()
	const n = 300
	w := newWorld(t, func(c *controllers.Config) { c.PollInterval = time.Hour })
	w.clock.SetTime(time.Now())
	content := files{"README.md": "one"}
	for i := range n {
		content[fmt.Sprintf("fn-%03d/handler.js", i)] = fmt.Sprint(handler, "//", i)
	}
	first := w.git.push("main", content)
	for i := range n { // the registry has them already, so that they need no builds
		name := fmt.Sprintf("fn-%03d", i)
		w.images.push(w.planOf(name).Pin())
	}
	w.secret("hook", map[string]string{"token": "k3y"})
	asked := w.runManager()
	for i := range n {
		name := fmt.Sprintf("fn-%03d", i)
		w.function(name, func(fn *functionv1.Function) { fn.Spec.Source.GitRepository.BaseDir = name })
	}
	w.Eventually(func() int { return w.rollAll(first) }, 3*time.Minute, 200*time.Millisecond).Should(Equal(n))
	w.Expect(w.jobs()).To(BeEmpty())
	w.settled(asked)
	t.Logf("%d Functions serve; refs were asked for %d times", n, w.git.refsRequests())
	refs := w.git.refsRequests()

	// Three commits in a row touch one Function, faster than anything is built.
	const touched = "fn-123"
	var newest string
	pushed := time.Now()
	for i := range 3 {
		content[touched+"/handler.js"] = fmt.Sprint(handler, "// changed ", i)
		content["README.md"] = fmt.Sprint(i)
		newest = w.git.push("main", content)
		w.clock.SetTime(time.Now())
		w.Expect(w.hook(w.namespace, "hook", "k3y", w.git.url, "refs/heads/main")).To(Equal(202))
	}
	w.until(touched, func(fn *functionv1.Function) bool {
		return fn.Status.Commit == newest && fn.Status.Build != nil && fn.Status.Build.Job != "" && fn.Status.Build.Key == w.planOf(touched).Key()
	})
	toJob := time.Since(pushed)
	early := statusWrites(asked.seenSoFar(), touched)
	t.Logf("the Job of the newest of 3 commits was there %s after the first; %d statuses of others were written by then", toJob.Round(time.Millisecond), early)
	w.Expect(toJob).To(BeNumerically("<", 20*time.Second))

	// The others hear of it at leisure. A few were told of the first commit at once,
	// and have to wait for minutes until they may be told of the newest.
	w.Eventually(func() int {
		functions := &functionv1.FunctionList{}
		w.Expect(w.client.List(w.ctx, functions, client.InNamespace(w.namespace))).To(Succeed())
		there := 0
		for _, fn := range functions.Items {
			if fn.Status.Commit == newest && fn.Status.GitRepository.Commit == newest {
				there++
			}
		}
		return there
	}, 2*time.Minute, 500*time.Millisecond).Should(BeNumerically(">=", n-30))
	took := time.Since(pushed)
	seen := asked.taken()
	writes := statusWrites(seen, touched)
	builds := 0
	for _, request := range seen {
		if strings.HasPrefix(request, "POST ") && strings.HasSuffix(request, "/jobs") {
			builds++
		}
	}
	t.Logf("%d statuses of others were written in %s, %d Jobs made, refs asked for %d times", writes, took.Round(time.Second), builds, w.git.refsRequests()-refs)
	// Each is two requests: the patch helper writes conditions apart.
	w.Expect(writes).To(BeNumerically("<=", 2*(n+30)), "about one write each, however many commits")
	w.Expect(float64(writes)/took.Seconds()).To(BeNumerically("<", 2*20*1.5+2*20/took.Seconds()), "twenty Functions a second, and twenty at once")
	w.Expect(builds).To(BeNumerically("<=", 3), "at most one for each tree of the one that changed")
	w.Expect(w.jobs()).To(HaveLen(1), "superseded builds are gone")
	w.Expect(w.git.refsRequests()-refs).To(BeNumerically("<=", 3*5), "a few for each hint, whatever the number of Functions")
}

// planOf is the plan of a Function whose directory has its name.
func (w *world) planOf(name string) builder.Plan {
	w.t.Helper()
	return builder.Plan{
		Tree: w.git.tree("main", name), Runtime: "nodejs22", Recipe: builder.Recipe,
		Base:       w.config.Registry.ForPush(w.functions.Runtimes["nodejs22"].Image),
		Repository: w.images.host + "/" + w.namespace + "/" + name,
	}
}

// rollAll brings all Deployments to their end, and counts the Functions that are
// ready at a commit.
func (w *world) rollAll(commit string) (ready int) {
	w.t.Helper()
	deployments, functions := &appsv1.DeploymentList{}, &functionv1.FunctionList{}
	w.Expect(w.client.List(w.ctx, deployments, client.InNamespace(w.namespace))).To(Succeed())
	for _, d := range deployments.Items {
		if d.Status.ObservedGeneration != d.Generation {
			w.rollsOut(d.Name)
		}
	}
	w.Expect(w.client.List(w.ctx, functions, client.InNamespace(w.namespace))).To(Succeed())
	for i := range functions.Items {
		if conditions.IsReady(&functions.Items[i]) && functions.Items[i].Status.Commit == commit {
			ready++
		}
	}
	return ready
}

// settled waits until a manager has nothing more to write.
func (w *world) settled(asked *requests) {
	w.t.Helper()
	quiet := 0
	w.Eventually(func() int {
		if quiet++; len(asked.taken()) > 0 {
			quiet = 0
		}
		return quiet
	}, time.Minute, 200*time.Millisecond).Should(Equal(5))
}

// statusWrites counts the writes of Functions' statuses, but one's.
func statusWrites(seen []string, but string) (n int) {
	for _, request := range seen {
		if strings.HasPrefix(request, "PATCH ") && strings.Contains(request, "/functions/") && strings.HasSuffix(request, "/status") && !strings.Contains(request, "/"+but+"/") {
			n++
		}
	}
	return n
}

// seenSoFar is what was asked so far.
func (r *requests) seenSoFar() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.seen)
}
