package gitsource_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/gitfn/gitfn/gitsource"
)

// gitDaemon is git daemon on a loopback port, one process for each connection, as inetd starts it.
type gitDaemon struct {
	listener net.Listener
	args     []string
	old      bool // it is not told of protocol v2

	mu       sync.Mutex
	requests []string
}

func newGitDaemon(t testing.TB, r *repository, old bool, args ...string) *gitDaemon {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &gitDaemon{listener: listener, old: old}
	d.args = append([]string{"daemon", "--inetd", "--base-path=" + filepath.Dir(r.dir)}, args...)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { d.serve(conn.(*net.TCPConn)) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		running.Wait()
	})
	return d
}

func (d *gitDaemon) serve(conn *net.TCPConn) {
	defer conn.Close()
	var length int
	head := make([]byte, 4)
	if _, err := io.ReadFull(conn, head); err != nil {
		return
	}
	_, _ = fmt.Sscanf(string(head), "%04x", &length)
	request := make([]byte, max(0, length-4))
	if _, err := io.ReadFull(conn, request); err != nil {
		return
	}
	d.mu.Lock()
	d.requests = append(d.requests, string(request))
	d.mu.Unlock()
	if d.old {
		request, _, _ = bytes.Cut(request, []byte("\x00\x00"))
		request = append(request, 0)
	}
	cmd := exec.Command("git", d.args...)
	cmd.Env = append(os.Environ(), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1")
	cmd.Stdout = conn
	in, err := cmd.StdinPipe()
	if err != nil || cmd.Start() != nil {
		return
	}
	_, _ = fmt.Fprintf(in, "%04x%s", len(request)+4, request)
	go func() {
		_, _ = io.Copy(in, conn)
		_ = in.Close()
	}()
	_ = cmd.Wait()
}

func (d *gitDaemon) repo() gitsource.Repository {
	return gitsource.Repository{URL: "git://" + d.listener.Addr().String() + "/fn.git"}
}

func (d *gitDaemon) all() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string(nil), d.requests...)
}

func TestDaemonReadsEveryKindOfServer(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name   string
		old    bool
		config map[string]string
	}{
		{name: "protocol v2 with filters"},
		{name: "protocol v2 without filters", config: map[string]string{"uploadpack.allowFilter": "false"}},
		{name: "protocol v0", old: true},
		{name: "protocol v0 that gives any object, with filters", old: true, config: map[string]string{"uploadpack.allowAnySHA1InWant": "true"}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			r, _ := monorepo(t, 20)
			for key, value := range row.config {
				r.config(key, value)
			}
			d := newGitDaemon(t, r, row.old, "--export-all")
			readsAll(t, r, d.repo())
			for _, request := range d.all() {
				NewWithT(t).Expect(request).To(Equal("git-upload-pack /fn.git\x00host=" + d.listener.Addr().String() + "\x00\x00version=2\x00"))
			}
		})
	}
}

func TestDaemonSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	r, _ := monorepo(t, 1)
	rows := []struct {
		name, path string
		args       []string
	}{
		{name: "no such repository", path: "/absent.git", args: []string{"--export-all"}},
		{name: "no such repository, and it says so", path: "/absent.git", args: []string{"--export-all", "--informative-errors"}},
		{name: "not exported", path: "/fn.git"},
		{name: "not exported, and it says so", path: "/fn.git", args: []string{"--informative-errors"}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			d := newGitDaemon(t, r, false, row.args...)
			repo := d.repo()
			repo.URL = strings.TrimSuffix(repo.URL, "/fn.git") + row.path
			_, err := newClient(t).Resolve(t.Context(), repo, gitsource.Selection{Reference: "main"}, 0)
			g.Expect(err).To(MatchError(gitsource.ErrRepositoryNotFound))
			g.Expect(err).To(MatchError(HavePrefix("ask " + repo.URL + ": no such repository")))
		})
	}
}

func TestDaemonAddressesAreRefused(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r, _ := monorepo(t, 1)
	d := newGitDaemon(t, r, false, "--export-all")
	c := newClient(t, func(o *gitsource.Options) { o.Allow = nil })
	for _, url := range []string{d.repo().URL, "git://169.254.169.254/fn.git", "git://[::1]/fn.git"} {
		_, err := c.Resolve(t.Context(), gitsource.Repository{URL: url}, gitsource.Selection{Reference: "main"}, 0)
		g.Expect(err).To(MatchError(gitsource.ErrAddressRefused), url)
	}
	g.Expect(d.all()).To(BeEmpty())
}
