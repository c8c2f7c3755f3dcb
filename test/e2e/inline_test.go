package e2e

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
)

// TestInline runs Functions from strings, and moves one to Git.
func TestInline(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "inline")
	plain := newFunction("plain", inline(handler("one"), ""))
	packages := newFunction("packages", inline(`
const _ = require("lodash");
module.exports = { main: function (event, context) { return _.kebabCase("From Strings"); } }
`, `{"name": "packages", "version": "1.0.0", "dependencies": {"lodash": "^4.17.21"}}`))
	plainAt, packagesAt := s.apply(plain), s.apply(packages)
	fn := s.readyAt("plain", plainAt)
	s.answers("plain", "one")
	s.g.Expect(fn.Status.Commit).To(BeEmpty())
	s.g.Expect(fn.Status.Revision).To(Equal("inline@sha1:" + fn.Status.Tree))
	s.readyAt("packages", packagesAt)
	s.answers("packages", "from-strings")
	s.eventually(func(g Gomega) {
		g.Expect(s.function("packages").Status.Build.Floating).To(BeTrue(), "there is no lock file")
	})

	plain.Spec.Source.Inline.Source = handler("two")
	s.readyAt("plain", s.apply(plain))
	s.answers("plain", "two")

	s.noJobs()
	s.soon(time.Minute, func(g Gomega) {
		left := s.kubectl("get", "configmaps", "--selector="+functionv1.LabelFunctionName, "--output=name")
		g.Expect(left).To(BeEmpty(), "what builds were handed goes with them")
	})

	// The same content from Git is the same image.
	before, builds, pods := s.function("plain"), s.jobsSeen("plain"), s.podsAtRest("plain")
	sets := s.replicaSets("plain")
	repo, commit := s.newRepository("plain", false, map[string]string{"fn/handler.js": handler("two"), "README.md": "moved\n"})
	moved := newFunction("plain", fromGit(repo.url, "fn"))
	s.apply(moved)
	fn = s.ready("plain", commit)
	s.g.Expect(fn.Status.Image).To(Equal(before.Status.Image))
	s.g.Expect(fn.Status.Tree).To(Equal(before.Status.Tree))
	s.g.Expect(s.jobsSeen("plain")).To(Equal(builds), "nothing is built")
	s.g.Expect(s.replicaSets("plain")).To(Equal(sets), "nothing is rolled out")
	s.g.Expect(s.servingPods("plain")).To(Equal(pods))
	s.answers("plain", "two")
	s.g.Expect(condition(fn, functionv1.Running)).To(ContainSubstring(commit))
}
