package e2e

import (
	"testing"

	. "github.com/onsi/gomega"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
)

// TestBrokenCommits pushes what cannot run and what cannot be built. Somebody
// who calls all the time notices neither.
func TestBrokenCommits(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "broken")
	repo, good := s.newRepository("fn", false, map[string]string{"handler.js": handler("good")})
	s.apply(newFunction("fn", fromGit(repo.url, "/")))
	s.ready("fn", good)
	s.answers("fn", "good")
	client := s.callSteadily("fn")
	image := s.function("fn").Status.Image

	// It does not build.
	missing := repo.push("want what is not there", map[string]string{
		"handler.js":   handler("never"),
		"package.json": `{"name": "fn", "version": "1.0.0", "dependencies": {"gitfn-e2e-there-is-no-such-package": "1.0.0"}}`,
	})
	s.eventually(func(g Gomega) {
		fn := s.function("fn")
		g.Expect(fn.Status.Commit).To(Equal(missing))
		g.Expect(condition(fn, functionv1.BuildReady)).To(HavePrefix("False JobFailed: DependencyNotFound: "))
		g.Expect(fn.Status.Build).NotTo(BeNil())
		g.Expect(fn.Status.Build.State).To(Equal(functionv1.BuildFailed))
		g.Expect(fn.Status.Build.Class).To(Equal("DependencyNotFound"))
		g.Expect(fn.Status.Build.Message).To(ContainSubstring("gitfn-e2e-there-is-no-such-package"))
		g.Expect(fn.Status.Build.Output).To(ContainSubstring("E404"), "the last lines of output")
		g.Expect(condition(fn, functionv1.BuildReady)).To(ContainSubstring(fn.Status.Build.Output))
		g.Expect(condition(fn, "Ready")).To(HavePrefix("False"))
		g.Expect(fn.Status.Image).To(Equal(image))
	})
	s.noJobs()
	s.g.Expect(s.jobsSeen("fn")).To(Equal(2), "what fails for good is built once")
	s.g.Expect(client.lastAnswer()).To(Equal("good"))

	s.g.Expect(watched.events.saw(s.name, "DependencyNotFound: ")).To(BeTrue(), "an event tells of it")

	// It builds, but its Pods do not start.
	repo.git("rm", "--quiet", "package.json")
	syntax := repo.push("break the syntax", map[string]string{"handler.js": "module.exports = { main: function ( { return 'bad'; } }\n"})
	s.eventually(func(g Gomega) {
		fn := s.function("fn")
		g.Expect(fn.Status.Commit).To(Equal(syntax))
		g.Expect(condition(fn, functionv1.BuildReady)).To(HavePrefix("True"))
		g.Expect(condition(fn, functionv1.Running)).To(HavePrefix("False DeploymentFailed: Crash: "))
		g.Expect(condition(fn, functionv1.Running)).To(ContainSubstring("SyntaxError"), "the last lines of output")
		g.Expect(condition(fn, functionv1.Running)).To(ContainSubstring(good), "the revision that serves")
		g.Expect(condition(fn, "Ready")).To(HavePrefix("False"))
		g.Expect(condition(fn, "Stalled")).To(HavePrefix("True"))
		g.Expect(fn.Status.Image).To(Equal(image), "status.image is what serves")
	})
	s.g.Expect(client.lastAnswer()).To(Equal("good"))

	mended := repo.push("mend it", map[string]string{"handler.js": handler("mended")})
	s.ready("fn", mended)
	s.answers("fn", "mended")
	client.sawOnly(t, "good", "mended")
}
