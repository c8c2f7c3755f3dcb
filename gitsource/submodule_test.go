package gitsource_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"

	"github.com/gitfn/gitfn/gitsource"
)

// neighbour is another repository in the folder of the first: one server serves both.
func (r *repository) neighbour(name string) *repository {
	n := &repository{t: r.t, dir: filepath.Join(filepath.Dir(r.dir), name), blobs: map[string]string{}}
	n.run("", "init", "--quiet", "--bare", "--initial-branch=main", n.dir)
	n.config("uploadpack.allowFilter", "true")
	n.config("http.uploadpack", "true")
	return n
}

// gitmodules is a .gitmodules file of path and URL, one after the other.
func gitmodules(pathsAndURLs ...string) string {
	var b strings.Builder
	for i := 0; i+1 < len(pathsAndURLs); i += 2 {
		fmt.Fprintf(&b, "[submodule %q]\n\tpath = %s\n\turl = %s\n", "module"+fmt.Sprint(i), pathsAndURLs[i], pathsAndURLs[i+1])
	}
	return b.String()
}

// super is a repository with a submodule at lib, beside handler.js. The URL may be relative.
func super(r *repository, url, commit string) string {
	return r.commit("main", r.tree("100644 "+r.blob(gitmodules("lib", url))+" .gitmodules", "100644 "+r.blob("hello")+" handler.js", "160000 "+commit+" lib"), "super")
}

func TestSubmodulesJoinTheTree(t *testing.T) {
	t.Parallel()
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			r := newRepository(t)
			lib, inner := r.neighbour("lib.git"), r.neighbour("inner.git")
			for _, each := range []*repository{r, lib, inner} {
				for key, value := range way.config {
					each.config(key, value)
				}
			}
			innerCommit := inner.commit("main", inner.files(map[string]string{"deep.js": "deep", "dir/x.js": "x"}), "inner")
			libCommit := lib.commit("main", lib.tree(
				"100644 "+lib.blob(gitmodules("third/inner", "../inner.git"))+" .gitmodules",
				"100755 "+lib.blob("#!/bin/sh\n")+" run.sh",
				"40000 "+lib.tree("160000 "+innerCommit+" inner")+" third"), "lib")
			commit := super(r, "../lib.git", libCommit)
			s := newGitServer(t, r, way.before)
			c := newClient(t)
			rows := []struct {
				name   string
				wanted gitsource.Selection
				tree   string // as git names it; "" if the tree is in no repository
				files  map[string]string
			}{
				{name: "below the base directory", tree: r.run("", "rev-parse", commit+"^{tree}"), files: map[string]string{
					".gitmodules": gitmodules("lib", "../lib.git"), "handler.js": "hello", "lib/run.sh": "#!/bin/sh\n",
					"lib/.gitmodules": gitmodules("third/inner", "../inner.git"), "lib/third/inner/deep.js": "deep", "lib/third/inner/dir/x.js": "x",
				}},
				{name: "the base directory is a submodule", wanted: gitsource.Selection{BaseDir: "lib/third/inner"}, tree: inner.run("", "rev-parse", innerCommit+"^{tree}"),
					files: map[string]string{"deep.js": "deep", "dir/x.js": "x"}},
				{name: "the base directory is in a submodule", wanted: gitsource.Selection{BaseDir: "lib/third/inner/dir"}, tree: inner.run("", "rev-parse", innerCommit+":dir"),
					files: map[string]string{"x.js": "x"}},
				{name: "the base directory is in one and holds another", wanted: gitsource.Selection{BaseDir: "lib/third"}, tree: lib.run("", "rev-parse", libCommit+":third"),
					files: map[string]string{"inner/deep.js": "deep", "inner/dir/x.js": "x"}},
				{name: "what is included is in a submodule", wanted: gitsource.Selection{BaseDir: "lib/third/inner/dir", Include: []gitsource.Include{{Path: "lib/third/inner/deep.js", To: "y/deep.js"}, {Path: "handler.js"}}},
					tree: r.files(map[string]string{"x.js": "x", "y/deep.js": "deep", "handler.js": "hello"}), files: map[string]string{"x.js": "x", "y/deep.js": "deep", "handler.js": "hello"}},
				{name: "what is included is a directory in a submodule", wanted: gitsource.Selection{BaseDir: "lib/third/inner/dir", Include: []gitsource.Include{{Path: "lib/third/inner", To: "copy"}}},
					files: map[string]string{"x.js": "x", "copy/deep.js": "deep", "copy/dir/x.js": "x"}},
				{name: "what is included holds a submodule", wanted: gitsource.Selection{BaseDir: "lib/third/inner/dir", Include: []gitsource.Include{{Path: "lib/third", To: "z/third"}}},
					files: map[string]string{"x.js": "x", "z/third/inner/deep.js": "deep", "z/third/inner/dir/x.js": "x"}},
			}
			for _, row := range rows {
				row.wanted.Reference, row.wanted.Submodules = "main", true
				got, err := c.Resolve(t.Context(), s.repo(), row.wanted, time.Hour)
				g.Expect(err).NotTo(HaveOccurred(), row.name)
				tree, err := c.Fetch(t.Context(), s.repo(), commit, row.wanted)
				g.Expect(err).NotTo(HaveOccurred(), row.name)
				g.Expect(tree.ID).To(Equal(got.Tree), row.name)
				if row.tree != "" {
					g.Expect(tree.ID).To(Equal(row.tree), row.name)
				}
				files := map[string]string{}
				for _, file := range tree.Files {
					files[file.Path] = content(t, tree, file.Path)
					g.Expect(file.Executable).To(Equal(strings.HasSuffix(file.Path, ".sh")), row.name)
				}
				g.Expect(files).To(Equal(row.files), row.name)
				g.Expect(tree.Close()).To(Succeed())
			}
		})
	}
}

