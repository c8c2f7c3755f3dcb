package gitsource_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/gitfn/gitfn/gitsource"
)

// sshWays is every kind of server behind OpenSSH's sshd that Resolve and Fetch must read.
var sshWays = []struct {
	name   string
	sshd   []string
	config map[string]string
}{
	{name: "protocol v2 with filters"},
	{name: "protocol v2 without filters", config: map[string]string{"uploadpack.allowFilter": "false"}},
	{name: "protocol v0, because sshd takes no GIT_PROTOCOL", sshd: []string{"AcceptEnv NOTHING"}},
	{name: "protocol v0 that gives any object, with filters", sshd: []string{"AcceptEnv NOTHING"}, config: map[string]string{"uploadpack.allowAnySHA1InWant": "true"}},
}

func TestSSHReadsEveryKindOfServer(t *testing.T) {
	t.Parallel()
	for _, way := range sshWays {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			r, _ := monorepo(t, 20)
			for key, value := range way.config {
				r.config(key, value)
			}
			s := newSSHD(t, way.sshd...)
			readsAll(t, r, s.repo(r))
			NewWithT(t).Expect(s.met()).To(BeNumerically("<=", 2), "connections: each command goes over the one before, until one is refused")
		})
	}
}

// readsAll resolves and fetches a repository of monorepo, and its next commit.
func readsAll(t *testing.T, r *repository, repo gitsource.Repository) {
	t.Helper()
	g := NewWithT(t)
	c := newClient(t)
	first := r.run("", "rev-parse", "main")
	got, err := c.Resolve(t.Context(), repo, gitsource.Selection{Reference: "main", BaseDir: "f7"}, 0)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got.Commit).To(Equal(first))
	g.Expect(got.Tree).To(Equal(r.run("", "rev-parse", first+":f7")))
	tree, err := c.Fetch(t.Context(), repo, first, gitsource.Selection{BaseDir: "f7"})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(content(t, tree, "handler.js")).To(Equal("function 7"))
	g.Expect(tree.Close()).To(Succeed())

	second := r.commit("main", r.files(map[string]string{"f7/handler.js": "changed"}), "second", first)
	got, err = c.Resolve(t.Context(), repo, gitsource.Selection{Reference: "main", BaseDir: "f7"}, 0)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got.Commit).To(Equal(second))
	tree, err = c.Fetch(t.Context(), repo, second, gitsource.Selection{BaseDir: "f7"})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(content(t, tree, "handler.js")).To(Equal("changed"))
	g.Expect(tree.Close()).To(Succeed())

	r.run("", "tag", "-a", "v1", "-m", "one", first)
	got, err = c.Resolve(t.Context(), repo, gitsource.Selection{Reference: "v1", BaseDir: "f7"}, 0)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got.Commit).To(Equal(first), "an annotated tag is peeled")
	_, err = c.Resolve(t.Context(), repo, gitsource.Selection{Reference: "absent"}, 0)
	g.Expect(err).To(MatchError(gitsource.ErrRefNotFound))
	_, err = c.Resolve(t.Context(), repo, gitsource.Selection{Reference: "0123456789abcdef0123456789abcdef01234567"}, 0)
	g.Expect(err).To(MatchError(gitsource.ErrRefNotFound))
}

