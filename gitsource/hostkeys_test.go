package gitsource_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/gitfn/gitfn/gitsource"
)

// hashed is a line of known_hosts with its host hashed, as HashKnownHosts writes it.
func hashed(line string) string {
	host, key, _ := strings.Cut(line, " ")
	return knownhosts.HashHostname(host) + " " + key
}

func TestSSHHostKeysAreKnown(t *testing.T) {
	t.Parallel()
	r, commit := monorepo(t, 1)
	s := newSSHD(t)
	host, port, err := net.SplitHostPort(s.listener.Addr().String())
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	other := newKey(t, "-t", "ed25519").public
	rows := []struct{ name, file string }{
		{name: "a plain line", file: s.known()},
		{name: "a hashed line", file: hashed(s.known())},
		{name: "among other lines", file: "# a comment\n\ngit.example " + other + "\n" + s.known()},
		{name: "with line ends of Windows", file: strings.ReplaceAll(s.known(), "\n", "\r\n")},
		{name: "without a line end", file: strings.TrimSpace(s.known())},
		{name: "as one of two keys", file: "[" + host + "]:" + port + " " + other + "\n" + s.known()},
		{name: "a wildcard", file: "127.0.0.* " + s.host.public},
		{name: "while another key is revoked", file: "@revoked * " + other + "\n" + s.known()},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			repo := s.repo(r)
			repo.Credentials.KnownHosts = []byte(row.file)
			got, err := newClient(t).Resolve(t.Context(), repo, gitsource.Selection{Reference: "main"}, 0)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got.Commit).To(Equal(commit))
		})
	}
}

func TestSSHHostKeysAreRefused(t *testing.T) {
	t.Parallel()
	r, _ := monorepo(t, 1)
	s := newSSHD(t)
	other := newKey(t, "-t", "ed25519").public
	otherKind := newKey(t, "-t", "ecdsa").public
	line := strings.TrimSpace(s.known())
	rows := []struct{ name, file, says, saysNot string }{
		{name: "nothing is known", file: "", says: "add this line to the Secret's key known_hosts: " + line},
		{name: "another host is known", file: "git.example " + s.host.public, says: "add this line to the Secret's key known_hosts: " + line},
		{name: "another port is known", file: strings.Replace(s.known(), "]:", "]:1", 1), says: "add this line to the Secret's key known_hosts: " + line},
		{name: "another key is known", file: knownLine(s.listener, other), says: "WARNING: ", saysNot: "add this line"},
		{name: "a key of another kind is known", file: knownLine(s.listener, otherKind), says: "WARNING: ", saysNot: "add this line"},
		{name: "the key is revoked", file: s.known() + "@revoked * " + s.host.public, says: "is marked @revoked"},
		{name: "a line is damaged", file: s.known() + "git.example ssh-ed25519 AAAA*", says: "read known_hosts of the Secret: line:2: "},
		{name: "a pattern has many stars", file: "a*b*c*d*e*f " + s.host.public, says: "a pattern has more than 2 *"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			cache := t.TempDir()
			repo := s.repo(r)
			repo.Credentials.KnownHosts = []byte(row.file)
			_, err := newClient(t, func(o *gitsource.Options) { o.CacheDir = cache }).Resolve(t.Context(), repo, gitsource.Selection{Reference: "main"}, 0)
			g.Expect(err).To(MatchError(gitsource.ErrHostKey))
			g.Expect(err).To(MatchError(And(HavePrefix("ask "+repo.URL+": "), ContainSubstring(row.says))))
			g.Expect(err.Error()).NotTo(Or(ContainSubstring(cache), HaveSuffix("…")))
			if row.saysNot != "" {
				g.Expect(err.Error()).NotTo(ContainSubstring(row.saysNot))
			}
			g.Expect(filesIn(g, cache)).To(BeEmpty())
		})
	}
}