func TestSubmodulesAreRefusedUnlessAskedFor(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	lib := r.neighbour("lib.git")
	commit := super(r, "../lib.git", lib.commit("main", lib.files(map[string]string{"d/x": "x"}), "lib"))
	s := newGitServer(t, r, nil)
	c := newClient(t)
	for name, wanted := range map[string]gitsource.Selection{
		"below the base directory":         {},
		"the base directory is one":        {BaseDir: "lib"},
		"the base directory is in one":     {BaseDir: "lib/d"},
		"what is included is in one":       {Include: []gitsource.Include{{Path: "lib/d"}}},
		"what is included is one, renamed": {Include: []gitsource.Include{{Path: "lib", To: "x"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			wanted.Reference = "main"
			_, err := c.Resolve(t.Context(), s.repo(), wanted, time.Hour)
			g.Expect(err).To(MatchError(gitsource.ErrUnsafeTree))
			g.Expect(err).To(MatchError(ContainSubstring(`"lib" is a submodule; set submodules to true in the Function's gitRepository to fetch it`)))
			_, err = c.Fetch(t.Context(), s.repo(), commit, wanted)
			g.Expect(err).To(MatchError(gitsource.ErrUnsafeTree))
			g.Expect(s.count("/lib.git/")).To(BeZero())
		})
	}
}

func TestSubmodulesGetCredentialsOfTheirServerOnly(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	authorized := func(w http.ResponseWriter, r *http.Request) bool {
		user, password, _ := r.BasicAuth()
		if user == secret.Username && password == secret.Password {
			return false
		}
		w.WriteHeader(http.StatusUnauthorized)
		return true
	}
	// The function's server is private. It holds fn and lib; elsewhere is open, and holds far, which leads back to lib.
	r := newRepository(t)
	lib := r.neighbour("lib.git")
	home := newGitServer(t, r, authorized)
	libCommit := lib.commit("main", lib.files(map[string]string{"lib.js": "private"}), "lib")
	far := newRepository(t).neighbour("far.git")
	elsewhere := newGitServer(t, far, nil)
	farCommit := far.commit("main", far.files(map[string]string{"far.js": "far"}), "far")
	back := far.neighbour("back.git")
	backCommit := back.commit("main", back.tree("100644 "+back.blob(gitmodules("stolen", home.URL+"/lib.git"))+" .gitmodules", "160000 "+libCommit+" stolen"), "back")
	repo := home.repo()
	repo.Credentials = secret
	c := newClient(t)
	fetch := func(rows ...string) (*gitsource.Tree, error) {
		t.Helper()
		var tree, urls []string
		for i := 0; i < len(rows); i += 3 {
			urls = append(urls, rows[i], rows[i+1])
			tree = append(tree, "160000 "+rows[i+2]+" "+rows[i])
		}
		commit := r.commit("main", r.tree(append([]string{"100644 " + r.blob(gitmodules(urls...)) + " .gitmodules"}, tree...)...), "super")
		return c.Fetch(t.Context(), repo, commit, gitsource.Selection{Submodules: true})
	}

	tree, err := fetch("far", elsewhere.URL+"/far.git", farCommit, "lib", "../lib.git", libCommit, "too", home.URL+"/lib.git", libCommit)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(content(t, tree, "lib/lib.js")).To(Equal("private"))
	g.Expect(content(t, tree, "too/lib.js")).To(Equal("private"))
	g.Expect(content(t, tree, "far/far.js")).To(Equal("far"))
	g.Expect(tree.Close()).To(Succeed())
	for _, request := range elsewhere.all() {
		g.Expect(request.authorization).To(BeEmpty())
	}

	_, err = fetch("back", elsewhere.URL+"/back.git", backCommit)
	g.Expect(err).To(MatchError(gitsource.ErrAuth), "another server does not get at what the Function may read")
	g.Expect(err).To(MatchError(And(ContainSubstring(`read submodule "back/stolen"`), ContainSubstring(home.URL+"/lib.git"), ContainSubstring("not shown to another server"))))
	g.Expect(fmt.Sprintf("%v %+v", err, err)).NotTo(ContainSubstring(secret.Password))
	for _, request := range elsewhere.all() {
		g.Expect(request.authorization).To(BeEmpty())
	}
}

func TestHostileSubmodules(t *testing.T) {
	t.Parallel()
	text := func(lines ...string) string { return strings.Join(lines, "\n") + "\n" }
	rows := []struct {
		name    string
		modules string // %s is the server; empty: there is no file
		err     error  // nil: the submodule at lib is read
		message string
	}{
		{name: "no file", err: gitsource.ErrUnsafeTree, message: "names no URL for it"},
		{name: "no text that is understood", modules: "[submodule", err: gitsource.ErrUnsafeTree, message: "malformed"},
		{name: "a file that is too large", modules: strings.Repeat("# comment\n", 20_000), err: gitsource.ErrTooLarge, message: "read .gitmodules: it has 200000 bytes"},
		{name: "another path", modules: gitmodules("library", "../lib.git"), err: gitsource.ErrUnsafeTree, message: "names no URL for it"},
		{name: "another path as well is ignored", modules: gitmodules("nowhere", "file:///etc", "lib", "../lib.git")},
		{name: "a path written with slashes is the same", modules: gitmodules("./lib/", "../lib.git")},
		{name: "a path that leads out is ignored", modules: gitmodules("../lib", "../lib.git"), err: gitsource.ErrUnsafeTree, message: "names no URL for it"},
		{name: "a path twice", modules: gitmodules("lib", "../lib.git", "lib", "../other.git"), err: gitsource.ErrUnsafeTree, message: "more than once"},
		{name: "a name that leads out is ignored", modules: text(`[submodule "../../hooks"]`, "path = lib", "url = ../lib.git"), err: gitsource.ErrUnsafeTree, message: "names no URL for it"},
		{name: "a name that leads out as Windows writes it is ignored", modules: text(`[submodule "a\\..\\b"]`, "path = lib", "url = ../lib.git"), err: gitsource.ErrUnsafeTree, message: "names no URL for it"},
		{name: "a command to update with is ignored", modules: text(`[submodule "lib"]`, "path = lib", "url = ../lib.git", "update = !touch /tmp/owned", "branch = other", "fetchRecurseSubmodules = true")},
		{name: "sections of another kind are ignored", modules: text("[core]", "sshCommand = touch /tmp/owned", `[SubModule "lib"]`, "path = lib", "url = ../lib.git", `[include]`, "path = /etc/passwd")},
		{name: "no URL", modules: text(`[submodule "lib"]`, "path = lib"), err: gitsource.ErrUnsafeTree, message: "names no URL for it"},
		{name: "an option for a URL", modules: gitmodules("lib", "-u./payload"), err: gitsource.ErrInvalidURL, message: "dash"},
		{name: "an option for a path of the scp form", modules: gitmodules("lib", "git@host:-oProxyCommand=x"), err: gitsource.ErrInvalidURL, message: "dash"},
		{name: "a file", modules: gitmodules("lib", "file:///etc"), err: gitsource.ErrInvalidURL, message: `read submodule "lib" at "file:///etc": check URL: scheme "file" is refused`},
		{name: "a path of the machine", modules: gitmodules("lib", "/srv/git/lib.git"), err: gitsource.ErrInvalidURL, message: "is refused"},
		{name: "a program", modules: gitmodules("lib", "ext::sh -c touch% /tmp/owned"), err: gitsource.ErrInvalidURL},
		{name: "a file descriptor", modules: gitmodules("lib", "fd::17"), err: gitsource.ErrInvalidURL},
		{name: "a password in the URL", modules: gitmodules("lib", "http://user:hunter3@127.0.0.1/lib.git"), err: gitsource.ErrInvalidURL, message: `at "http://127.0.0.1/lib.git": check URL: user information`},
		{name: "a URL that is none, with a password", modules: gitmodules("lib", "http://user:hunter3@[::1/lib.git"), err: gitsource.ErrInvalidURL},
		{name: "a metadata service", modules: gitmodules("lib", "http://169.254.169.254/latest"), err: gitsource.ErrAddressRefused, message: "169.254.169.254"},
		{name: "up past the root of the server", modules: gitmodules("lib", "../../../lib.git"), err: gitsource.ErrInvalidURL, message: "past the root"},
		{name: "a repository that is not there", modules: gitmodules("lib", "../gone.git"), err: gitsource.ErrRepositoryNotFound, message: "/gone.git: no such repository"},
		{name: "a repository without that commit", modules: gitmodules("lib", "../empty.git"), err: gitsource.ErrRefNotFound, message: "/empty.git: "},
		{name: "nobody is at the address", modules: gitmodules("lib", "http://127.0.0.1:1/lib.git"), err: gitsource.ErrUnavailable, message: "http://127.0.0.1:1/lib.git"},
		{name: "itself", modules: gitmodules("lib", "../fn.git"), err: gitsource.ErrRefNotFound, message: "/fn.git: "},
		{name: "itself, by another relative URL", modules: gitmodules("lib", "./"), err: gitsource.ErrRefNotFound, message: "/fn.git: "},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			r := newRepository(t)
			lib := r.neighbour("lib.git")
			libCommit := lib.commit("main", lib.files(map[string]string{"lib.js": "lib"}), "lib")
			other := r.neighbour("empty.git")
			other.commit("main", other.files(map[string]string{"x": "x"}), "other")
			entries := []string{"100644 " + r.blob("x") + " handler.js", "160000 " + libCommit + " lib"}
			if row.modules != "" {
				entries = append([]string{"100644 " + r.blob(row.modules) + " .gitmodules"}, entries...)
			}
			top := r.commit("main", r.tree(entries...), "super")
			s := newGitServer(t, r, nil)
			repo := s.repo()
			repo.Credentials = secret
			c := newClient(t)
			_, err := c.Resolve(t.Context(), repo, gitsource.Selection{Reference: "main", Submodules: true}, time.Hour)
			if row.err == nil {
				g.Expect(err).NotTo(HaveOccurred())
				tree, err := c.Fetch(t.Context(), repo, top, gitsource.Selection{Submodules: true})
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(content(t, tree, "lib/lib.js")).To(Equal("lib"))
				g.Expect(tree.Close()).To(Succeed())
				return
			}
			g.Expect(err).To(MatchError(row.err))
			g.Expect(err).To(MatchError(ContainSubstring(row.message)))
			g.Expect(err.Error()).NotTo(ContainSubstring("hunter"))
			g.Expect(filepath.Glob("/tmp/owned")).To(BeEmpty())
			_, err = c.Fetch(t.Context(), repo, top, gitsource.Selection{Submodules: true})
			g.Expect(err).To(MatchError(row.err))
		})
	}
}

