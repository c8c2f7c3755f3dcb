package gitserver

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
)

// The test's own program takes the place of the one that sshd starts for a session.
func TestMain(m *testing.M) {
	if repositories := os.Getenv("GITFN_TEST_SESSION"); repositories != "" {
		err := RunSSH(repositories, os.Args[len(os.Args)-1])
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// session makes git use this program as its ssh.
func session(t *testing.T) {
	t.Helper()
	self, err := os.Executable()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Setenv("GITFN_TEST_SESSION", t.TempDir())
	t.Setenv("GIT_SSH", self)
	t.Setenv("GIT_SSH_VARIANT", "ssh")
}

func TestParseCommand(t *testing.T) {
	for name, row := range map[string]struct {
		command string
		want    request
	}{
		"a path of a URL":                           {"git-upload-pack '/team/fn.git'", request{"team/fn.git", "git-upload-pack"}},
		"a path behind a colon":                     {"git-upload-pack 'team/fn'", request{"team/fn.git", "git-upload-pack"}},
		"git and its command apart":                 {"git receive-pack '/fn'", request{"fn.git", "git-receive-pack"}},
		"a path without quotes":                     {"git-upload-pack /fn.git", request{"fn.git", "git-upload-pack"}},
		"a path that ends in a slash":               {"git-upload-pack '/team/fn/'", request{"team/fn.git", "git-upload-pack"}},
		"below /private/: the key is enough":        {"git-upload-pack '/private/fn'", request{"private/fn.git", "git-upload-pack"}},
		"no command is refused":                     {"", request{}},
		"another command is refused":                {"id", request{}},
		"another service of git is refused":         {"git-upload-archive '/fn'", request{}},
		"an option is refused":                      {"git-upload-pack --timeout=1 '/fn'", request{}},
		"a path like an option is refused":          {"git-upload-pack '-u'", request{}},
		"a way up is refused":                       {"git-upload-pack '/x/../../etc'", request{}},
		"a home directory is refused":               {"git-upload-pack '/~root/fn'", request{}},
		"a command behind the path is refused":      {"git-upload-pack '/fn'; id", request{}},
		"a command within the path is refused":      {"git-upload-pack '/fn$(id)'", request{}},
		"a second line is refused":                  {"git-upload-pack '/fn'\nid", request{}},
		"a repository within a repository: refused": {"git-receive-pack '/fn.git/hooks'", request{}},
		"a quote within the path is refused":        {`git-upload-pack '/a'\''b'`, request{}},
		"a service of HTTP is a path here":          {"git-upload-pack '/fn/info/refs'", request{"fn/info/refs.git", "git-upload-pack"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			got, ok := parseCommand(row.command)
			g.Expect(got).To(Equal(row.want))
			g.Expect(ok).To(Equal(row.want != request{}))
		})
	}
}

func TestSessionsPushAndFetch(t *testing.T) {
	g := NewWithT(t)
	_, tree := serve(t)
	session(t)
	const url = "ssh://git@git.example/team/fn.git"
	out, err := runGit(tree, "ls-remote", url)
	g.Expect(err).To(HaveOccurred())
	g.Expect(out).To(ContainSubstring("'team/fn.git' does not appear to be a git repository"))
	out, err = runGit(tree, "push", "--quiet", url, "main")
	g.Expect(err).NotTo(HaveOccurred(), out)

	commit, err := runGit(tree, "rev-parse", "HEAD")
	g.Expect(err).NotTo(HaveOccurred())
	clone := t.TempDir()
	for _, args := range [][]string{
		{"init", "--quiet"},
		{"fetch", "--quiet", "--depth=1", "--filter=blob:none", "git@git.example:team/fn", commit},
	} {
		out, err := runGit(clone, args...)
		g.Expect(err).NotTo(HaveOccurred(), out)
	}
	out, err = runGit(clone, "cat-file", "--batch-check", "--batch-all-objects")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(out).NotTo(ContainSubstring(" blob "), "the filter was heeded")
}

func TestSessionsSpeakTheProtocolThatTheyAreTold(t *testing.T) {
	for name, row := range map[string]struct{ protocol, begins string }{
		"GIT_PROTOCOL asks for version 2": {"version=2", "000eversion 2\n"},
		"no GIT_PROTOCOL is version 0":    {"", "0000"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			session(t)
			repositories := os.Getenv("GITFN_TEST_SESSION")
			_, err := runGit(repositories, "init", "--quiet", "--bare", filepath.Join(repositories, "fn.git"))
			g.Expect(err).NotTo(HaveOccurred())
			cmd := exec.Command(os.Getenv("GIT_SSH"), "git-upload-pack '/fn'")
			cmd.Env = append(os.Environ(), "GIT_PROTOCOL="+row.protocol)
			cmd.Stdin = strings.NewReader("0000")
			out, err := cmd.Output()
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(string(out)).To(HavePrefix(row.begins))
		})
	}
}

func TestFirstPushesOfSessionsAtOnceAllArrive(t *testing.T) {
	g := NewWithT(t)
	_, tree := serve(t)
	session(t)
	errs := make([]error, 4)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			_, errs[i] = runGit(tree, "push", "--quiet", "ssh://git@git.example/new", fmt.Sprintf("main:b%d", i))
		})
	}
	wg.Wait()
	g.Expect(errs).To(HaveEach(BeNil()))
}
