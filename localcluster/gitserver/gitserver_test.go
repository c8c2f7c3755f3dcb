package gitserver

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
)

func TestParse(t *testing.T) {
	for name, row := range map[string]struct {
		path string
		want request
	}{
		"a path with the ending is the repository":         {"/team/fn.git/info/refs", request{"team/fn.git", "info/refs"}},
		"a path without the ending is the same repository": {"/team/fn/info/refs", request{"team/fn.git", "info/refs"}},
		"a service of one component is taken":              {"/fn/git-upload-pack", request{"fn.git", "git-upload-pack"}},
		"deep paths are taken":                             {"/a/b/c/d/git-receive-pack", request{"a/b/c/d.git", "git-receive-pack"}},
		"a path without a service is refused":              {"/team/fn", request{}},
		"a way up is refused":                              {"/x/../private/fn/info/refs", request{}},
		"an empty component is refused":                    {"//private/fn/info/refs", request{}},
		"a hidden component is refused":                    {"/.ssh/info/refs", request{}},
		"a component like an option is refused":            {"/-u/info/refs", request{}},
		"a repository in a repository is refused":          {"/fn.git/hooks/info/refs", request{}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			got, ok := parse(row.path)
			g.Expect(got).To(Equal(row.want))
			g.Expect(ok).To(Equal(row.want != request{}))
		})
	}
}

// serve starts a server and returns its URL and a work tree with one commit of some megabytes, which a
// client pushes in chunks.
func serve(t *testing.T) (url, tree string) {
	t.Helper()
	g := NewWithT(t)
	git, err := exec.LookPath("git")
	g.Expect(err).NotTo(HaveOccurred())
	server := httptest.NewServer(&Handler{Repositories: t.TempDir(), Git: git, User: "git", Password: "open sesame"})
	t.Cleanup(server.Close)
	tree = t.TempDir()
	data := make([]byte, 3<<20)
	_, _ = rand.Read(data)
	g.Expect(os.WriteFile(filepath.Join(tree, "data"), data, 0o644)).To(Succeed())
	for _, args := range [][]string{
		{"init", "--quiet", "--initial-branch=main"}, {"add", "data"},
		{"-c", "user.name=n", "-c", "user.email=n@example.com", "commit", "--quiet", "--message=first"},
	} {
		out, err := runGit(tree, args...)
		g.Expect(err).NotTo(HaveOccurred(), out)
	}
	return server.URL, tree
}

func runGit(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_TERMINAL_PROMPT=0", "GIT_CONFIG_GLOBAL=/dev/null")
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func TestPushMakesARepositoryThatServesPartialFetchesByCommit(t *testing.T) {
	g := NewWithT(t)
	url, tree := serve(t)
	out, err := runGit(tree, "push", "--quiet", url+"/team/fn.git", "main")
	g.Expect(err).NotTo(HaveOccurred(), out)
	out, err = runGit(tree, "ls-remote", "--symref", url+"/team/fn", "HEAD")
	g.Expect(err).NotTo(HaveOccurred(), out)
	g.Expect(out).To(ContainSubstring("ref: refs/heads/main"))

	commit, err := runGit(tree, "rev-parse", "HEAD")
	g.Expect(err).NotTo(HaveOccurred())
	clone := t.TempDir()
	for _, args := range [][]string{
		{"init", "--quiet"},
		{"fetch", "--quiet", "--depth=1", "--filter=blob:none", url + "/team/fn", commit},
	} {
		out, err := runGit(clone, args...)
		g.Expect(err).NotTo(HaveOccurred(), out)
	}
	out, err = runGit(clone, "ls-tree", "FETCH_HEAD")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(out).To(ContainSubstring("data"))
}

func TestPushesAtOnceAllArrive(t *testing.T) {
	g := NewWithT(t)
	url, tree := serve(t)
	const pushes = 6
	var wg sync.WaitGroup
	errs := make([]error, pushes)
	for i := range pushes {
		wg.Go(func() {
			_, errs[i] = runGit(tree, "push", "--quiet", url+"/new", fmt.Sprintf("main:b%d", i))
		})
	}
	wg.Wait()
	g.Expect(errs).To(HaveEach(BeNil()))
	out, err := runGit(tree, "ls-remote", "--heads", url+"/new")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(strings.Split(out, "\n")).To(HaveLen(pushes))
}

func TestPrivatePathsWantThePassword(t *testing.T) {
	for name, row := range map[string]struct {
		path, user, password string
		want                 int
	}{
		"private without a user: refused":             {"/private/fn/info/refs", "", "", http.StatusUnauthorized},
		"private with a wrong password: refused":      {"/private/fn/info/refs", "git", "x", http.StatusUnauthorized},
		"private with another user: refused":          {"/private/fn.git/info/refs", "root", "open sesame", http.StatusUnauthorized},
		"private with user and password: answered":    {"/private/fn/info/refs", "git", "open sesame", http.StatusOK},
		"other paths with no user: answered":          {"/public/fn/info/refs", "", "", http.StatusOK},
		"a name that only begins alike: not private":  {"/privateer/info/refs", "", "", http.StatusOK},
		"other services of a private path: refused":   {"/private/fn/HEAD", "", "", http.StatusUnauthorized},
		"nothing that is a repository's URL: unknown": {"/private", "", "", http.StatusNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			url, _ := serve(t)
			req, err := http.NewRequest(http.MethodGet, url+row.path+"?service=git-receive-pack", nil)
			g.Expect(err).NotTo(HaveOccurred())
			if row.user != "" {
				req.SetBasicAuth(row.user, row.password)
			}
			res, err := http.DefaultClient.Do(req)
			g.Expect(err).NotTo(HaveOccurred())
			res.Body.Close()
			g.Expect(res.StatusCode).To(Equal(row.want))
		})
	}
}
