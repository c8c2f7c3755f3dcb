package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
)

// sshKey is a key pair as ssh-keygen makes it.
type sshKey struct {
	file            string
	private, public string
	// fingerprint is how messages name it.
	fingerprint string
}

// newSSHKey runs ssh-keygen with further arguments.
func (s *space) newSSHKey(args ...string) sshKey {
	s.t.Helper()
	file := filepath.Join(s.t.TempDir(), "key")
	out, err := exec.Command("ssh-keygen", append([]string{"-q", "-C", s.name, "-f", file}, args...)...).CombinedOutput()
	s.g.Expect(err).NotTo(HaveOccurred(), string(out))
	private, err := os.ReadFile(file)
	s.g.Expect(err).NotTo(HaveOccurred())
	public, err := os.ReadFile(file + ".pub")
	s.g.Expect(err).NotTo(HaveOccurred())
	out, err = exec.Command("ssh-keygen", "-l", "-f", file).Output()
	s.g.Expect(err).NotTo(HaveOccurred())
	return sshKey{file: file, private: string(private), public: string(public), fingerprint: strings.Fields(string(out))[1]}
}

// authorize lets the Git server take a key.
func (s *space) authorize(key sshKey) {
	s.t.Helper()
	file, err := os.OpenFile(facts.GitSSHAuthorizedKeys, os.O_APPEND|os.O_WRONLY, 0)
	s.g.Expect(err).NotTo(HaveOccurred())
	defer file.Close()
	_, err = file.WriteString(key.public)
	s.g.Expect(err).NotTo(HaveOccurred())
}

// TestSSHKeys reads a repository over SSH with each kind of key.
func TestSSHKeys(t *testing.T) {
	t.Parallel()
	const passphrase = "open-the-canary-cage-4417"
	s := newSpace(t, "ssh")
	logs := s.collectLogs()
	repo, commit := s.newRepository("fn", true, map[string]string{"handler.js": handler("over ssh")})
	secrets := map[string]string{"the passphrase": passphrase}
	names := []string{"ed25519", "ecdsa", "rsa", "encrypted"}
	for name, args := range map[string][]string{
		"ed25519":   {"-t", "ed25519", "-N", ""},
		"ecdsa":     {"-t", "ecdsa", "-b", "384", "-N", ""},
		"rsa":       {"-t", "rsa", "-b", "2048", "-m", "PEM", "-N", ""},
		"encrypted": {"-t", "ed25519", "-N", passphrase},
	} {
		key := s.newSSHKey(args...)
		s.authorize(key)
		secrets["the key "+name] = key.private
		switch name {
		case "rsa":
			s.secretOf(corev1.SecretTypeSSHAuth, name, map[string]string{"ssh-privatekey": key.private, "known_hosts": facts.GitSSHKnownHosts})
		case "encrypted":
			s.secret(name, map[string]string{"key": key.private, "password": passphrase, "known_hosts": facts.GitSSHKnownHosts})
		default:
			s.secret(name, map[string]string{"key": key.private, "known_hosts": facts.GitSSHKnownHosts})
		}
		s.apply(newFunction(name, fromGit(repo.ssh(), "/"), withAuthOf(functionv1.AuthKey, name)))
	}
	for _, name := range names {
		s.ready(name, commit)
		s.answers(name, "over ssh")
	}
	second := repo.push("again", map[string]string{"handler.js": handler("over ssh again")})
	for _, name := range names {
		s.ready(name, second)
		s.answers(name, "over ssh again")
	}
	s.hides(secrets, logs)
}

// TestSSHHostKey begins with an unknown host and a wrong key, and follows what
// the conditions say, one Secret after the other. It would look by itself an
// hour later.
func TestSSHHostKey(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "hostkey")
	logs := s.collectLogs()
	repo, commit := s.newRepository("fn", true, map[string]string{"handler.js": handler("known")})
	stranger, key := s.newSSHKey("-t", "ed25519", "-N", ""), s.newSSHKey("-t", "ed25519", "-N", "")
	s.authorize(key)
	s.secret("git", map[string]string{"key": stranger.private})
	s.apply(newFunction("fn", fromGit(repo.ssh(), "/"), withAuthOf(functionv1.AuthKey, "git"), withInterval(time.Hour)))

	host := "[" + facts.NodeIP + "]:2222"
	lineRule := regexp.MustCompile(regexp.QuoteMeta(host) + ` (ssh|ecdsa)-\S+ [A-Za-z0-9+/=]+`)
	var line string
	s.eventually(func(g Gomega) {
		message := condition(s.function("fn"), functionv1.ConfigurationReady)
		g.Expect(message).To(HavePrefix("False SourceUpdateFailed: GitHostKey: "))
		g.Expect(message).To(ContainSubstring("known_hosts"), "where to add it")
		line = lineRule.FindString(message)
		g.Expect(line).NotTo(BeEmpty(), "the line for %s in %q", host, message)
	})
	s.g.Expect(facts.GitSSHKnownHosts).To(ContainSubstring(strings.TrimPrefix(line, host)+"\n"), "it is a key of the server")

	// Somebody else's key under the server's name.
	other := s.newSSHKey("-t", "ed25519", "-N", "")
	s.secret("git", map[string]string{"key": key.private, "known_hosts": host + " " + other.public})
	s.soon(30*time.Second, func(g Gomega) {
		message := condition(s.function("fn"), functionv1.ConfigurationReady)
		g.Expect(message).To(HavePrefix("False SourceUpdateFailed: GitHostKey: "))
		g.Expect(message).NotTo(ContainSubstring(line), "a changed key is nothing to add at once")
	}, "the host key is not the one that is known")

	s.secret("git", map[string]string{"key": stranger.private, "known_hosts": line + "\n"})
	s.soon(30*time.Second, func(g Gomega) {
		message := condition(s.function("fn"), functionv1.ConfigurationReady)
		g.Expect(message).To(HavePrefix("False SourceUpdateFailed: GitAuth: "))
		g.Expect(message).To(ContainSubstring("Secret git"))
	}, "the host is known, the key is not")
	s.g.Expect(s.jobsSeen("fn")).To(BeZero())

	s.secret("git", map[string]string{"key": key.private, "known_hosts": line + "\n"})
	s.soon(30*time.Second, func(g Gomega) {
		g.Expect(s.function("fn").Status.Commit).To(Equal(commit))
	}, "a changed Secret takes effect at once")
	s.ready("fn", commit)
	s.answers("fn", "known")
	s.hides(map[string]string{"the key": key.private, "the wrong key": stranger.private}, logs)
}
