package e2e

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
)

// forgedDigest begins every digest that the script forges.
const forgedDigest = "sha256:1111111111"

// TestHostileInstall builds a Function whose install script attacks the other
// stages of the build, see testdata/functions/hostile; first all around it, and
// then in what it installs too.
func TestHostileInstall(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "hostile")
	logs := s.collectLogs()
	repo, _ := s.newRepository("fn", true, map[string]string{"README.md": "hostile\n"})
	s.secret("git", map[string]string{"username": facts.GitUser, "password": facts.GitPassword})
	commit := repo.push("attack", sample(t, "hostile", ""))
	s.apply(newFunction("fn", fromGit(repo.url, "/"), withAuth("git")))
	built := s.buildEnds("fn", commit)
	s.g.Expect(logs.text()).To(ContainSubstring("loot: "), "the script did run")
	secrets := map[string]string{
		"the Git password":             facts.GitPassword,
		"the registry's push password": s.secretValue(secretPush, "password"),
		"the registry's pull password": s.secretValue(secretPull, "password"),
	}
	s.unharmed(built, secrets, logs)

	commit = repo.push("attack what is installed", map[string]string{
		"evil/package.json": `{"name": "evil", "version": "1.0.0", "scripts": {"postinstall": "node attack.js modules"}}`,
	})
	s.unharmed(s.buildEnds("fn", commit), secrets, logs)
	s.noJobs()
}

// buildEnds waits until a commit is built, or cannot be.
func (s *space) buildEnds(name, commit string) (built bool) {
	s.t.Helper()
	began := time.Now()
	s.eventually(func(g Gomega) {
		fn := s.function(name)
		g.Expect(fn.Status.Commit).To(Equal(commit))
		if built = !strings.HasPrefix(condition(fn, functionv1.BuildReady), "False"); built {
			beReady(g, fn)
			g.Expect(fn.Status.Revision).To(HaveSuffix(commit))
		}
	}, "the build of %s ends", commit)
	s.took("the build ended: "+condition(s.function(name), functionv1.BuildReady), began)
	return built
}

// unharmed expects that the script got nothing of another stage, and made
// nobody believe what it forged.
func (s *space) unharmed(built bool, secrets map[string]string, logs *podLogs) {
	s.t.Helper()
	for _, sighting := range watched.functions.sightings(s.name) {
		s.g.Expect(string(sighting.raw)).NotTo(ContainSubstring(forgedDigest), "a digest that the script forged")
		if build := decode[functionv1.Function](sighting.raw).Status.Build; build != nil {
			s.g.Expect(build.Class).To(BeElementOf("", "InstallFailed"), "a class that only others may claim")
			s.g.Expect(build.Message).NotTo(ContainSubstring("forged"))
		}
	}
	s.hides(secrets, logs)
	if !built {
		return
	}
	s.answers("fn", "what the script made")
	s.imageHides("fn", secrets)
	loot := 0
	for _, file := range s.files("fn") {
		name := "/" + strings.TrimPrefix(file.header.Name, "/")
		s.g.Expect(name).To(HavePrefix("/usr/src/app/function"), "no file goes elsewhere")
		s.g.Expect(string(file.content)).NotTo(ContainSubstring("root:x:0:0"), "%s is /etc/passwd", name)
		if strings.HasSuffix(name, "loot.txt") {
			loot++
		}
	}
	s.g.Expect(loot).NotTo(BeZero(), "what the script found is in the image, as it is the script's to put there")
}
