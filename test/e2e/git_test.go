package e2e

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// repository is a clone on this machine of a repository on the Git server.
type repository struct {
	t   *testing.T
	dir string
	// url is what a Function names: without credentials. path is what of it is the repository's own.
	url, path string
}

// ssh is its URL over SSH.
func (r *repository) ssh() string { return facts.GitSSH + r.path }

// newRepository makes a repository and pushes a first commit. Private ones want
// a password.
func (s *space) newRepository(name string, private bool, files map[string]string) (*repository, string) {
	s.t.Helper()
	path := "/" + s.name + "/" + name
	if private {
		path = "/private" + path
	}
	r := &repository{t: s.t, dir: s.t.TempDir(), url: facts.GitHTTP + path, path: path}
	remote, err := url.Parse(r.url)
	s.g.Expect(err).NotTo(HaveOccurred())
	if private {
		remote.User = url.UserPassword(facts.GitUser, facts.GitPassword)
	}
	r.git("init", "--quiet", "--initial-branch=main")
	r.git("remote", "add", "origin", remote.String())
	return r, r.push("first", files)
}

// git runs git in the clone, apart from whatever this machine has configured.
func (r *repository) git(args ...string) string {
	r.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = r.dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.com", "GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.com")
	out, err := cmd.CombinedOutput()
	NewWithT(r.t).Expect(err).NotTo(HaveOccurred(), "git %s: %s", args[0], out)
	return strings.TrimSpace(string(out))
}

// push writes files, commits them and pushes. It returns the commit.
func (r *repository) push(subject string, files map[string]string) string {
	r.t.Helper()
	r.commit(subject, files)
	return r.send()
}

// commit writes files and commits them. It takes further arguments of git commit.
func (r *repository) commit(subject string, files map[string]string, args ...string) {
	r.t.Helper()
	g := NewWithT(r.t)
	for name, content := range files {
		file := filepath.Join(r.dir, name)
		g.Expect(os.MkdirAll(filepath.Dir(file), 0o755)).To(Succeed())
		g.Expect(os.WriteFile(file, []byte(content), 0o644)).To(Succeed())
	}
	r.git("add", "--all")
	r.git(append([]string{"commit", "--quiet", "--message", subject}, args...)...)
}

// revert takes the last commit back, and pushes that.
func (r *repository) revert() string {
	r.t.Helper()
	r.git("revert", "--no-edit", "HEAD")
	return r.send()
}

func (r *repository) send() string {
	r.t.Helper()
	r.git("push", "--quiet", "origin", "HEAD")
	return r.git("rev-parse", "HEAD")
}

// sample reads the files of a folder of testdata/functions, under a directory.
func sample(t *testing.T, name, under string) map[string]string {
	t.Helper()
	files := map[string]string{}
	root := filepath.Join(moduleRoot(), "testdata", "functions", name)
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, path)
		files[filepath.ToSlash(filepath.Join(under, relative))] = string(content)
		return err
	})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return files
}
