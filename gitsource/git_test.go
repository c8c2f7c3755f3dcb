package gitsource_test

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/gitfn/gitfn/gitsource"
)

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

// repository is a bare Git repository on disk that git itself writes.
type repository struct {
	t     testing.TB
	dir   string
	blobs map[string]string // content to id: a process of git for each takes its time
}

func newRepository(t testing.TB) *repository {
	t.Helper()
	r := &repository{t: t, dir: filepath.Join(t.TempDir(), "fn.git"), blobs: map[string]string{}}
	r.run("", "init", "--quiet", "--bare", "--initial-branch=main", r.dir)
	r.config("uploadpack.allowFilter", "true")
	r.config("http.uploadpack", "true")
	return r
}

// run runs git and returns what it prints.
func (r *repository) run(input string, args ...string) string {
	r.t.Helper()
	if args[0] != "init" {
		args = append([]string{"--git-dir", r.dir}, args...)
	}
	cmd := exec.Command("git", args...)
	cmd.Env = append(os.Environ(),
		"HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=Ada Lovelace", "GIT_AUTHOR_EMAIL=ada@example.org", "GIT_AUTHOR_DATE=1700000000 +0000",
		"GIT_COMMITTER_NAME=Ada Lovelace", "GIT_COMMITTER_EMAIL=ada@example.org", "GIT_COMMITTER_DATE=1700000000 +0000")
	cmd.Stdin = strings.NewReader(input)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		r.t.Fatalf("git %v: %v\n%s", args, err, &stderr)
	}
	return strings.TrimSpace(stdout.String())
}

func (r *repository) config(key, value string) { r.run("", "config", key, value) }

func (r *repository) blob(content string) string {
	return r.run(content, "hash-object", "-w", "--stdin")
}

// tree writes a tree of "mode id name" rows. It checks nothing: that is how hostile trees come to be.
func (r *repository) tree(rows ...string) string {
	var raw bytes.Buffer
	for _, row := range rows {
		parts := strings.SplitN(row, " ", 3)
		fmt.Fprintf(&raw, "%s %s\x00", strings.TrimLeft(parts[0], "0"), parts[2])
		for i := 0; i < 40; i += 2 {
			var b byte
			_, _ = fmt.Sscanf(parts[1][i:i+2], "%02x", &b)
			raw.WriteByte(b)
		}
	}
	return r.run(raw.String(), "hash-object", "-w", "--literally", "-t", "tree", "--stdin")
}

// files writes a tree with git's own index, from path to content.
func (r *repository) files(files map[string]string) string {
	r.t.Helper()
	index := "GIT_INDEX_FILE=" + filepath.Join(r.t.TempDir(), "index")
	var rows strings.Builder
	for path, content := range files {
		fmt.Fprintf(&rows, "100644 %s\t%s\n", r.blob(content), path)
	}
	for _, args := range [][]string{{"update-index", "--add", "--index-info"}, {"write-tree"}} {
		cmd := exec.Command("git", append([]string{"--git-dir", r.dir}, args...)...)
		cmd.Env = append(os.Environ(), index)
		cmd.Stdin = strings.NewReader(rows.String())
		out, err := cmd.CombinedOutput()
		if err != nil {
			r.t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		if args[0] == "write-tree" {
			return strings.TrimSpace(string(out))
		}
	}
	return ""
}

// commit makes a commit of a tree and points a branch to it.
func (r *repository) commit(branch, tree, message string, parents ...string) string {
	args := []string{"commit-tree", tree, "-m", message}
	for _, parent := range parents {
		args = append(args, "-p", parent)
	}
	id := r.run("", args...)
	r.run("", "update-ref", "refs/heads/"+branch, id)
	return id
}

// gitServer is git http-backend, with what a test wants to see or to do before it.
type gitServer struct {
	*httptest.Server
	backend http.Handler

	mu       sync.Mutex
	requests []seen
	sent     int64
	before   func(w http.ResponseWriter, r *http.Request) (done bool)
}

// seen is one request as the server saw it.
type seen struct {
	method, path, authorization string
	body                        string
}

// newGitServer serves the folder of a repository. With before it may answer itself, by returning true.
func newGitServer(t testing.TB, r *repository, before func(w http.ResponseWriter, r *http.Request) bool) *gitServer {
	t.Helper()
	git, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	s := &gitServer{before: before, backend: &cgi.Handler{
		Path: git, Args: []string{"http-backend"}, Stderr: io.Discard, Logger: log.New(io.Discard, "", 0),
		Env: []string{"GIT_PROJECT_ROOT=" + filepath.Dir(r.dir), "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1", "HOME=/nonexistent"},
	}}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	t.Cleanup(s.Close)
	return s
}

func (s *gitServer) serve(w http.ResponseWriter, r *http.Request) {
	var body bytes.Buffer
	_, _ = body.ReadFrom(r.Body)
	s.mu.Lock()
	s.requests = append(s.requests, seen{r.Method, r.URL.Path, r.Header.Get("Authorization"), body.String()})
	s.mu.Unlock()
	r.Body = http.NoBody
	if r.Method == http.MethodPost {
		r.Body = readCloser{&body}
	}
	if s.before != nil && s.before(w, r) {
		return
	}
	s.backend.ServeHTTP(&counter{w, s}, r)
}

type readCloser struct{ *bytes.Buffer }

func (readCloser) Close() error { return nil }

type counter struct {
	http.ResponseWriter
	s *gitServer
}

func (c *counter) Write(p []byte) (int, error) {
	c.s.mu.Lock()
	c.s.sent += int64(len(p))
	c.s.mu.Unlock()
	return c.ResponseWriter.Write(p)
}

// restart forgets how much was sent.
func (s *gitServer) restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = 0
}

// bytes is how much was sent since restart.
func (s *gitServer) bytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent
}

// all is every request so far.
func (s *gitServer) all() []seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// count is how many requests had words in their body, or in their path when there is no body.
func (s *gitServer) count(words string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.requests {
		if strings.Contains(r.body, words) || r.body == "" && strings.Contains(r.path, words) {
			n++
		}
	}
	return n
}

func (s *gitServer) repo() gitsource.Repository {
	return gitsource.Repository{URL: s.URL + "/fn.git"}
}

// ways is every kind of server that Resolve and Fetch must read.
var ways = []struct {
	name   string
	config map[string]string
	before func(w http.ResponseWriter, r *http.Request) bool
}{
	{name: "protocol v2 with filters"},
	{name: "protocol v2 without filters", config: map[string]string{"uploadpack.allowFilter": "false"}},
	{name: "protocol v0", before: withoutV2},
	{name: "protocol v0 that gives any object, with filters", config: map[string]string{"uploadpack.allowAnySHA1InWant": "true"}, before: withoutV2},
}

// withoutV2 makes a server of today one of yesterday.
func withoutV2(_ http.ResponseWriter, r *http.Request) bool {
	r.Header.Del("Git-Protocol")
	return false
}

// newClient reads from this machine, with modifiers for what a test is about.
func newClient(t testing.TB, modify ...func(*gitsource.Options)) *gitsource.Client {
	t.Helper()
	o := gitsource.Options{CacheDir: t.TempDir(), Allow: loopback, Timeout: time.Minute}
	for _, m := range modify {
		m(&o)
	}
	c, err := gitsource.New(o)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return c
}