func TestSSHTakesEveryGoodKey(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name       string
		key        []string
		passphrase string
	}{
		{name: "ed25519", key: []string{"-t", "ed25519"}},
		{name: "ed25519 with a passphrase", key: []string{"-t", "ed25519", "-N", "open sesame"}, passphrase: "open sesame"},
		{name: "ed25519 with a passphrase that it does not need", key: []string{"-t", "ed25519"}, passphrase: "idle"},
		{name: "ECDSA P-256", key: []string{"-t", "ecdsa", "-b", "256"}},
		{name: "ECDSA P-384 in PEM form", key: []string{"-t", "ecdsa", "-b", "384", "-m", "PEM"}},
		{name: "ECDSA P-521 with a passphrase", key: []string{"-t", "ecdsa", "-b", "521", "-N", "open sesame"}, passphrase: "open sesame"},
		{name: "RSA", key: []string{"-t", "rsa", "-b", "3072"}},
		{name: "RSA in PEM form with a passphrase", key: []string{"-t", "rsa", "-b", "2048", "-m", "PEM", "-N", "open sesame"}, passphrase: "open sesame"},
		{name: "RSA in PKCS #8 form", key: []string{"-t", "rsa", "-b", "2048", "-m", "PKCS8"}},
	}
	r, commit := monorepo(t, 1)
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			s := newSSHDWith(t, newKey(t, row.key...), "PubkeyAcceptedAlgorithms -ssh-rsa")
			repo := s.repo(r)
			repo.Credentials.SSHPassphrase = row.passphrase
			got, err := newClient(t).Resolve(t.Context(), repo, gitsource.Selection{Reference: "main", BaseDir: "f0"}, 0)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got.Commit).To(Equal(commit))
		})
	}
}

func TestSSHRefusesBadKeys(t *testing.T) {
	t.Parallel()
	r, _ := monorepo(t, 1)
	s := newSSHD(t)
	encrypted := newKey(t, "-t", "ed25519", "-N", "open sesame")
	public := encrypted.public
	pkcs8 := newKey(t, "-t", "rsa", "-b", "2048", "-m", "PKCS8", "-N", "open sesame")
	weak := newKey(t, "-t", "rsa", "-b", "1024")
	rows := []struct {
		name       string
		key        []byte
		passphrase string
		says       string
	}{
		{name: "encrypted, without its passphrase", key: encrypted.private, says: "it is encrypted; put its passphrase into the Secret's key password"},
		{name: "encrypted, with another passphrase", key: encrypted.private, passphrase: "open barley", says: "the passphrase in the Secret's key password is wrong"},
		{name: "encrypted PKCS #8", key: pkcs8.private, passphrase: "open sesame", says: "write it anew with ssh-keygen -p"},
		{name: "a public key", key: []byte(public), says: "it is the public key; the Secret needs the private one"},
		{name: "PuTTY's form", key: []byte("PuTTY-User-Key-File-3: ssh-ed25519\n"), says: "export it as an OpenSSH key"},
		{name: "half a key", key: encrypted.private[:100], says: "is damaged"},
		{name: "no key at all", key: []byte("hunter2"), says: "is damaged"},
		{name: "RSA of 1024 bits", key: weak.private, says: "an RSA key of 1024 bits is too weak"},
		{name: "as large as no key is", key: make([]byte, 1<<20), says: "larger than"},
		{name: "a key that the server does not know", key: newKey(t, "-t", "ed25519").private, says: "the SSH server refused the key as user " + s.user},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			repo := s.repo(r)
			repo.Credentials.SSHKey, repo.Credentials.SSHPassphrase = row.key, row.passphrase
			c := newClient(t)
			for range 2 {
				_, err := c.Resolve(t.Context(), repo, gitsource.Selection{Reference: "main"}, 0)
				g.Expect(err).To(MatchError(gitsource.ErrAuth))
				g.Expect(err).To(MatchError(And(HavePrefix("ask "+repo.URL+": "), ContainSubstring(row.says))))
				for _, secret := range []string{"PRIVATE KEY", "open", "hunter2", string(row.key[:min(40, len(row.key))])} {
					if secret != "open" || row.passphrase != "" {
						g.Expect(err.Error()).NotTo(ContainSubstring(secret))
					}
				}
			}
		})
	}
}