// TestSSHUnknownHostLineIsWhole shows that the line of the longest key can be copied from the error.
func TestSSHUnknownHostLineIsWhole(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r, _ := monorepo(t, 1)
	s := newSSHD(t)
	s.host = newKey(t, "-t", "rsa", "-b", "4096")
	config := string(read(t, s.config))
	write(t, s.config, "HostKey "+s.host.path+"\n"+strings.Join(strings.Split(config, "\n")[1:], "\n"))
	repo := s.repo(r)
	repo.Credentials.KnownHosts = nil
	c := newClient(t)
	_, err := c.Resolve(t.Context(), repo, gitsource.Selection{Reference: "main"}, 0)
	g.Expect(err).To(MatchError(gitsource.ErrHostKey))
	_, line, found := strings.Cut(err.Error(), "known_hosts: ")
	g.Expect(found).To(BeTrue())

	repo.Credentials.KnownHosts = []byte(line)
	_, err = c.Resolve(t.Context(), repo, gitsource.Selection{Reference: "main"}, 0)
	g.Expect(err).NotTo(HaveOccurred())
}

// TestSSHHostKeyOfTheKnownKind has a server with three keys, of which any one is known.
func TestSSHHostKeyOfTheKnownKind(t *testing.T) {
	t.Parallel()
	r, commit := monorepo(t, 1)
	rsa, ecdsa := newKey(t, "-t", "rsa", "-b", "3072"), newKey(t, "-t", "ecdsa")
	s := newSSHD(t, "HostKey "+rsa.path, "HostKey "+ecdsa.path)
	for name, key := range map[string]keyFile{"RSA": rsa, "ECDSA": ecdsa, "ed25519": s.host} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			repo := s.repo(r)
			repo.Credentials.KnownHosts = []byte(knownLine(s.listener, key.public))
			got, err := newClient(t).Resolve(t.Context(), repo, gitsource.Selection{Reference: "main"}, 0)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got.Commit).To(Equal(commit))
		})
	}
}

func TestSSHHostCertificates(t *testing.T) {
	t.Parallel()
	r, _ := monorepo(t, 1)
	authority, host := newKey(t, "-t", "ed25519"), newKey(t, "-t", "ecdsa")
	certified := func(t *testing.T, principal, validity string) *sshd {
		dir := t.TempDir()
		path := filepath.Join(dir, "host")
		write(t, path, string(host.private))
		write(t, path+".pub", host.public)
		keygen(t, "-q", "-s", authority.path, "-I", "host", "-h", "-n", principal, "-V", validity, path+".pub")
		return newSSHD(t, "HostKey "+path, "HostCertificate "+path+"-cert.pub")
	}
	known := "@cert-authority 127.0.0.* " + authority.public
	rows := []struct {
		name, principal, validity, file string
		says                            string
	}{
		{name: "of a known authority", principal: "127.0.0.1", validity: "always:forever", file: known},
		{name: "of a known authority, hashed", principal: "127.0.0.1", validity: "always:forever", file: "HASHED"},
		{name: "of an authority for others", principal: "127.0.0.1", validity: "always:forever", file: strings.Replace(known, "127.0.0.*", "*.example", 1), says: "is not known"},
		{name: "for another name", principal: "git.example", validity: "always:forever", file: known, says: "the certificate of "},
		{name: "that is over", principal: "127.0.0.1", validity: "20200101:20200102", file: known, says: "expired"},
		{name: "that is revoked", principal: "127.0.0.1", validity: "always:forever", file: known + "\n@revoked * " + host.public, says: "revoked"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			s := certified(t, row.principal, row.validity)
			repo := s.repo(r)
			repo.Credentials.KnownHosts = []byte(row.file)
			if row.file == "HASHED" {
				repo.Credentials.KnownHosts = []byte("@cert-authority " + hashed(knownLine(s.listener, authority.public)))
			}
			_, err := newClient(t).Resolve(t.Context(), repo, gitsource.Selection{Reference: "main"}, 0)
			if row.says == "" {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			g.Expect(err).To(MatchError(gitsource.ErrHostKey))
			g.Expect(err).To(MatchError(ContainSubstring(row.says)))
		})
	}
}

