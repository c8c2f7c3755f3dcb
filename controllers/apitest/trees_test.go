package apitest

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
	"github.com/gitfn/gitfn/builder/job"
	"github.com/gitfn/gitfn/gitsource"
)

func withInclude(include ...functionv1.Include) func(*functionv1.Function) {
	return func(fn *functionv1.Function) { fn.Spec.Source.GitRepository.Include = include }
}

func TestIncludeBuildsAndIsHandedOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	content := files{"hello/handler.js": handler, "shared/log.js": "1", "README.md": "one"}
	w.git.push("main", content)
	w.function("hello", withInclude(functionv1.Include{Path: "shared", To: "lib/shared"}))
	w.pass("hello")
	plan, err := job.PlanOf(w.job())
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(plan.Origin.Include).To(Equal([]gitsource.Include{{Path: "shared", To: "lib/shared"}}))
	w.git.push("as-one", files{"handler.js": handler, "lib/shared/log.js": "1"})
	w.Expect(plan.Tree).To(Equal(w.git.tree("as-one", "")), "git gives the same files this tree")
	w.builds(w.job())
	w.pass("hello")
	w.rollsOut("hello")
	fn, _ := w.pass("hello")
	w.serves(fn, fn.Status.Revision)
	w.Expect(fn.Status.Tree).To(Equal(plan.Tree))

	content["README.md"] = "two"
	w.git.push("main", content)
	w.later(pollInterval)
	w.pass("hello")
	w.Expect(w.jobs()).To(BeEmpty(), "what is not included builds nothing")

	content["shared/log.js"] = "2"
	w.git.push("main", content)
	w.later(pollInterval)
	w.pass("hello")
	next, err := job.PlanOf(w.job())
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(next.Tree).NotTo(Equal(plan.Tree))
}

func TestSubmodulesOnRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	// The repository is its own submodule: branch lib, at hello/lib.
	lib := w.git.push("lib", files{"log.js": "log"})
	w.git.git(fmt.Sprintf(`commit refs/heads/main
committer Ada Lovelace <ada@example.org> 1700000000 +0000
data 5
first
M 160000 %s hello/lib
M 100644 inline hello/handler.js
data %d
%s
M 100644 inline .gitmodules
data <<END
[submodule "lib"]
	path = hello/lib
	url = ./
END
`, lib, len(handler), handler), "--git-dir", w.git.dir, "fast-import", "--quiet")
	w.git.set(func(s *gitServer) { s.password = "right" })
	w.secret("fn-git", map[string]string{"username": "ci", "password": "right"})
	w.function("hello", withSecret("fn-git"))
	fn, _ := w.pass("hello")
	w.expect(fn,
		"Ready False SourceUpdateFailed: SourceInvalid",
		"Stalled True SourceUpdateFailed: SourceInvalid",
		`ConfigurationReady False SourceUpdateFailed: SourceInvalid: ask `+w.git.url+`: read tree: "hello/lib" is a submodule; set submodules to true`,
		"Running Unknown DeploymentWaiting: there is no image yet",
	)
	w.Expect(w.jobs()).To(BeEmpty(), "no Job has to find out")

	fn.Spec.Source.GitRepository.Submodules = true
	w.Expect(w.client.Update(w.ctx, fn)).To(Succeed())
	w.pass("hello")
	plan, err := job.PlanOf(w.job())
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(plan.Origin.Submodules).To(BeTrue())
	w.Expect(plan.Tree).To(Equal(w.git.tree("main", "hello")), "the tree names the commit of the submodule")
}
