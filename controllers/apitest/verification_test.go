package apitest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
)

// signer lets ssh-keygen make a key; it returns its file and its public line.
func signer(t *testing.T, who string) (file, public string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "key")
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", who, "-f", file).CombinedOutput(); err != nil {
		t.Fatalf("ssh-keygen: %v\n%s", err, out)
	}
	line, err := os.ReadFile(file + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	return file, string(line)
}

// signed replaces the newest commit of main by one that is signed with a key.
func (s *gitServer) signed(key string) string {
	s.t.Helper()
	tree := s.git("", "--git-dir", s.dir, "rev-parse", "main^{tree}")
	commit := s.git("signed\n", "--git-dir", s.dir, "-c", "gpg.format=ssh", "-c", "user.signingkey="+key,
		"-c", "user.name=Ada", "-c", "user.email=ada@example.org", "commit-tree", "-S", tree)
	s.git("", "--git-dir", s.dir, "update-ref", "refs/heads/main", commit)
	return commit
}

// TestVerification wants what is not signed by a trusted key to leave what runs.
func TestVerification(t *testing.T) {
	t.Parallel()
	ada, adaLine := signer(t, "ada@example.org")
	eve, _ := signer(t, "eve@example.org")
	w := newWorld(t)
	w.git.push("main", files{"hello/handler.js": handler})
	w.git.signed(ada)
	w.function("hello", func(fn *functionv1.Function) {
		fn.Spec.Source.GitRepository.Verification = &functionv1.Verification{SecretName: "trusted"}
	})

	unverified := func(message, running string) {
		t.Helper()
		w.events.taken()
		fn, _ := w.pass("hello")
		want := []string{
			"Ready False SourceUpdateFailed: GitUnverified: ", "Stalled True SourceUpdateFailed: GitUnverified: ",
			"ConfigurationReady False SourceUpdateFailed: " + message, "Running " + running,
		}
		if fn.Status.Image != "" {
			want = append(want, "BuildReady True JobFinished")
		}
		w.expect(fn, want...)
		w.Expect(fn.Status.Source.Class).To(Equal("GitUnverified"))
		w.Expect(w.events.taken()).To(HaveLen(1))
		w.Expect(w.jobs()).To(BeEmpty(), "what is not verified is not built")
	}
	none := "Unknown DeploymentWaiting: there is no image yet"
	unverified("GitUnverified: read trusted keys: there is no Secret trusted in namespace "+w.namespace, none)
	w.secret("trusted", map[string]string{})
	unverified("GitUnverified: read trusted keys: Secret trusted has none", none)

	// The keys are read anew each time: no wait for a poll.
	w.secret("trusted", map[string]string{"ada.pub": adaLine})
	served := w.runs("hello")
	w.serves(served, "main@sha1:"+served.Status.Commit)
	w.Expect(served.Status.GitRepository.Signer).To(ContainSubstring("ada@example.org"))

	says := "True DeploymentReady: serves " + served.Status.Revision
	w.git.push("main", files{"hello/handler.js": handler + "// unsigned"})
	w.later(2 * pollInterval)
	unverified("; "+served.Status.Revision+" goes on serving", says)
	w.git.signed(eve)
	w.later(2 * pollInterval)
	unverified("; "+served.Status.Revision+" goes on serving", says)
	w.Expect(w.look("hello").Status.Image).To(Equal(served.Status.Image))

	newest := w.git.signed(ada)
	w.later(2 * pollInterval)
	w.pass("hello")
	w.builds(w.job())
	w.pass("hello")
	w.rollsOut("hello")
	fn, _ := w.pass("hello")
	w.serves(fn, "main@sha1:"+newest)
}
