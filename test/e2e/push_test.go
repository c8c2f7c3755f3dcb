package e2e

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
)

// TestPush follows one Function through its life: first push, changes beside
// and below its directory, and a revert.
func TestPush(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "push")
	repo, _ := s.newRepository("shop", false, map[string]string{"README.md": "shop\n"})
	first := repo.push("add the cart", sample(t, "packages", "functions/cart"))
	s.apply(newFunction("cart", fromGit(repo.url, "functions/cart")))

	fn := s.ready("cart", first)
	s.answers("cart", "hello-packages function")
	s.history(fn, first, "add the cart")
	s.g.Expect(fn.Status.Build.State).To(Equal(functionv1.BuildSucceeded))
	s.g.Expect(fn.Status.Build.Causes).To(ConsistOf("First"))
	s.eventually(func(g Gomega) { // its Pod ends a moment after the image is there
		g.Expect(s.jobsSeen("cart")).To(Equal(1))
		g.Expect(s.function("cart").Status.Build.Job).To(BeEmpty())
	})
	s.g.Expect(s.function("cart").Status.Build.DependenciesCached).To(BeFalse())
	s.g.Expect(s.function("cart").Status.Build.Floating).To(BeFalse(), "there is a lock file")
	s.trustBundleIsConfiguration()

	client := s.callSteadily("cart")
	second := repo.push("greet", map[string]string{"functions/cart/handler.js": `
const _ = require("lodash");
module.exports = { main: function (event, context) { return _.upperCase("second"); } }
`})
	fn = s.ready("cart", second)
	s.answers("cart", "SECOND")
	s.history(fn, second, "greet")
	s.eventually(func(g Gomega) {
		build := s.function("cart").Status.Build
		g.Expect(build).NotTo(BeNil())
		g.Expect(build.DependenciesCached).To(BeTrue(), "no package manager must run where the dependencies are the same")
	})
	secondImage := fn.Status.Image
	s.noJobs()

	s.besideTheDirectory(repo, "cart")

	third := repo.push("greet again", map[string]string{"functions/cart/handler.js": handler("third")})
	s.ready("cart", third)
	s.answers("cart", "third")
	s.noJobs()
	builds := s.jobsSeen("cart")
	s.g.Expect(builds).To(Equal(3))

	reverted := repo.revert()
	fn = s.ready("cart", reverted)
	s.answers("cart", "SECOND")
	s.g.Expect(fn.Status.Image).To(Equal(secondImage), "a revert runs the image of before")
	s.g.Expect(s.jobsSeen("cart")).To(Equal(builds), "a revert builds nothing")
	client.sawOnly(t, "hello-packages function", "SECOND", "third")
}

// besideTheDirectory pushes what a Function does not see.
func (s *space) besideTheDirectory(repo *repository, name string) {
	s.t.Helper()
	before, generation := s.function(name), s.deployment(name).Generation
	pods, builds, sets := s.podsAtRest(name), s.jobsSeen(name), s.replicaSets(name)
	commit := repo.push("write about it", map[string]string{"README.md": "shop, with a cart\n", "functions/other/handler.js": handler("other")})
	after := s.ready(name, commit)
	s.g.Expect(after.Status.Image).To(Equal(before.Status.Image))
	s.g.Expect(after.Status.Tree).To(Equal(before.Status.Tree))
	s.g.Expect(s.jobsSeen(name)).To(Equal(builds), "nothing is built")
	s.g.Expect(s.deployment(name).Generation).To(Equal(generation), "nothing is rolled out")
	s.g.Expect(s.replicaSets(name)).To(Equal(sets))
	s.g.Expect(s.servingPods(name)).To(Equal(pods))
}

// podsAtRest waits until the Pods of older versions are on their way out.
func (s *space) podsAtRest(name string) (pods []string) {
	s.t.Helper()
	s.soon(time.Minute, func(g Gomega) {
		pods = s.servingPods(name)
		g.Expect(pods).To(HaveLen(1), "Pods of %s that are not going", name)
	})
	return pods
}

