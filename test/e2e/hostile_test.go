package e2e

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
)

// TestHostileInstall builds a Function whose install script attacks the other
// stages of the build, see testdata/functions/hostile.
func TestHostileInstall(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "hostile")
	logs := s.collectLogs()
	repo, _ := s.newRepository("fn", true, map[string]string{"README.md": "hostile\n"})
	commit := repo.push("attack", sample(t, "hostile", ""))
	s.secret("git", map[string]string{"username": facts.GitUser, "password": facts.GitPassword})
	s.apply(newFunction("fn", fromGit(repo.url, "/"), withAuth("git")))

	began := time.Now()
	failed := false
	s.eventually(func(g Gomega) {
		fn := s.function("fn")
		if failed = strings.HasPrefix(condition(fn, functionv1.BuildReady), "False"); !failed {
			beReady(g, fn)
			g.Expect(fn.Status.Commit).To(Equal(commit))
		}
	}, "the build ends")
	s.took("the hostile build ended", began)
	const forged = "sha256:1111111111"
	for _, sighting := range watched.functions.sightings(s.name) {
		s.g.Expect(string(sighting.raw)).NotTo(ContainSubstring(forged), "a digest that the script forged")
		if build := decode[functionv1.Function](sighting.raw).Status.Build; build != nil {
			s.g.Expect(build.Class).NotTo(Equal("RegistryAuth"), "a class that only push may claim")
		}
	}
	secrets := map[string]string{
		"the Git password":             facts.GitPassword,
		"the registry's push password": s.secretValue(secretPush, "password"),
		"the registry's pull password": s.secretValue(secretPull, "password"),
	}
	s.hides(secrets, logs)
	s.g.Expect(logs.text()).To(ContainSubstring("loot: "), "the script did run")
	if failed {
		t.Log(condition(s.function("fn"), functionv1.BuildReady))
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
	t.Logf("the image holds what the script made, with %d files of what it found", loot)
}