func TestAGitmodulesFileMustBeAFile(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r := newRepository(t)
	lib := r.neighbour("lib.git")
	libCommit := lib.commit("main", lib.files(map[string]string{"lib.js": "lib"}), "lib")
	commit := r.commit("main", r.tree("120000 "+r.blob("modules")+" .gitmodules", "160000 "+libCommit+" lib", "100644 "+r.blob(gitmodules("lib", "../lib.git"))+" modules"), "super")
	_, err := newClient(t).Fetch(t.Context(), newGitServer(t, r, nil).repo(), commit, gitsource.Selection{Submodules: true})
	g.Expect(err).To(MatchError(gitsource.ErrUnsafeTree))
	g.Expect(err).To(MatchError(ContainSubstring("read .gitmodules: it is no regular file")))
}

func TestSubmodulesAreBounded(t *testing.T) {
	t.Parallel()
	limits := func(modify func(*gitsource.Limits)) func(*gitsource.Options) {
		return func(o *gitsource.Options) { modify(&o.Limits) }
	}
	// chain is commits of one repository, each a submodule of the next: a repository that is its own submodule.
	chain := func(r *repository, length int) string {
		commit := r.commit("main", r.files(map[string]string{"end.js": "end"}), "end")
		for range length {
			commit = r.commit("main", r.tree("100644 "+r.blob(gitmodules("in", "./"))+" .gitmodules", "160000 "+commit+" in"), "next")
		}
		return commit
	}
	many := func(submodules, files int) func(r *repository) string {
		return func(r *repository) string {
			lib := r.neighbour("lib.git")
			content := map[string]string{}
			for i := range files {
				content[fmt.Sprint("f", i)] = strings.Repeat("x", 100)
			}
			commit := lib.commit("main", lib.files(content), "lib")
			var urls, rows []string
			for i := range submodules {
				name := fmt.Sprintf("m%02d", i)
				urls, rows = append(urls, name, "../lib.git"), append(rows, "160000 "+commit+" "+name)
			}
			return r.commit("main", r.tree(append([]string{"100644 " + r.blob(gitmodules(urls...)) + " .gitmodules"}, rows...)...), "many")
		}
	}
	rows := []struct {
		name    string
		build   func(r *repository) string
		limits  func(*gitsource.Options)
		message string // empty: it is fine
	}{
		{name: "five in one another", build: func(r *repository) string { return chain(r, 5) }, limits: limits(func(*gitsource.Limits) {})},
		{name: "six in one another", build: func(r *repository) string { return chain(r, 6) }, limits: limits(func(*gitsource.Limits) {}), message: `read submodule "in/in/in/in/in/in": submodules are more than 5 in one another`},
		{name: "as many as may be", build: many(4, 1), limits: limits(func(l *gitsource.Limits) { l.Submodules = 4 })},
		{name: "one more", build: many(5, 1), limits: limits(func(l *gitsource.Limits) { l.Submodules = 4 }), message: "there are more than 4 submodules"},
		{name: "files count together", build: many(4, 5), limits: limits(func(l *gitsource.Limits) { l.Files = 20 }), message: "more than 20 files and directories"},
		{name: "bytes count together", build: many(4, 5), limits: limits(func(l *gitsource.Limits) { l.TotalBytes = 1500 }), message: "its files have more than 1500 bytes"},
		{name: "what is stored counts together", build: func(r *repository) string {
			var urls, rows []string
			for i := range 4 { // each is less than a pack may be, and comes with its blobs
				lib := r.neighbour(fmt.Sprintf("lib%d.git", i))
				lib.config("uploadpack.allowFilter", "false")
				urls = append(urls, fmt.Sprint("m", i), fmt.Sprintf("../lib%d.git", i))
				rows = append(rows, fmt.Sprintf("160000 %s m%d", lib.commit("main", lib.files(map[string]string{"large": fmt.Sprint(i) + noise(80_000)}), "lib"), i))
			}
			return r.commit("main", r.tree(append([]string{"100644 " + r.blob(gitmodules(urls...)) + " .gitmodules"}, rows...)...), "many")
		}, limits: limits(func(l *gitsource.Limits) { l.PackBytes = 100_000 }), message: "its repositories take more than 200000 bytes together"},
		{name: "depth counts together", build: func(r *repository) string { return chain(r, 4) }, limits: limits(func(l *gitsource.Limits) { l.Depth = 3 }), message: "directories are more than 3 deep"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			r := newRepository(t)
			commit := row.build(r)
			s := newGitServer(t, r, nil)
			tree, err := newClient(t, row.limits).Fetch(t.Context(), s.repo(), commit, gitsource.Selection{Submodules: true})
			if row.message == "" {
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(tree.Close()).To(Succeed())
				return
			}
			g.Expect(err).To(MatchError(gitsource.ErrTooLarge))
			g.Expect(err).To(MatchError(ContainSubstring(row.message)))
		})
	}
}