func TestSSHTakesNoSHA1(t *testing.T) {
	t.Parallel()
	r, _ := monorepo(t, 1)
	rsa := newKey(t, "-t", "rsa", "-b", "3072")
	t.Run("from a server", func(t *testing.T) {
		t.Parallel()
		g := NewWithT(t)
		s := newSSHD(t, "HostKey "+rsa.path, "HostKeyAlgorithms ssh-rsa")
		repo := s.repo(r)
		repo.Credentials.KnownHosts = []byte(knownLine(s.listener, rsa.public))
		_, err := newClient(t).Resolve(t.Context(), repo, gitsource.Selection{Reference: "main"}, 0)
		g.Expect(err).To(MatchError(gitsource.ErrHostKey))
		repo.Credentials.KnownHosts = nil
		_, err = newClient(t).Resolve(t.Context(), repo, gitsource.Selection{Reference: "main"}, 0)
		g.Expect(err).To(MatchError(gitsource.ErrHostKey))
		g.Expect(err).To(MatchError(ContainSubstring("offers no key that can be believed, only ssh-rsa")))
	})
	t.Run("for a server", func(t *testing.T) {
		t.Parallel()
		g := NewWithT(t)
		s := newSSHDWith(t, rsa, "PubkeyAcceptedAlgorithms ssh-rsa")
		_, err := newClient(t).Resolve(t.Context(), s.repo(r), gitsource.Selection{Reference: "main"}, 0)
		g.Expect(err).To(MatchError(gitsource.ErrAuth))
		frank := newGoSSHD(t, says("", "", 0), func(s *goSSHD) { s.config.PublicKeyAuthAlgorithms = []string{ssh.KeyAlgoRSA} })
		repo := frank.repo()
		repo.Credentials.SSHKey = rsa.private
		_, err = newClient(t).Resolve(t.Context(), repo, gitsource.Selection{Reference: "main"}, 0)
		g.Expect(err).To(MatchError(gitsource.ErrAuth))
		g.Expect(err).To(MatchError(ContainSubstring("accepts RSA keys with SHA-1 signatures only")))
	})
	t.Run("nor a weak exchange", func(t *testing.T) {
		t.Parallel()
		g := NewWithT(t)
		s := newSSHD(t, "KexAlgorithms diffie-hellman-group1-sha1")
		_, err := newClient(t).Resolve(t.Context(), s.repo(r), gitsource.Selection{Reference: "main"}, 0)
		g.Expect(err).To(MatchError(gitsource.ErrUnsupported))
		g.Expect(err).To(MatchError(ContainSubstring("diffie-hellman-group1-sha1")))
	})
}

