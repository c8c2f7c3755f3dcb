package gitsource_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/gitfn/gitfn/gitsource"
)

// workspace is a repository with two functions and what they share.
func workspace(t testing.TB) *repository {
	r := newRepository(t)
	shared := r.tree("40000 "+r.files(map[string]string{"x.js": "deep"})+" deep", "100755 "+r.blob("#!/bin/sh\n")+" gen.sh", "100644 "+r.blob("log")+" log.js")
	a := r.files(map[string]string{"handler.js": "a", "lib/own.js": "own", "package.json": "{}"})
	b := r.files(map[string]string{"handler.js": "b", "package-lock.json": "lock of b", "package.json": "{}"})
	links := r.tree("120000 "+r.blob("handler.js")+" inside", "120000 "+r.blob("../../../etc/passwd")+" out", "120000 "+r.blob("../handler.js")+" up")
	r.commit("main", r.tree(
		"40000 "+r.tree("40000 "+a+" a", "40000 "+b+" b")+" apps",
		"40000 "+links+" links",
		"100644 "+r.blob("lock")+" package-lock.json",
		"40000 "+shared+" shared",
	), "first")
	return r
}

func TestIncludeJoinsTheTree(t *testing.T) {
	t.Parallel()
	base := map[string]string{"handler.js": "a", "lib/own.js": "own", "package.json": "{}"}
	rows := []struct {
		name    string
		dir     string // "apps/a" when empty
		include []gitsource.Include
		files   map[string]string // besides those of apps/a
		modes   bool              // the files are not all ordinary, so git's index does not tell their tree
		err     error
		message string
	}{
		{name: "nothing more", include: nil},
		{name: "a file by its last name", include: []gitsource.Include{{Path: "shared/log.js"}}, files: map[string]string{"log.js": "log"}},
		{name: "a path may begin and end in slashes", include: []gitsource.Include{{Path: "/shared/deep/", To: "./x/"}}, files: map[string]string{"x/x.js": "deep"}},
		{name: "a directory by its last name", include: []gitsource.Include{{Path: "shared/deep"}}, files: map[string]string{"deep/x.js": "deep"}},
		{name: "a new directory on the way", include: []gitsource.Include{{Path: "shared/log.js", To: "vendor/our/log.js"}}, files: map[string]string{"vendor/our/log.js": "log"}},
		{name: "a directory that is there already gains a file", include: []gitsource.Include{{Path: "shared/log.js", To: "lib/log.js"}}, files: map[string]string{"lib/log.js": "log"}},
		{name: "two in one directory", include: []gitsource.Include{{Path: "shared/log.js", To: "lib/log.js"}, {Path: "shared/deep", To: "lib/deep"}}, files: map[string]string{"lib/log.js": "log", "lib/deep/x.js": "deep"}},
		{name: "one path at two places", include: []gitsource.Include{{Path: "shared/log.js"}, {Path: "shared/log.js", To: "log2.js"}}, files: map[string]string{"log.js": "log", "log2.js": "log"}},
		{name: "names sort as git sorts them", include: []gitsource.Include{{Path: "shared/log.js", To: "lib.js"}, {Path: "shared/log.js", To: "lib-a"}, {Path: "shared/log.js", To: "lib0"}}, files: map[string]string{"lib.js": "log", "lib-a": "log", "lib0": "log"}},
		{name: "a lock file of the root", include: []gitsource.Include{{Path: "package-lock.json"}}, files: map[string]string{"package-lock.json": "lock"}},
		{name: "an executable keeps its bit", include: []gitsource.Include{{Path: "shared"}}, files: map[string]string{"shared/deep/x.js": "deep", "shared/gen.sh": "#!/bin/sh\n", "shared/log.js": "log"}, modes: true},
		{name: "a link that stays inside at its new place", include: []gitsource.Include{{Path: "links/up", To: "lib/up"}}, files: map[string]string{"lib/up": "../handler.js"}, modes: true},
		{name: "a link that leaves from its new place", include: []gitsource.Include{{Path: "links/up", To: "up"}}, err: gitsource.ErrUnsafeTree, message: `symbolic link "up": its target is outside of the base directory`},
		{name: "a link that leaves from anywhere", include: []gitsource.Include{{Path: "links/out", To: "lib/out"}}, err: gitsource.ErrUnsafeTree, message: `symbolic link "lib/out"`},
		{name: "a path that is not there", include: []gitsource.Include{{Path: "shared/gone.js"}}, err: gitsource.ErrBaseDirNotFound, message: `find include "shared/gone.js": commit`},
		{name: "a path below a file", include: []gitsource.Include{{Path: "shared/log.js/x"}}, err: gitsource.ErrBaseDirNotFound, message: `"shared/log.js" is no directory`},
		{name: "a path below a link", include: []gitsource.Include{{Path: "links/inside/x"}}, err: gitsource.ErrBaseDirNotFound, message: `"links/inside" is no directory`},
		{name: "a path that leads out", include: []gitsource.Include{{Path: "../x"}}, err: gitsource.ErrBaseDirNotFound, message: `check include "../x"`},
		{name: "the root", include: []gitsource.Include{{Path: "/", To: "all"}}, err: gitsource.ErrBaseDirNotFound, message: "below the root"},
		{name: "a place that leads out", include: []gitsource.Include{{Path: "shared", To: "../x"}}, err: gitsource.ErrUnsafeTree, message: `to "../x"`},
		{name: "a place that leads out on the way", include: []gitsource.Include{{Path: "shared", To: "lib/../../x"}}, err: gitsource.ErrUnsafeTree, message: "leads elsewhere"},
		{name: "a place in .git", include: []gitsource.Include{{Path: "shared", To: ".GIT/hooks"}}, err: gitsource.ErrUnsafeTree, message: "is Git's own"},
		{name: "a place that is taken by a file", include: []gitsource.Include{{Path: "shared/log.js", To: "handler.js"}}, err: gitsource.ErrUnsafeTree, message: `"handler.js" is there already`},
		{name: "a place that is taken by a directory", include: []gitsource.Include{{Path: "shared", To: "lib"}}, err: gitsource.ErrUnsafeTree, message: `"lib" is there already`},
		{name: "a place below a file", include: []gitsource.Include{{Path: "shared", To: "handler.js/x"}}, err: gitsource.ErrUnsafeTree, message: `"handler.js" is there already`},
		{name: "a place that is taken where case does not count", include: []gitsource.Include{{Path: "shared", To: "LIB"}}, err: gitsource.ErrUnsafeTree, message: `"LIB" and "lib"`},
		{name: "two for one place", include: []gitsource.Include{{Path: "shared/log.js", To: "x"}, {Path: "package-lock.json", To: "x"}}, err: gitsource.ErrUnsafeTree, message: "another place"},
		{name: "one in another", include: []gitsource.Include{{Path: "shared", To: "x"}, {Path: "package-lock.json", To: "x/deep/lock"}}, err: gitsource.ErrUnsafeTree, message: "another place"},
		{name: "one twice", include: []gitsource.Include{{Path: "shared"}, {Path: "/shared", To: "shared"}}, err: gitsource.ErrUnsafeTree, message: "twice"},
		{name: "a base directory that is not there", dir: "gone", include: []gitsource.Include{{Path: "shared"}}, err: gitsource.ErrBaseDirNotFound, message: `find base directory "gone"`},
	}
	r := workspace(t)
	commit := r.run("", "rev-parse", "main")
	s := newGitServer(t, r, nil)
	c := newClient(t)
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			wanted := gitsource.Selection{Reference: "main", BaseDir: "apps/a", Include: row.include}
			if row.dir != "" {
				wanted.BaseDir = row.dir
			}
			got, err := c.Resolve(t.Context(), s.repo(), wanted, time.Hour)
			links := strings.Contains(row.message, "symbolic link") // needs content, which Resolve does not fetch
			if row.err != nil && !links {
				g.Expect(err).To(MatchError(row.err))
				g.Expect(err).To(MatchError(ContainSubstring(row.message)))
				_, again := c.Resolve(t.Context(), s.repo(), wanted, time.Hour)
				g.Expect(again).To(MatchError(err.Error()), "what is kept says the same")
			} else {
				g.Expect(err).NotTo(HaveOccurred())
			}
			tree, err := c.Fetch(t.Context(), s.repo(), commit, wanted)
			if row.err != nil {
				g.Expect(err).To(MatchError(row.err))
				g.Expect(err).To(MatchError(ContainSubstring(row.message)))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			defer tree.Close()
			files := map[string]string{}
			for _, file := range tree.Files {
				files[file.Path] = content(t, tree, file.Path)
			}
			want := map[string]string{}
			for _, m := range []map[string]string{base, row.files} {
				for path, content := range m {
					want[path] = content
				}
			}
			g.Expect(files).To(Equal(want))
			g.Expect(tree.ID).To(Equal(got.Tree))
			if !row.modes {
				g.Expect(tree.ID).To(Equal(r.files(want)), "git gives the same files this ID")
			}
		})
	}
}