// TestRepositoriesThatAreSubmodulesOfOneAnother are read by many at the same time: nobody waits for a mirror while holding another.
func TestRepositoriesThatAreSubmodulesOfOneAnother(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	a := newRepository(t)
	b := a.neighbour("b.git")
	leafA := a.commit("leaf", a.files(map[string]string{"a.js": "a"}), "leaf")
	leafB := b.commit("leaf", b.files(map[string]string{"b.js": "b"}), "leaf")
	topA := a.commit("main", a.tree("100644 "+a.blob(gitmodules("b", "../b.git"))+" .gitmodules", "160000 "+leafB+" b"), "a")
	topB := b.commit("main", b.tree("100644 "+b.blob(gitmodules("a", "../fn.git"))+" .gitmodules", "160000 "+leafA+" a"), "b")
	s := newGitServer(t, a, nil)
	c := newClient(t)
	group, ctx := errgroup.WithContext(t.Context())
	for i := range 16 {
		group.Go(func() error {
			repo, commit := s.repo(), topA
			if i%2 == 1 {
				repo, commit = gitsource.Repository{URL: s.URL + "/b.git"}, topB
			}
			tree, err := c.Fetch(ctx, repo, commit, gitsource.Selection{Submodules: true})
			if err != nil {
				return err
			}
			return tree.Close()
		})
	}
	g.Expect(group.Wait()).To(Succeed())
}

