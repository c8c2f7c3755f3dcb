package apitest

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// gitServer is git http-backend before one bare repository, fn.git.
type gitServer struct {
	t   testing.TB
	dir string
	url string

	mu       sync.Mutex
	password string // of user "ci"; empty lets everybody in
	broken   bool   // answers 503
	lsRefs   int
	commits  int
}

func newGitServer(t testing.TB) *gitServer {
	t.Helper()
	s := &gitServer{t: t, dir: filepath.Join(t.TempDir(), "fn.git")}
	s.git("", "init", "--quiet", "--bare", "--initial-branch=main", s.dir)
	s.git("", "--git-dir", s.dir, "config", "uploadpack.allowFilter", "true")
	path, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	backend := &cgi.Handler{
		Path: path, Args: []string{"http-backend"}, Stderr: io.Discard, Logger: log.New(io.Discard, "", 0),
		Env: []string{"GIT_PROJECT_ROOT=" + filepath.Dir(s.dir), "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1", "HOME=/nonexistent"},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if s.admits(w, r, body) {
			backend.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	s.url = server.URL + "/fn.git"
	return s
}

func (s *gitServer) admits(w http.ResponseWriter, r *http.Request, body []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken || bytes.Contains(body, []byte("command=ls-refs")) {
		s.lsRefs++
	}
	if s.broken {
		http.Error(w, "down for a while", http.StatusServiceUnavailable)
		return false
	}
	if user, password, _ := r.BasicAuth(); s.password != "" && (user != "ci" || password != s.password) {
		w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
		http.Error(w, "no", http.StatusUnauthorized)
		return false
	}
	return true
}

// set changes how the server answers.
func (s *gitServer) set(change func(s *gitServer)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

// refsRequests is how often the server was asked for refs.
func (s *gitServer) refsRequests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lsRefs
}

// files is the content of a commit, from path to text.
type files map[string]string

// push makes a commit of exactly these files on a branch and returns its id.
func (s *gitServer) push(branch string, content files) string {
	s.t.Helper()
	s.commits++
	ref := "refs/heads/" + branch
	var stream strings.Builder
	fmt.Fprintf(&stream, "commit %s\ncommitter Ada Lovelace <ada@example.org> %d +0000\n", ref, 1700000000+s.commits)
	subject := fmt.Sprintf("change %d", s.commits)
	fmt.Fprintf(&stream, "data %d\n%s\n", len(subject), subject)
	if parent, err := exec.Command("git", "--git-dir", s.dir, "rev-parse", "--verify", "--quiet", ref).Output(); err == nil {
		fmt.Fprintf(&stream, "from %s\n", strings.TrimSpace(string(parent)))
	}
	stream.WriteString("deleteall\n")
	for _, path := range slices.Sorted(maps.Keys(content)) {
		fmt.Fprintf(&stream, "M 100644 inline %s\ndata %d\n%s\n", path, len(content[path]), content[path])
	}
	s.git(stream.String(), "--git-dir", s.dir, "fast-import", "--quiet")
	return s.git("", "--git-dir", s.dir, "rev-parse", ref)
}

// tree is the id of a directory on a branch.
func (s *gitServer) tree(branch, dir string) string {
	s.t.Helper()
	return s.git("", "--git-dir", s.dir, "rev-parse", branch+":"+dir)
}

func (s *gitServer) git(input string, args ...string) string {
	s.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Env = append(os.Environ(), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1")
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}