func TestSSHAndCredentialsFit(t *testing.T) {
	t.Parallel()
	key, _ := quickKey(t)
	rows := []struct {
		name, url   string
		credentials gitsource.Credentials
		err         error
		says        string
	}{
		{name: "ssh without anything", url: "ssh://git@git.example/fn.git", err: gitsource.ErrAuth, says: "an ssh URL wants an SSH key; name a Secret that holds one"},
		{name: "ssh with a token", url: "git@git.example:fn.git", credentials: secret, err: gitsource.ErrAuth, says: "use the https URL, or a Secret with a key"},
		{name: "https with an SSH key", url: "https://git.example/team/fn.git", credentials: gitsource.Credentials{SSHKey: key}, err: gitsource.ErrAuth, says: "use the URL ssh://git@git.example/team/fn.git"},
		{name: "git with a token", url: "git://git.example/fn.git", credentials: secret, err: gitsource.ErrAuth, says: "git:// carries no credentials"},
		{name: "git with an SSH key", url: "git://git.example/fn.git", credentials: gitsource.Credentials{SSHKey: key}, err: gitsource.ErrAuth, says: "git:// carries no credentials"},
		{name: "ssh through a proxy", url: "git@git.example:fn.git", credentials: gitsource.Credentials{SSHKey: key, Proxy: "http://robot:hunter2-token@proxy.example"}, err: gitsource.ErrUnsupported, says: "a proxy serves https and http URLs only"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			_, err := newClient(t).Resolve(t.Context(), gitsource.Repository{URL: row.url, Credentials: row.credentials}, gitsource.Selection{Reference: "main"}, 0)
			g.Expect(err).To(MatchError(row.err))
			g.Expect(err).To(MatchError(And(ContainSubstring(row.url), ContainSubstring(row.says))))
			g.Expect(err.Error()).NotTo(Or(ContainSubstring("hunter2"), ContainSubstring("robot"), ContainSubstring("PRIVATE")))
		})
	}
}

func TestSSHConnectionsAreSharedByRepositories(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	s := newSSHD(t)
	c := newClient(t)
	resolve := func(repo gitsource.Repository, age time.Duration) error {
		_, err := c.Resolve(t.Context(), repo, gitsource.Selection{Reference: "main", BaseDir: "f0"}, age)
		return err
	}
	var repos []gitsource.Repository
	for range 3 {
		r, _ := monorepo(t, 1)
		repos = append(repos, s.repo(r))
		g.Expect(resolve(repos[len(repos)-1], 0)).To(Succeed())
	}
	g.Expect(s.met()).To(Equal(1), "one user, one key: one connection")
	g.Expect(s.logged("Starting session: command")).To(Equal(6), "refs and a pack each")

	s.cut()
	for _, repo := range repos {
		g.Expect(resolve(repo, 0)).To(Succeed(), "a connection that broke is replaced")
	}
	g.Expect(s.met()).To(Equal(2))

	other := repos[0]
	other.Credentials.SSHKey = newKey(t, "-t", "ed25519").private
	g.Expect(resolve(other, time.Hour)).To(MatchError(gitsource.ErrAuth), "nobody speaks over the connection, or gets the answer, of another key")
	other = repos[0]
	other.Credentials.KnownHosts = nil
	g.Expect(resolve(other, time.Hour)).To(MatchError(gitsource.ErrHostKey), "nor of other host keys")
	other = repos[0]
	other.Credentials.SSHPassphrase = "another"
	g.Expect(resolve(other, time.Hour)).To(Succeed())
	g.Expect(s.met()).To(Equal(5))
}

func TestSSHServerOfOneSession(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	s := newSSHD(t, "MaxSessions 1")
	c := newClient(t)
	for range 5 {
		r, _ := monorepo(t, 1)
		_, err := c.Resolve(t.Context(), s.repo(r), gitsource.Selection{Reference: "main", BaseDir: "f0"}, 0)
		g.Expect(err).NotTo(HaveOccurred(), "a session that sshd has not forgotten yet costs a connection, not an error")
	}
}

func TestSSHWaitsForItsTurn(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	s := newSSHD(t)
	c := newClient(t)
	done := make(chan error)
	const many = 12
	for range many {
		r, _ := monorepo(t, 1)
		go func() {
			_, err := c.Resolve(t.Context(), s.repo(r), gitsource.Selection{Reference: "main", BaseDir: "f0"}, 0)
			done <- err
		}()
	}
	for range many {
		g.Expect(<-done).To(Succeed())
	}
	g.Expect(s.met()).To(BeNumerically("<=", 4), "a server is not overrun")
}