// published are the fingerprints of the forges, each from another place than the key: docs.github.com,
// the source of about.gitlab.com, bitbucket.org/blog/ssh-host-key-changes, docs.codeberg.org, and the documentation of
// Azure DevOps and Argo CD.
var published = map[string][]string{
	"github.com": {
		"SHA256:+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU",
		"SHA256:p2QAMXNIC1TJYWeIOttrVc98/R1BUFWu3/LiyKgUfQM",
		"SHA256:uNiVztksCsDhcc0u9e8BujQXVUpKZIDTMczCvj3tD2s",
	},
	"gitlab.com": {
		"SHA256:eUXGGm1YGsMAS7vkcx6JOJdOGHPem5gQp4taiCfCLB8",
		"SHA256:HbW3g8zUjNSksFbqTiUWPWg2Bq1x8xdGUrliXFzSnUw",
		"SHA256:ROQFvPThGrW4RuWLoL9tq9I9zJ42fK4XywyRtbOz/EQ",
	},
	"bitbucket.org": {
		"SHA256:ybgmFkzwOSotHTHLJgHO0QN8L0xErw6vd0VhFA9m3SM",
		"SHA256:FC73VB6C4OQLSCrjEayhMp9UMxS97caD/Yyi2bhW/J0",
		"SHA256:46OSHA1Rmj8E8ERTC6xkNcmGOw9oFxYr0WF6zWW8l1E",
	},
	"ssh.dev.azure.com":       {"SHA256:ohD8VZEXGWo6Ez8GSEJQ9WpafgLFsOfLOtGGQCQo6Og"},
	"vs-ssh.visualstudio.com": {"SHA256:ohD8VZEXGWo6Ez8GSEJQ9WpafgLFsOfLOtGGQCQo6Og"},
	"codeberg.org": {
		"SHA256:mIlxA9k46MmM6qdJOdMnAQpzGxF4WIVVL+fj+wZbw0g",
		"SHA256:T9FYDEHELhVkulEKKwge5aVhVTbqCW0MIRwAfpARs/E",
		"SHA256:6QQmYi4ppFS4/+zSZ5S4IU+4sa6rwvQ4PbhCtPEBekQ",
	},
	"[ssh.github.com]:443": {
		"SHA256:+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU",
		"SHA256:p2QAMXNIC1TJYWeIOttrVc98/R1BUFWu3/LiyKgUfQM",
		"SHA256:uNiVztksCsDhcc0u9e8BujQXVUpKZIDTMczCvj3tD2s",
	},
}

func TestSSHPinnedKeysAreThePublishedOnes(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	found := map[string][]string{}
	for rest := []byte(gitsource.PinnedHosts); len(rest) > 0; {
		var hosts []string
		var key ssh.PublicKey
		var err error
		_, hosts, key, _, rest, err = ssh.ParseKnownHosts(rest)
		g.Expect(err).NotTo(HaveOccurred())
		for _, host := range hosts {
			found[host] = append(found[host], ssh.FingerprintSHA256(key))
		}
	}
	g.Expect(found).To(Equal(published))
}

// TestSSHPinnedHostsNeedNoKnownHosts checks keys as a connection does, without one.
func TestSSHPinnedHostsNeedNoKnownHosts(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	_, signer := quickKey(t)
	github := "AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte("ssh-ed25519 " + github))
	g.Expect(err).NotTo(HaveOccurred())
	check := func(address, file string, key ssh.PublicKey) error {
		return gitsource.CheckHostKey(t.TempDir(), address, []byte(file), key)
	}
	g.Expect(check("github.com:22", "", key)).To(Succeed())
	g.Expect(check("github.com:22", "git.example ssh-ed25519 "+github, key)).To(Succeed())
	g.Expect(check("github.com:22", "", signer.PublicKey())).To(MatchError(And(ContainSubstring("WARNING: github.com "), ContainSubstring("built in"))))
	g.Expect(check("github.com:22", "@revoked * ssh-ed25519 "+github, key)).To(MatchError(ContainSubstring("@revoked")))
	g.Expect(check("github.com:2222", "", key)).To(MatchError(ContainSubstring("add this line")), "another port is another server")
	g.Expect(check("github.com.example:22", "", key)).To(MatchError(gitsource.ErrHostKey))

	own := "github.com " + strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey())))
	g.Expect(check("github.com:22", own, signer.PublicKey())).To(Succeed(), "the Secret counts first")
	g.Expect(check("github.com:22", own, key)).To(MatchError(And(ContainSubstring("WARNING"), Not(ContainSubstring("built in")))))
}

func TestSSHKnownHostsIsReadOnce(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	cache := t.TempDir()
	r, _ := monorepo(t, 1)
	s := newSSHD(t)
	c := newClient(t, func(o *gitsource.Options) { o.CacheDir = cache })
	_, err := c.Resolve(t.Context(), s.repo(r), gitsource.Selection{Reference: "main"}, 0)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(os.RemoveAll(cache)).To(Succeed())
	s.cut()
	_, err = c.Resolve(t.Context(), s.repo(r), gitsource.Selection{Reference: "main"}, 0)
	g.Expect(err).NotTo(HaveOccurred(), "a new connection reads no file")
}
