package e2e

import (
	"testing"

	. "github.com/onsi/gomega"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
)

// TestInclude lets a folder beside the Function's own join it.
func TestInclude(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "include")
	repo, first := s.newRepository("shop", false, map[string]string{
		"cart/handler.js": `
const { greet } = require("./lib/words/greet.js");
module.exports = { main: function (event, context) { return greet("cart"); } }
`,
		"shared/words/greet.js": `exports.greet = (name) => "hello " + name;` + "\n",
		"other/notes.txt":       "nothing\n",
	})
	s.apply(newFunction("cart", fromGit(repo.url, "cart"), func(spec *functionv1.FunctionSpec) {
		spec.Source.GitRepository.Include = []functionv1.Include{{Path: "shared/words", To: "lib/words"}}
	}))
	s.ready("cart", first)
	s.answers("cart", "hello cart")

	second := repo.push("greet otherwise", map[string]string{"shared/words/greet.js": `exports.greet = (name) => "good day, " + name;` + "\n"})
	s.ready("cart", second)
	s.answers("cart", "good day, cart")

	builds := s.jobsSeen("cart")
	s.ready("cart", repo.push("beside it", map[string]string{"other/notes.txt": "something\n"}))
	s.g.Expect(s.jobsSeen("cart")).To(Equal(builds), "what is not included builds nothing")
}

// TestSubmodules reads a submodule of a private repository, which its parent
// names by a relative URL.
func TestSubmodules(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "submodules")
	logs := s.collectLogs()
	library, one := s.newRepository("library", true, map[string]string{"greet.js": `exports.greet = () => "hello from a submodule";` + "\n"})
	two := library.push("greet otherwise", map[string]string{"greet.js": `exports.greet = () => "good day from a submodule";` + "\n"})
	repo, _ := s.newRepository("fn", true, map[string]string{
		".gitmodules": "[submodule \"library\"]\n\tpath = library\n\turl = ../library\n",
		"handler.js": `
const { greet } = require("./library/greet.js");
module.exports = { main: function (event, context) { return greet(); } }
`,
	})
	at := func(commit string) string {
		repo.git("update-index", "--add", "--cacheinfo", "160000,"+commit+",library")
		repo.git("commit", "--quiet", "--message", "library at "+commit)
		return repo.send()
	}
	first := at(one)
	s.secret("git", map[string]string{"username": facts.GitUser, "password": facts.GitPassword})
	fn := newFunction("fn", fromGit(repo.url, "/"), withAuth("git"))
	s.apply(fn)
	s.eventually(func(g Gomega) {
		message := condition(s.function("fn"), functionv1.ConfigurationReady) + condition(s.function("fn"), functionv1.BuildReady)
		g.Expect(message).To(ContainSubstring("submodule"), "they were not asked for")
		g.Expect(condition(s.function("fn"), "Ready")).To(HavePrefix("False"))
	})

	fn.Spec.Source.GitRepository.Submodules = true
	s.apply(fn)
	s.ready("fn", first)
	s.answers("fn", "hello from a submodule")
	s.ready("fn", at(two))
	s.answers("fn", "good day from a submodule")
	s.hides(map[string]string{"the Git password": facts.GitPassword}, logs)
}
