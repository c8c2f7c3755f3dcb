package e2e

import (
	"testing"

	. "github.com/onsi/gomega"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
)

// TestVerification runs commits that a trusted key signed, and no others.
func TestVerification(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "signed")
	repo, _ := s.newRepository("fn", false, map[string]string{"README.md": "signed\n"})
	trusted, stranger := s.newSSHKey("-t", "ed25519", "-N", ""), s.newSSHKey("-t", "ed25519", "-N", "")
	signed := func(answer string, key sshKey) string {
		repo.git("config", "gpg.format", "ssh")
		repo.git("config", "user.signingKey", key.file)
		repo.commit(answer, map[string]string{"handler.js": handler(answer)}, "--gpg-sign")
		return repo.send()
	}
	first := signed("signed", trusted)
	s.secret("keys", map[string]string{"ada.pub": trusted.public})
	s.apply(newFunction("fn", fromGit(repo.url, "/"), withVerification("keys")))
	s.ready("fn", first)
	s.answers("fn", "signed")

	unsigned := repo.push("unsigned", map[string]string{"handler.js": handler("unsigned")})
	s.refuses("fn", unsigned, "not signed")
	foreign := signed("foreign", stranger)
	s.refuses("fn", foreign, stranger.fingerprint)
	s.g.Expect(s.function("fn").Status.Revision).To(Equal("main@sha1:"+first), "what was signed goes on serving")
	s.answers("fn", "signed")
	s.g.Expect(s.jobsSeen("fn")).To(Equal(1), "nothing else was built")

	// A key more is trusted, and the commit runs.
	s.secret("keys", map[string]string{"ada.pub": trusted.public, "bob.pub": stranger.public})
	s.ready("fn", foreign)
	s.answers("fn", "foreign")
}

func withVerification(secret string) func(*functionv1.FunctionSpec) {
	return func(spec *functionv1.FunctionSpec) {
		spec.Source.GitRepository.Verification = &functionv1.Verification{Mode: "HEAD", SecretName: secret}
	}
}

// refuses waits until the condition says that a commit is not believed, and why.
func (s *space) refuses(name, commit, why string) {
	s.t.Helper()
	s.eventually(func(g Gomega) {
		message := condition(s.function(name), functionv1.ConfigurationReady)
		g.Expect(message).To(HavePrefix("False SourceUpdateFailed: GitUnverified: "))
		g.Expect(message).To(ContainSubstring(commit[:7]))
		g.Expect(message).To(ContainSubstring(why))
	})
}