func TestSSHURLForms(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r, commit := monorepo(t, 1)
	s := newGoSSHD(t, gitUploadPack(r, func(b []byte) []byte { return b }))
	address := s.listener.Addr().String()
	forms := map[string]string{
		"ssh://" + address + "/team/fn.git":              "git-upload-pack '/team/fn.git'",
		"ssh://git@" + address + "/team/fn.git/":         "git-upload-pack '/team/fn.git'",
		"ssh://git@" + address + "/~ada/fn.git":          "git-upload-pack '~ada/fn.git'",
		"ssh://git@" + address + "/it's%20%21/$(id);fn":  `git-upload-pack '/it'\''s '\!'/$(id);fn'`,
		"ssh://git@" + address + "/a`id`&&b|c%5cd%22%25": "git-upload-pack '/a`id`&&b|c\\d\"%'",
	}
	c := newClient(t)
	for url := range forms {
		repo := s.repo()
		repo.URL = url
		got, err := c.Resolve(t.Context(), repo, gitsource.Selection{Reference: "main", BaseDir: "f0"}, 0)
		g.Expect(err).NotTo(HaveOccurred(), url)
		g.Expect(got.Commit).To(Equal(commit))
	}
	for url, command := range forms {
		g.Expect(s.all()).To(ContainElement(command), url)
	}
}

func TestSSHScpFormReachesTheUsersHome(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	err := resolveNowhere(t, "ada@ssh.invalid:team/fn.git")
	g.Expect(err).To(MatchError(gitsource.ErrUnavailable))
	g.Expect(err).To(MatchError(HavePrefix("ask ada@ssh.invalid:team/fn.git: ")), "it is named as it was written")
}

func resolveNowhere(t *testing.T, url string) error {
	key, _ := quickKey(t)
	repo := gitsource.Repository{URL: url, Credentials: gitsource.Credentials{SSHKey: key}}
	_, err := newClient(t).Resolve(t.Context(), repo, gitsource.Selection{Reference: "main"}, 0)
	return err
}

func TestSSHAddressesAreRefused(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r, _ := monorepo(t, 1)
	s := newSSHD(t)
	c := newClient(t, func(o *gitsource.Options) { o.Allow = nil })
	for _, host := range []string{"127.0.0.1", "localhost", "169.254.169.254", "[::ffff:127.0.0.1]", "0.0.0.0"} {
		repo := s.repo(r)
		for _, url := range []string{fmt.Sprintf("ssh://%s@%s/fn.git", s.user, host), fmt.Sprintf("git@%s:fn.git", host)} {
			repo.URL = url
			_, err := c.Resolve(t.Context(), repo, gitsource.Selection{Reference: "main"}, 0)
			g.Expect(err).To(MatchError(gitsource.ErrAddressRefused), repo.URL)
		}
	}
	g.Expect(s.met()).To(BeZero())
}

// BenchmarkSSHRefs is what a refs request costs this process, which is the client: sshd has its own.
func BenchmarkSSHRefs(b *testing.B) {
	r, _ := monorepo(b, 1)
	for _, way := range []struct {
		name string
		cut  bool
	}{{"on a connection that rests", false}, {"on a new connection", true}} {
		b.Run(way.name, func(b *testing.B) {
			g := NewWithT(b)
			s := newSSHD(b)
			c := newClient(b)
			resolve := func() {
				_, err := c.Resolve(b.Context(), s.repo(r), gitsource.Selection{Reference: "main", BaseDir: "f0"}, 0)
				g.Expect(err).NotTo(HaveOccurred())
			}
			resolve()
			before := cpu(b)
			for b.Loop() {
				if way.cut {
					s.cut()
				}
				resolve()
			}
			b.ReportMetric(float64((cpu(b)-before).Microseconds())/1000/float64(b.N), "cpu-ms/op")
			b.ReportMetric(float64(s.met())/float64(b.N), "connections/op")
		})
	}
}

// cpu is what this process has used so far.
func cpu(b *testing.B) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
