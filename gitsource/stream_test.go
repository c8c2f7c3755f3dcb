package gitsource_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"golang.org/x/crypto/ssh"

	"github.com/gitfn/gitfn/gitsource"
)

func TestSSHSaysWhatTheServerSays(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name, out, beside string
		status            uint32
		err               error
		says              string
	}{
		{name: "GitHub, no repository", beside: "ERROR: Repository not found.\nfatal: Could not read from remote repository.\n", status: 1, err: gitsource.ErrRepositoryNotFound, says: "ERROR: Repository not found."},
		{name: "GitLab, no repository", beside: "remote: \nremote: ========================================================================\nremote: \nremote: ERROR: The project you were looking for could not be found or you don't have permission to view it.\nremote: \nremote: ========================================================================\nremote: \n", status: 1, err: gitsource.ErrRepositoryNotFound, says: "user: ERROR: The project you were looking for could not be found"},
		{name: "Azure DevOps, no repository", beside: "remote: TF401019: The Git repository with name or identifier fn does not exist or you do not have permissions for the operation you are attempting.\n", status: 1, err: gitsource.ErrRepositoryNotFound},
		{name: "Gitea, no repository", beside: "Gitea: Cannot find repository: team/fn\n", status: 1, err: gitsource.ErrRepositoryNotFound},
		{name: "Gitea, key of somebody else", beside: "Gitea: Unauthorized\nUser 7 with key 1 is not authorized to read team/fn.\n", status: 1, err: gitsource.ErrAuth},
		{name: "Bitbucket, key of another repository", beside: "repository access denied. deployment key is not associated with the requested repository.\n", status: 1, err: gitsource.ErrAuth},
		{name: "gitolite", beside: "FATAL: R any team/fn robot DENIED by fallthru\n", status: 1, err: gitsource.ErrAuth},
		{name: "plain sshd without git", beside: "bash: line 1: git-upload-pack: command not found\n", status: 127, err: gitsource.ErrUnsupported},
		{name: "a server that is too busy", beside: "Too many concurrent connections, try again later\n", status: 1, err: gitsource.ErrUnavailable, says: "try again later"},
		{name: "an ERR packet", out: packets("ERR upload-pack: not found here"), err: gitsource.ErrRepositoryNotFound},
		{name: "a greeting that is none", out: "Hi ada! You've successfully authenticated, but this is no shell.\n", err: gitsource.ErrUnsupported, says: "answer is not Git's protocol"},
		{name: "nothing", err: gitsource.ErrUnavailable},
		{name: "half an advertisement", out: "000eversion 2\n0013agent=git", err: gitsource.ErrUnavailable},
		{name: "a repository of sha256", out: packets("version 2\n", "object-format=sha256\n", ""), err: gitsource.ErrUnsupported},
		{name: "a length that is a lie", out: "fff0" + strings.Repeat("x", 100), err: gitsource.ErrUnavailable},
		{name: "a length that no packet has", out: "ffff" + strings.Repeat("x", 70_000), err: gitsource.ErrUnsupported},
		{name: "words without end and colours", beside: strings.Repeat("\x1b[31mno \x07", 10_000), status: 1, err: gitsource.ErrUnavailable},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			s := newGoSSHD(t, says(row.out, row.beside, row.status))
			repo := s.repo()
			_, err := newClient(t).Resolve(t.Context(), repo, gitsource.Selection{Reference: "main"}, 0)
			g.Expect(err).To(MatchError(row.err))
			g.Expect(err).To(MatchError(And(HavePrefix("ask "+repo.URL+": "), ContainSubstring(row.says))))
			g.Expect(len(err.Error())).To(BeNumerically("<", 700))
			g.Expect(err.Error()).NotTo(Or(ContainSubstring("===="), ContainSubstring("\x1b"), ContainSubstring("\n"), ContainSubstring("remote: ")))
		})
	}
}

