package gitsource

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// TestRelativeURLsAreThoseOfGit asks git what it makes of the same.
func TestRelativeURLsAreThoseOfGit(t *testing.T) {
	t.Parallel()
	rows := []struct {
		base, raw, want string // no want: refused, whatever git does
	}{
		{base: "https://git.example/team/fn.git", raw: "../lib.git", want: "https://git.example/team/lib.git"},
		{base: "https://git.example/team/fn.git/", raw: "../lib.git/", want: "https://git.example/team/lib.git"},
		{base: "https://git.example:8443/team/fn", raw: "../../other/lib", want: "https://git.example:8443/other/lib"},
		{base: "https://git.example/team/fn.git", raw: "./lib.git", want: "https://git.example/team/fn.git/lib.git"},
		{base: "https://git.example/team/fn.git", raw: "./../lib.git", want: "https://git.example/team/lib.git"},
		{base: "https://git.example/fn.git", raw: "../lib.git", want: "https://git.example/lib.git"},
		{base: "https://git.example/fn.git", raw: "../../lib.git"},
		{base: "https://git.example/fn.git", raw: "../../../../lib.git"},
		{base: "ssh://git@git.example:2222/team/fn.git", raw: "../lib.git", want: "ssh://git@git.example:2222/team/lib.git"},
		{base: "git@git.example:team/fn.git", raw: "../lib.git", want: "git@git.example:team/lib.git"},
		{base: "git@git.example:team/fn.git", raw: "../../lib.git", want: "git@git.example:lib.git"},
		{base: "git@git.example:fn.git", raw: "../lib.git", want: "git@git.example:lib.git"},
		{base: "git@git.example:fn.git", raw: "../../lib.git"},
	}
	for _, row := range rows {
		t.Run(row.base+" "+row.raw, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			got, err := relativeURL(row.base, row.raw)
			if row.want == "" {
				g.Expect(err).To(MatchError(ErrInvalidURL))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got).To(Equal(row.want))
			dir := t.TempDir()
			git := func(args ...string) string {
				cmd := exec.Command("git", append([]string{"-C", dir}, args...)...)
				cmd.Env = append(os.Environ(), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1")
				out, err := cmd.Output()
				g.Expect(err).NotTo(HaveOccurred(), "git %v", args)
				return strings.TrimSpace(string(out))
			}
			git("init", "--quiet")
			git("remote", "add", "origin", row.base)
			g.Expect(os.WriteFile(filepath.Join(dir, ".gitmodules"), []byte("[submodule \"lib\"]\n\tpath = lib\n\turl = "+row.raw+"\n"), 0o600)).To(Succeed())
			git("update-index", "--add", "--cacheinfo", "160000,"+someID+",lib")
			git("submodule", "--quiet", "init")
			g.Expect(got).To(Equal(git("config", "submodule.lib.url")))
		})
	}
}

func TestCredentialsAreForOneServer(t *testing.T) {
	t.Parallel()
	all := Credentials{
		Username: "robot", Password: "p", ClientCertificate: []byte("c"), ClientKey: []byte("k"), SSHKey: []byte("s"), SSHPassphrase: "x",
		KnownHosts: []byte("h"), GitHubApp: &GitHubApp{ID: "1"}, Proxy: "http://proxy:3128", NoProxy: "example", CABundle: []byte("b"),
	}
	bare := Credentials{KnownHosts: all.KnownHosts, Proxy: all.Proxy, NoProxy: all.NoProxy, CABundle: all.CABundle}
	for _, row := range []struct {
		base, raw string
		same      bool
	}{
		{base: "https://git.example/fn.git", raw: "https://git.example/other/lib.git", same: true},
		{base: "https://git.example/fn.git", raw: "https://GIT.example:443/lib.git", same: true},
		{base: "https://git.example/fn.git", raw: "https://git.example:8443/lib.git"},
		{base: "https://git.example/fn.git", raw: "http://git.example/lib.git"},
		{base: "https://git.example/fn.git", raw: "https://sub.git.example/lib.git"},
		{base: "https://git.example/fn.git", raw: "https://git.example.evil/lib.git"},
		{base: "https://git.example/fn.git", raw: "../lib.git", same: true},
	} {
		t.Run(row.base+" "+row.raw, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			found, elsewhere, err := Repository{URL: row.base, Credentials: all}.submodule(row.raw)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(elsewhere).To(Equal(!row.same))
			want := bare
			if row.same {
				want = all
			}
			g.Expect(found.Credentials.parts()).To(Equal(want.parts()))
		})
	}
	// The same by the names of servers alone, for URLs of ssh.
	for _, row := range []struct {
		a, b string
		same bool
	}{
		{a: "git@git.example:fn.git", b: "git@git.example:lib.git", same: true},
		{a: "git@git.example:fn.git", b: "ssh://git@git.example/lib.git", same: true},
		{a: "git@git.example:fn.git", b: "ssh://git@git.example:22/lib.git", same: true},
		{a: "git@git.example:fn.git", b: "ssh://git@git.example:2222/lib.git"},
		{a: "git@git.example:fn.git", b: "root@git.example:lib.git"},
		{a: "git@git.example:fn.git", b: "https://git.example/lib.git"},
		{a: "git@git.example:fn.git", b: "git@git.example.evil:lib.git"},
	} {
		NewWithT(t).Expect(serverOf(row.a) == serverOf(row.b)).To(Equal(row.same), row.a+" "+row.b)
	}
}

func FuzzReadModules(f *testing.F) {
	f.Add("[submodule \"a\"]\n\tpath = a\n\turl = ../a.git\n")
	f.Add("[submodule \"../a\"]\npath=../a\nurl=-x\nupdate=!x")
	f.Add("[submodule]\npath\n[\n")
	f.Fuzz(func(t *testing.T, text string) {
		found, err := readModules(text)
		if err != nil {
			return
		}
		for path, raw := range found {
			if clean, err := cleanPath(path); err != nil || clean != path || path == "" {
				t.Fatalf("path %q", path)
			}
			at, err := resolveURL("https://git.example/team/fn.git", raw)
			if err == nil && !strings.HasPrefix(at, "http") && serverOf(at) == "" {
				t.Fatalf("URL %q", at)
			}
		}
	})
}