// history expects what status tells of a commit that runs.
func (s *space) history(fn functionv1.Function, commit, subject string) {
	s.t.Helper()
	g := s.g
	g.Expect(fn.Status.Image).To(MatchRegexp(`/%s/%s@sha256:[0-9a-f]{64}$`, fn.Namespace, fn.Name))
	g.Expect(s.deployment(fn.Name).Spec.Template.Spec.Containers[0].Image).To(Equal(fn.Status.Image))
	g.Expect(fn.Status.Tree).To(MatchRegexp(`^[0-9a-f]{40}$`))
	g.Expect(fn.Status.Reference).To(Equal("main"))
	g.Expect(fn.Status.Runtime).To(Equal("nodejs22"))
	g.Expect(fn.Status.RuntimeImage).To(ContainSubstring("@sha256:"))
	g.Expect(fn.Status.History).NotTo(BeEmpty())
	newest := fn.Status.History[0]
	g.Expect(newest.Commit).To(Equal(commit))
	g.Expect(newest.Revision).To(Equal("main@sha1:" + commit))
	g.Expect(newest.Tree).To(Equal(fn.Status.Tree))
	g.Expect(newest.Digest).To(Equal(digest(fn.Status.Image)))
	g.Expect(newest.Subject).To(Equal(subject))
	g.Expect(newest.Author).To(ContainSubstring("Ada"))
	g.Expect(newest.BuiltAt).NotTo(BeNil())
	g.Expect(newest.RolledOutAt).NotTo(BeNil())
	for kind, reason := range map[string]string{
		functionv1.ConfigurationReady: functionv1.ReasonSourceUpdated,
		functionv1.BuildReady:         functionv1.ReasonJobFinished,
		functionv1.Running:            functionv1.ReasonDeploymentReady,
	} {
		g.Expect(meta.FindStatusCondition(fn.Status.Conditions, kind).Reason).To(Equal(reason), kind)
	}
}

// trustBundleIsConfiguration expects that authorities reach builds as a
// ConfigMap that the administrator wrote, and in no other way.
func (s *space) trustBundleIsConfiguration() {
	s.t.Helper()
	configured, err := kubectl(s.t.Context(), "", "--namespace", system, "get", "configmap", "--output=name")
	s.g.Expect(err).NotTo(HaveOccurred())
	s.g.Expect(configured).To(ContainSubstring("gitfn-trust-bundle"))
	s.g.Expect(s.kubectl("get", "configmap", "serverless-trust-bundle", "--output=jsonpath={.data.ca\\.crt}")).To(ContainSubstring("BEGIN CERTIFICATE"))
	s.g.Expect(watched.pods.saw(s.name, "serverless-trust-bundle")).To(BeTrue(), "build Pods mount the bundle")
}

// TestSuspend holds a Function still, beside one that follows the same branch.
func TestSuspend(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "suspend")
	repo, first := s.newRepository("fn", false, map[string]string{"handler.js": handler("one")})
	held, free := newFunction("held", fromGit(repo.url, "/")), newFunction("free", fromGit(repo.url, "/"))
	s.apply(held)
	s.apply(free)
	one, same := s.ready("held", first), s.ready("free", first)
	s.g.Expect(digest(one.Status.Image)).To(Equal(digest(same.Status.Image)), "the same files are the same image")

	held.Spec.Suspend = true
	s.apply(held)
	second := repo.push("two", map[string]string{"handler.js": handler("two")})
	s.ready("free", second)
	s.answers("free", "two")
	s.g.Expect(s.function("held").Status.Commit).To(Equal(first), "a suspended Function looks at nothing")
	s.g.Expect(s.jobsSeen("held")).To(Equal(1))
	s.answers("held", "one")

	held.Spec.Suspend = false
	s.apply(held)
	s.ready("held", second)
	s.answers("held", "two")
}