// TestSSHServersOfOneCommand end each connection with its first command: what is tried on a used one is tried again.
func TestSSHServersOfOneCommand(t *testing.T) {
	t.Parallel()
	r, commit := monorepo(t, 1)
	honest := gitUploadPack(r, func(b []byte) []byte { return b })
	ways := map[string]func(n int32, s *goSSHD, ch ssh.Channel) bool{
		"that hang up at the second":         func(_ int32, s *goSSHD, _ ssh.Channel) bool { s.cut(); return true },
		"that end the second without a word": func(_ int32, _ *goSSHD, ch ssh.Channel) bool { _ = ch.Close(); return true },
		"that take every second one only":    func(n int32, _ *goSSHD, ch ssh.Channel) bool { _ = ch.Close(); return n%2 == 0 },
	}
	for name, refuse := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			var s *goSSHD
			var commands atomic.Int32
			var connection atomic.Int32 // as it was met when a command came
			s = newGoSSHD(t, func(command string, env map[string]string, ch ssh.Channel) uint32 {
				n, met := commands.Add(1), int32(s.met())
				if connection.Swap(met) == met && refuse(n, s, ch) {
					return 0
				}
				return honest(command, env, ch)
			})
			c := newClient(t)
			for range 3 {
				got, err := c.Resolve(t.Context(), s.repo(), gitsource.Selection{Reference: "main", BaseDir: "f0"}, 0)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(got.Commit).To(Equal(commit))
			}
			g.Expect(s.met()).To(BeNumerically(">", 1))
		})
	}
}

func TestSSHWithoutShallow(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"v2", "v0"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			r, first := monorepo(t, 20)
			r.commit("main", r.files(map[string]string{"f7/handler.js": "function 7"}), "more history", first)
			s := newGoSSHD(t, func(command string, env map[string]string, ch ssh.Channel) uint32 {
				if version == "v0" {
					env = nil
				}
				return gitUploadPack(r, func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("shallow"), []byte("swallow")) })(command, env, ch)
			})
			readsAll(t, r, s.repo())
		})
	}
}

// stalls are servers that stop at some point.
func TestSSHStalls(t *testing.T) {
	t.Parallel()
	r, _ := monorepo(t, 1)
	left := make(chan struct{})
	t.Cleanup(func() { close(left) })
	wait := func() uint32 { <-left; return 0 }
	advertisement := packets("version 2\n", "agent=git/2\n", "ls-refs=unborn\n", "fetch=shallow filter\n", "object-format=sha1\n", "")
	rows := []struct {
		name string
		run  func(string, map[string]string, ssh.Channel) uint32
		raw  func(net.Conn) // instead of SSH
	}{
		{name: "before the first byte", raw: func(net.Conn) { wait() }},
		{name: "in the middle of its version", raw: func(c net.Conn) { _, _ = io.WriteString(c, "SSH-2.0-slo"); wait() }},
		{name: "before the key exchange", raw: func(c net.Conn) { _, _ = io.WriteString(c, "SSH-2.0-slow\r\n"); wait() }},
		{name: "before the advertisement", run: func(string, map[string]string, ssh.Channel) uint32 { return wait() }},
		{name: "in the advertisement", run: func(_ string, _ map[string]string, ch ssh.Channel) uint32 {
			_, _ = io.WriteString(ch, advertisement[:20])
			return wait()
		}},
		{name: "before the refs", run: func(_ string, _ map[string]string, ch ssh.Channel) uint32 {
			_, _ = io.WriteString(ch, advertisement)
			return wait()
		}},
		{name: "while it speaks beside the matter", run: func(_ string, _ map[string]string, ch ssh.Channel) uint32 {
			for {
				if _, err := io.WriteString(ch.Stderr(), strings.Repeat("la ", 4096)); err != nil {
					return 1
				}
			}
		}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			repo := func(t *testing.T) gitsource.Repository {
				if row.raw == nil {
					return newGoSSHD(t, row.run).repo()
				}
				listener, err := net.Listen("tcp", "127.0.0.1:0")
				NewWithT(t).Expect(err).NotTo(HaveOccurred())
				t.Cleanup(func() { _ = listener.Close() })
				go func() {
					for {
						conn, err := listener.Accept()
						if err != nil {
							return
						}
						go func() { defer conn.Close(); row.raw(conn) }()
					}
				}()
				key, _ := quickKey(t)
				return gitsource.Repository{URL: "ssh://" + listener.Addr().String() + "/fn.git", Credentials: gitsource.Credentials{SSHKey: key}}
			}(t)
			g := NewWithT(t)
			c := newClient(t, func(o *gitsource.Options) { o.Timeout = 300 * time.Millisecond })
			_, err := c.Resolve(t.Context(), repo, gitsource.Selection{Reference: "main"}, 0)
			g.Expect(err).To(MatchError(gitsource.ErrUnavailable))
			g.Expect(err).To(MatchError(ContainSubstring("no answer in time")))
		})
	}
	t.Run("and the caller leaves in the middle of a pack", func(t *testing.T) {
		t.Parallel()
		g := NewWithT(t)
		reached := make(chan struct{}, 8)
		s := newGoSSHD(t, func(command string, env map[string]string, ch ssh.Channel) uint32 {
			if len(env) == 0 {
				return 1
			}
			return gitUploadPack(r, func(b []byte) []byte {
				if i := bytes.Index(b, []byte("PACK")); i >= 0 {
					reached <- struct{}{}
					wait()
				}
				return b
			})(command, env, ch)
		})
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-reached
			cancel()
		}()
		_, err := newClient(t).Resolve(ctx, s.repo(), gitsource.Selection{Reference: "main"}, 0)
		g.Expect(err).To(MatchError(context.Canceled))
	})
}