// TestIncludeIsOneTreeOnEveryServer fetches files, directories and modes that are not all in the base directory.
func TestIncludeIsOneTreeOnEveryServer(t *testing.T) {
	t.Parallel()
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			r := workspace(t)
			for key, value := range way.config {
				r.config(key, value)
			}
			s := newGitServer(t, r, way.before)
			c := newClient(t)
			wanted := gitsource.Selection{Reference: "main", BaseDir: "apps/a", Include: []gitsource.Include{{Path: "shared", To: "vendor/shared"}}}
			got, err := c.Resolve(t.Context(), s.repo(), wanted, 0)
			g.Expect(err).NotTo(HaveOccurred())
			main := r.run("", "rev-parse", "main")
			vendor := r.tree("40000 " + r.run("", "rev-parse", "main:shared") + " shared")
			rows := strings.Split(strings.ReplaceAll(r.run("", "ls-tree", "main:apps/a"), "\t", " "), "\n")
			for i, row := range rows { // "mode type id name"
				parts := strings.Fields(row)
				rows[i] = strings.Join([]string{parts[0], parts[2], parts[3]}, " ")
			}
			g.Expect(got.Tree).To(Equal(r.tree(append(rows, "40000 "+vendor+" vendor")...)))

			tree, err := newClient(t).Fetch(t.Context(), s.repo(), main, wanted)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(tree.ID).To(Equal(got.Tree))
			g.Expect(content(t, tree, "vendor/shared/deep/x.js")).To(Equal("deep"))
			g.Expect(tree.Files).To(ContainElement(gitsource.File{Path: "vendor/shared/gen.sh", Size: 10, Executable: true}))
			g.Expect(tree.Close()).To(Succeed())
		})
	}
}