func TestASubmoduleThatIsKnownCostsNothing(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r := newRepository(t)
	lib := r.neighbour("lib.git")
	libCommit := lib.commit("main", lib.files(map[string]string{"lib.js": "lib"}), "lib")
	first := super(r, "../lib.git", libCommit)
	var away atomic.Bool
	s := newGitServer(t, r, func(w http.ResponseWriter, r *http.Request) bool {
		if away.Load() && strings.HasPrefix(r.URL.Path, "/lib.git/") {
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		}
		return false
	})
	now := newClock()
	c := newClient(t, withClock(now))
	resolve := func() (gitsource.Revision, error) {
		return c.Resolve(t.Context(), s.repo(), gitsource.Selection{Reference: "main", Submodules: true}, 0)
	}
	before, err := resolve()
	g.Expect(err).NotTo(HaveOccurred())
	requests := s.count("/lib.git/")

	away.Store(true)
	r.commit("main", r.run("", "rev-parse", first+"^{tree}"), "another commit with the same tree", first)
	after, err := resolve()
	g.Expect(err).NotTo(HaveOccurred(), "a server that is away does not matter")
	g.Expect(after.Tree).To(Equal(before.Tree))
	g.Expect(after.Commit).NotTo(Equal(before.Commit))
	g.Expect(s.count("/lib.git/")).To(Equal(requests))

	next := lib.commit("main", lib.files(map[string]string{"lib.js": "next"}), "next", libCommit)
	super(r, "../lib.git", next)
	_, err = resolve()
	g.Expect(err).To(MatchError(gitsource.ErrUnavailable))
	g.Expect(err).To(MatchError(And(ContainSubstring(`read submodule "lib"`), ContainSubstring(s.URL+"/lib.git"))))
	away.Store(false)
	now.move(30 * time.Second)
	after, err = resolve()
	g.Expect(err).NotTo(HaveOccurred(), "a failure is not kept for long")
	g.Expect(after.Tree).NotTo(Equal(before.Tree))
}