// TestSSHSendsTooMuch are servers that go on and on.
func TestSSHSendsTooMuch(t *testing.T) {
	t.Parallel()
	const id = "0123456789abcdef0123456789abcdef01234567"
	endless := func(first, row string) func(string, map[string]string, ssh.Channel) uint32 {
		return func(_ string, _ map[string]string, ch ssh.Channel) uint32 {
			_, _ = io.WriteString(ch, first)
			many := strings.Repeat(row, 1000)
			for {
				if _, err := io.WriteString(ch, many); err != nil {
					return 1
				}
			}
		}
	}
	v2 := packets("version 2\n", "ls-refs=unborn\n", "fetch=shallow filter\n", "object-format=sha1\n", "")
	rows := []struct {
		name string
		run  func(string, map[string]string, ssh.Channel) uint32
		err  error
	}{
		{name: "refs of v0", run: endless(packets(id+" HEAD\x00side-band-64k shallow\n"), packets(id+" refs/heads/a\n")), err: gitsource.ErrTooLarge},
		{name: "refs of v2", run: endless(v2, packets(id+" refs/heads/a\n")), err: gitsource.ErrTooLarge},
		{name: "capabilities", run: endless(packets("version 2\n"), packets("a=b\n")), err: gitsource.ErrUnsupported},
		{name: "a pack", run: packAfterRefs(v2+packets(id+" refs/heads/main\n", ""), endless(v2+packets("packfile\n"), packets("\x01PACK"+strings.Repeat("x", 60_000)))), err: gitsource.ErrTooLarge},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			s := newGoSSHD(t, row.run)
			c := newClient(t, func(o *gitsource.Options) { o.Limits.Refs, o.Limits.PackBytes = 10_000, 1<<20 })
			_, err := c.Resolve(t.Context(), s.repo(), gitsource.Selection{Reference: "main"}, 0)
			g.Expect(err).To(MatchError(row.err))
		})
	}
}

// packAfterRefs answers the first command with refs, and the others with a pack.
func packAfterRefs(refs string, pack func(string, map[string]string, ssh.Channel) uint32) func(string, map[string]string, ssh.Channel) uint32 {
	var commands atomic.Int32
	return func(command string, env map[string]string, ch ssh.Channel) uint32 {
		if commands.Add(1) == 1 {
			_, _ = io.WriteString(ch, refs)
			_, _ = io.Copy(io.Discard, ch)
			return 0
		}
		return pack(command, env, ch)
	}
}

func TestSSHHostKeyChangesUnderAnOldConnection(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r, _ := monorepo(t, 1)
	s := newGoSSHD(t, gitUploadPack(r, func(b []byte) []byte { return b }))
	repo := s.repo()
	c := newClient(t)
	_, err := c.Resolve(t.Context(), repo, gitsource.Selection{Reference: "main"}, 0)
	g.Expect(err).NotTo(HaveOccurred())

	_, other := quickKey(t)
	changed := *s.config
	changed.AddHostKey(other)
	s.mu.Lock()
	s.config = &changed
	s.mu.Unlock()
	s.cut()
	_, err = c.Resolve(t.Context(), repo, gitsource.Selection{Reference: "main"}, 0)
	g.Expect(err).To(MatchError(gitsource.ErrHostKey))
	g.Expect(err).To(MatchError(ContainSubstring("WARNING: ")))
}