func TestWhatIsIncludedJoinsTheKey(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r := newRepository(t)
	files := map[string]string{"apps/a/handler.js": "a", "shared/log.js": "1", "other/x": "1"}
	first := r.commit("main", r.files(files), "first")
	s := newGitServer(t, r, nil)
	c := newClient(t)
	resolve := func() string {
		t.Helper()
		got, err := c.Resolve(t.Context(), s.repo(), gitsource.Selection{Reference: "main", BaseDir: "apps/a", Include: []gitsource.Include{{Path: "shared"}}}, 0)
		g.Expect(err).NotTo(HaveOccurred())
		return got.Tree
	}
	before := resolve()
	files["other/x"] = "2"
	second := r.commit("main", r.files(files), "elsewhere", first)
	g.Expect(resolve()).To(Equal(before), "what is not included does not count")
	files["shared/log.js"] = "2"
	r.commit("main", r.files(files), "shared", second)
	g.Expect(resolve()).NotTo(Equal(before))
}

func TestALockFileAboveIsAWarning(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name    string
		files   map[string]string
		dir     string
		include []gitsource.Include
		want    []string
	}{
		{name: "a lock file of the root", dir: "apps/a", files: map[string]string{"package-lock.json": "", "apps/a/package.json": ""},
			want: []string{`package-lock.json in the root of the repository is not used, because "apps/a" has a package.json of its own without a lock file: make a package-lock.json beside it (npm install --package-lock-only --workspaces=false)`}},
		{name: "the nearest one", dir: "apps/team/a", files: map[string]string{"package-lock.json": "", "apps/npm-shrinkwrap.json": "", "apps/team/a/package.json": ""},
			want: []string{`npm-shrinkwrap.json in "apps" is not used, because "apps/team/a" has a package.json of its own without a lock file: make a package-lock.json beside it (npm install --package-lock-only --workspaces=false)`}},
		{name: "one of Yarn", dir: "a", files: map[string]string{"yarn.lock": "", "a/package.json": ""},
			want: []string{`yarn.lock in the root of the repository is not used, because "a" has a package.json of its own without a lock file: packages are installed by npm; make a package-lock.json beside it (npm install --package-lock-only --workspaces=false)`}},
		{name: "one of pnpm, in a directory below the root", dir: "x/a", files: map[string]string{"x/pnpm-lock.yaml": "", "x/a/package.json": ""},
			want: []string{`pnpm-lock.yaml in "x" is not used, because "x/a" has a package.json of its own without a lock file: packages are installed by npm; make a package-lock.json beside it (npm install --package-lock-only --workspaces=false)`}},
		{name: "a lock file of its own", dir: "a", files: map[string]string{"package-lock.json": "", "a/package.json": "", "a/package-lock.json": ""}},
		{name: "a lock file that is included", dir: "a", files: map[string]string{"package-lock.json": "", "a/package.json": ""}, include: []gitsource.Include{{Path: "package-lock.json"}}},
		{name: "no manifest", dir: "a", files: map[string]string{"package-lock.json": "", "a/handler.js": ""}},
		{name: "no lock file", dir: "a", files: map[string]string{"package.json": "", "a/package.json": ""}},
		{name: "a lock file beside", dir: "a", files: map[string]string{"b/package-lock.json": "", "a/package.json": ""}},
		{name: "the root is the base directory", files: map[string]string{"package.json": "", "a/package-lock.json": ""}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			r := newRepository(t)
			r.commit("main", r.files(row.files), "first")
			s := newGitServer(t, r, nil)
			c := newClient(t)
			for _, when := range []string{"at first", "from what is kept"} {
				got, err := c.Resolve(t.Context(), s.repo(), gitsource.Selection{Reference: "main", BaseDir: row.dir, Include: row.include}, time.Hour)
				g.Expect(err).NotTo(HaveOccurred(), when)
				g.Expect(got.Warnings).To(Equal(row.want), when)
			}
		})
	}
}

// TestAttributesAreNotApplied has a repository whose .gitattributes would change what a checkout or an archive gives.
func TestAttributesAreNotApplied(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r := newRepository(t)
	files := map[string]string{
		".gitattributes": "*.txt text eol=crlf\nsecret.js export-ignore\nid.js ident export-subst\nutf16.txt working-tree-encoding=UTF-16\n*.bin filter=lfs diff=lfs merge=lfs -text\n",
		"lines.txt":      "one\ntwo\n",
		"secret.js":      "here",
		"id.js":          "// $Id$ $Format:%H$\n",
		"utf16.txt":      "text\n",
		"real.bin":       "the file itself, as it may be before LFS was set up",
	}
	commit := r.commit("main", r.files(files), "first")
	tree, err := newClient(t).Fetch(t.Context(), newGitServer(t, r, nil).repo(), commit, gitsource.Selection{})
	g.Expect(err).NotTo(HaveOccurred())
	defer tree.Close()
	g.Expect(tree.Files).To(HaveLen(len(files)))
	for path, want := range files {
		g.Expect(content(t, tree, path)).To(Equal(want), fmt.Sprint(path))
	}
}