func TestSubmodulesOfAnUnsignedCommitAreNotAskedFor(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r := newRepository(t)
	lib := r.neighbour("lib.git")
	super(r, "../lib.git", lib.commit("main", lib.files(map[string]string{"lib.js": "lib"}), "lib"))
	s := newGitServer(t, r, nil)
	_, err := newClient(t).Resolve(t.Context(), s.repo(), gitsource.Selection{Reference: "main", Submodules: true,
		Verification: gitsource.Verification{Mode: gitsource.VerifyHEAD, Keys: [][]byte{publicKey(t, newOpenPGP(t, "Ada"))}}}, 0)
	g.Expect(err).To(MatchError(gitsource.ErrUnverified))
	g.Expect(s.count("/lib.git/")).To(BeZero())
}

func TestSubmodulesOverSSH(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r := newRepository(t)
	lib, open := r.neighbour("lib.git"), newRepository(t).neighbour("open.git")
	libCommit := lib.commit("main", lib.files(map[string]string{"lib.js": "lib"}), "lib")
	openCommit := open.commit("main", open.files(map[string]string{"open.js": "open"}), "open")
	elsewhere := newGitServer(t, open, nil)
	commit := r.commit("main", r.tree("100644 "+r.blob(gitmodules("lib", "../lib.git", "open", elsewhere.URL+"/open.git"))+" .gitmodules",
		"160000 "+libCommit+" lib", "160000 "+openCommit+" open"), "super")
	s := newSSHD(t)
	tree, err := newClient(t).Fetch(t.Context(), s.repo(r), commit, gitsource.Selection{Submodules: true})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(content(t, tree, "lib/lib.js")).To(Equal("lib"))
	g.Expect(content(t, tree, "open/open.js")).To(Equal("open"))
	g.Expect(tree.Close()).To(Succeed())
	g.Expect(s.met()).To(Equal(1), "the submodule comes over the same connection")
}
