package e2e

import (
	"testing"

	. "github.com/onsi/gomega"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
)

// TestVersions follows the highest tag of a range of versions.
func TestVersions(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "versions")
	repo, _ := s.newRepository("fn", false, map[string]string{"README.md": "versions\n"})
	release := func(tag string) string {
		commit := repo.push(tag, map[string]string{"handler.js": handler(tag)})
		repo.git("tag", "--annotate", "--message", tag, tag)
		repo.git("push", "--quiet", "origin", tag)
		return commit
	}
	release("v1.0.0")
	one := release("v1.10.0")
	release("v2.0.0")
	release("v1.11.0-rc.1")
	s.apply(newFunction("fn", fromGit(repo.url, "/"), withReference("semver:>=1.2 <2")))
	s.eventually(func(g Gomega) { g.Expect(s.function("fn").Status.Revision).To(HaveSuffix("@sha1:" + one)) })
	s.answers("fn", "v1.10.0")

	two := release("v1.11.0")
	s.eventually(func(g Gomega) {
		fn := s.function("fn")
		g.Expect(fn.Status.Revision).To(And(ContainSubstring("v1.11.0"), HaveSuffix("@sha1:"+two)))
		beReady(g, fn)
	})
	s.answers("fn", "v1.11.0")
}

// TestDeletedBranch takes away the branch that a Function follows.
func TestDeletedBranch(t *testing.T) {
	t.Parallel()
	const branch = "team/feature"
	s := newSpace(t, "deleted")
	repo, _ := s.newRepository("fn", false, map[string]string{"README.md": "deleted\n"})
	repo.git("checkout", "--quiet", "-b", branch)
	first := repo.push("one", map[string]string{"handler.js": handler("one")})
	s.apply(newFunction("fn", fromGit(repo.url, "/"), withReference(branch)))
	s.readyOn("fn", branch, first)
	s.answers("fn", "one")
	client := s.callSteadily("fn")

	repo.git("push", "--quiet", "origin", "--delete", branch)
	s.eventually(func(g Gomega) {
		fn := s.function("fn")
		g.Expect(condition(fn, functionv1.ConfigurationReady)).
			To(And(HavePrefix("False SourceUpdateFailed: RefNotFound: "), ContainSubstring(branch)))
		g.Expect(condition(fn, "Ready")).To(HavePrefix("False"))
		g.Expect(fn.Status.Revision).To(Equal(branch+"@sha1:"+first), "what was there last goes on serving")
	})
	s.answers("fn", "one")

	second := repo.push("two", map[string]string{"handler.js": handler("two")})
	s.readyOn("fn", branch, second)
	s.answers("fn", "two")
	client.sawOnly(t, "one", "two")
}
