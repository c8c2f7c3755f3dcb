package gitsource_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/gitfn/gitfn/gitsource"
)

// TestHostileTrees looks at each tree twice: Resolve says what trees can tell, Fetch also what needs content.
func TestHostileTrees(t *testing.T) {
	t.Parallel()
	link := func(target string) func(*repository) string {
		return func(r *repository) string {
			dir := r.tree("120000 " + r.blob(target) + " link")
			return r.tree("40000 "+dir+" dir", "100644 "+r.blob("x")+" file")
		}
	}
	named := func(names ...string) func(*repository) string {
		return func(r *repository) string {
			var rows []string
			for i, name := range names {
				rows = append(rows, "100644 "+r.blob(fmt.Sprint(i))+" "+name)
			}
			return r.tree(rows...)
		}
	}
	mode := func(mode string) func(*repository) string {
		return func(r *repository) string { return r.tree(mode + " " + r.blob("x") + " file") }
	}
	unsafe, large := gitsource.ErrUnsafeTree, gitsource.ErrTooLarge
	const gits, collide = "is Git's own", "are one name to disks that ignore case"
	rows := []struct {
		name    string
		tree    func(*repository) string
		err     error // nil: the tree is fine
		message string
		content bool // only content tells, so only Fetch does
	}{
		// Links.
		{name: "a link to a neighbour is fine", tree: link("neighbour")},
		{name: "a link up and inside is fine", tree: link("../file")},
		{name: "a link to the root is fine", tree: link("..")},
		{name: "a link to itself is fine: whoever opens it is told", tree: link("link")},
		{name: "a link to nothing inside is fine", tree: link("not/there")},
		{name: "a chain of links inside is fine", tree: func(r *repository) string {
			return r.tree("120000 "+r.blob("b/x")+" a", "120000 "+r.blob("c")+" b", "40000 "+r.files(map[string]string{"x": "x"})+" c")
		}},
		{name: "links in a circle are fine", tree: func(r *repository) string {
			return r.tree("120000 "+r.blob("b")+" a", "120000 "+r.blob("a")+" b")
		}},
		{name: "a link out of the tree", tree: link("../../file"), err: unsafe, message: `symbolic link "dir/link": its target is outside of the base directory`, content: true},
		{name: "a link out of the tree and in again", tree: link("../../dir/file"), err: unsafe, message: "outside of the base directory", content: true},
		{name: "an absolute link", tree: link("/etc/passwd"), err: unsafe, message: "is empty, absolute or no path", content: true},
		{name: "an absolute link as Windows writes it", tree: link(`\\host\share`), err: unsafe, message: "is empty, absolute or no path", content: true},
		{name: "a link with a zero byte", tree: link("file\x00/../../x"), err: unsafe, message: "is empty, absolute or no path", content: true},
		{name: "a link with a control character", tree: link("a\x1b[2Jb"), err: unsafe, message: "control character", content: true},
		{name: "a link that could leave through another", tree: link("other/../../file"), err: unsafe, message: "not plainly inside", content: true},
		{name: "a chain of links, of which the second would leave", tree: func(r *repository) string {
			return r.tree("120000 "+r.blob("b/../x")+" a", "120000 "+r.blob("c/d")+" b", "40000 "+r.tree("120000 "+r.blob("../..")+" d")+" c")
		}, err: unsafe, message: "symbolic link", content: true},
		{name: "a link into .git", tree: link("../.git/config"), err: unsafe, message: gits, content: true},
		{name: "a link into .Git", tree: link("../.Git"), err: unsafe, message: gits, content: true},
		{name: "a link to nowhere", tree: link(""), err: unsafe, message: "is empty", content: true},
		{name: "a link longer than any path", tree: link(strings.Repeat("a/", 3000)), err: unsafe, message: "a target of 6000 bytes", content: true},

		// Names that lead elsewhere.
		{name: "a file named ..", tree: named(".."), err: unsafe, message: "leads elsewhere"},
		{name: "a file named .", tree: named("."), err: unsafe, message: "leads elsewhere"},
		{name: "a file without a name, which git's own server does not send", tree: named(""), err: gitsource.ErrUnavailable},
		{name: "a file with a slash", tree: named("../../etc/passwd"), err: unsafe, message: "slash"},
		{name: "an absolute file", tree: named("/etc/passwd"), err: unsafe, message: "slash"},
		{name: "a file with a backslash", tree: named(`..\x`), err: unsafe, message: "backslash"},
		{name: "a file with a control character", tree: named("a\x1b[2Jb"), err: unsafe, message: "control character"},
		{name: "a file with a control character of Unicode", tree: named("a\u0085b"), err: unsafe, message: "control character"},
		{name: "a name that is not UTF-8", tree: named("a\xff"), err: unsafe, message: "not UTF-8"},
		{name: "a name as long as may be is fine", tree: named(strings.Repeat("a", 255))},
		{name: "a name that is longer", tree: named(strings.Repeat("a", 256)), err: unsafe, message: "longer than 255 bytes"},
		{name: "a name that is much longer", tree: named(strings.Repeat("a", 100_000)), err: unsafe, message: "malformed"},

		// .git in disguise.
		{name: "a file named .git", tree: named(".git"), err: unsafe, message: gits},
		{name: "a file named .GiT", tree: named(".GiT"), err: unsafe, message: gits},
		{name: ".git by its short name", tree: named("GIT~1"), err: unsafe, message: gits},
		{name: ".git with a space", tree: named(".git "), err: unsafe, message: gits},
		{name: ".git with dots and spaces", tree: named(".git. . "), err: unsafe, message: gits},
		{name: ".git with a stream", tree: named(".git::$INDEX_ALLOCATION"), err: unsafe, message: gits},
		{name: ".git with a space and a stream", tree: named(".git ::$INDEX_ALLOCATION"), err: unsafe, message: gits},
		{name: ".git with a zero-width character", tree: named(".g\u200cit"), err: unsafe, message: gits},
		{name: ".git with marks of direction", tree: named("\u202e.git\u202c"), err: unsafe, message: gits},
		{name: "a directory named .git", tree: func(r *repository) string {
			return r.tree("40000 " + r.tree("100644 "+r.blob("x")+" config") + " .git")
		}, err: unsafe, message: gits},
		{name: "a .git further down", tree: func(r *repository) string {
			return r.tree("40000 " + r.tree("100644 "+r.blob("gitdir: ../..")+" .git") + " dir")
		}, err: unsafe, message: `in directory "dir": the name ".git"`},
		{name: "names that begin like it are fine", tree: named(".gitattributes", ".github", ".gitignore", ".gitmodules", "git")},
		{name: "names of Windows' devices are fine: nothing is unpacked there", tree: named("aux.js", "con", "nul")},

		// Names that some disks take for one.
		{name: "names that differ by case", tree: named("README", "readme"), err: unsafe, message: collide},
		{name: "names that differ by case in other scripts", tree: named("ÄRGER", "ärger"), err: unsafe, message: collide},
		{name: "names that differ by the form of a letter", tree: named("μικρός", "μικρόσ"), err: unsafe, message: collide},
		{name: "names that differ by how a letter is composed", tree: named("cafe\u0301", "café"), err: unsafe, message: collide},
		{name: "names that differ by both", tree: named("CAFE\u0301", "café"), err: unsafe, message: collide},
		{name: "names that differ by what cannot be seen", tree: named("ab", "a\u200db"), err: unsafe, message: collide},
		{name: "one name twice", tree: func(r *repository) string {
			return r.tree("100644 "+r.blob("1")+" a", "120000 "+r.blob("..")+" a")
		}, err: unsafe, message: collide},
		{name: "a file and a directory of one name", tree: func(r *repository) string {
			return r.tree("120000 "+r.blob("/etc")+" a", "40000 "+r.files(map[string]string{"passwd": "x"})+" a")
		}, err: unsafe, message: collide},
		{name: "directories that differ by case", tree: func(r *repository) string {
			dir := r.files(map[string]string{"x": "x"})
			return r.tree("40000 "+dir+" A", "40000 "+dir+" a")
		}, err: unsafe, message: collide},
		{name: "names in many scripts are fine", tree: named("größe", "größe2", "日本語", "👩\u200d💻.js")},

		// Rows that Git would not write.
		{name: "rows that are not in order", tree: named("b", "a"), err: unsafe, message: "is not in Git's order"},
		{name: "permissions that Git would not write are normalised", tree: mode("104755")},
		{name: "a kind that Git does not have", tree: mode("140000"), err: unsafe, message: `"file" has the unknown mode 140000`},
		{name: "no kind", tree: mode("644"), err: unsafe, message: `"file" has the unknown mode 644`},
		{name: "a tree that is no tree, which git's own server does not send", tree: func(r *repository) string {
			return r.run("garbage", "hash-object", "-w", "--literally", "-t", "tree", "--stdin")
		}, err: gitsource.ErrUnavailable},
		{name: "a blob in the place of a directory, which git's own server does not send", tree: func(r *repository) string {
			return r.tree("40000 " + r.blob("x") + " dir")
		}, err: gitsource.ErrUnavailable},

		// What is not a file of the commit.
		{name: "a submodule", tree: func(r *repository) string {
			return r.tree("160000 " + r.commit("sub", r.files(nil), "sub") + " vendor")
		}, err: unsafe, message: `"vendor" is a submodule; set submodules to true`},
		{name: "a pointer of Git LFS", tree: func(r *repository) string {
			return r.tree("100644 " + r.blob("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12345\n") + " model.bin")
		}, err: unsafe, message: `"model.bin" is a Git LFS pointer`, content: true},

		// Sizes.
		{name: "directories without end", tree: func(r *repository) string {
			tree := r.tree("100644 " + r.blob("x") + " f")
			for range 12 {
				tree = r.tree("40000 " + tree + " d")
			}
			return tree
		}, err: large, message: "directories are more than 10 deep"},
		{name: "a bomb of directories", tree: func(r *repository) string {
			tree := r.tree("100644 " + r.blob("x") + " f")
			for range 9 {
				tree = r.tree("40000 "+tree+" a", "40000 "+tree+" b", "40000 "+tree+" c", "40000 "+tree+" d")
			}
			return tree
		}, err: large, message: "more than 1000 files and directories"},
		{name: "a bomb of directories without files", tree: func(r *repository) string {
			tree := r.tree()
			for range 9 {
				tree = r.tree("40000 "+tree+" a", "40000 "+tree+" b", "40000 "+tree+" c", "40000 "+tree+" d")
			}
			return tree
		}, err: large, message: "more than 1000 files and directories"},
		{name: "a directory that is too wide", tree: func(r *repository) string {
			blob, rows := r.blob("x"), make([]string, 1001)
			for i := range rows {
				rows[i] = fmt.Sprintf("100644 %s f%04d", blob, i)
			}
			return r.tree(rows...)
		}, err: large, message: "more than 1000 files and directories"},
		{name: "a file that is too large", tree: func(r *repository) string {
			return r.tree("100644 " + r.blob(strings.Repeat("x", 10_001)) + " large")
		}, err: large, content: true},
		{name: "files that are too large together", tree: func(r *repository) string {
			var rows []string
			for i := range 9 {
				rows = append(rows, fmt.Sprintf("100644 %s f%d", r.blob(strings.Repeat(fmt.Sprint(i), 9000)), i))
			}
			return r.tree(rows...)
		}, err: large, message: "its files have more than 50000 bytes", content: true},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			r := newRepository(t)
			commit := r.commit("main", row.tree(r), "hostile")
			c := newClient(t, func(o *gitsource.Options) {
				o.Limits = gitsource.Limits{Depth: 10, Files: 1000, FileBytes: 10_000, TotalBytes: 50_000}
				if row.content || row.err == nil {
					return
				}
				o.Limits.FileBytes = 1 << 20 // a tree may be longer than such a file
			})
			s := newGitServer(t, r, nil)
			_, err := c.Resolve(t.Context(), s.repo(), gitsource.Selection{Reference: "main"}, time.Hour)
			if row.err == nil || row.content {
				g.Expect(err).NotTo(HaveOccurred())
			} else {
				g.Expect(err).To(MatchError(row.err))
				g.Expect(err).To(MatchError(ContainSubstring(row.message)))
			}
			tree, err := c.Fetch(t.Context(), s.repo(), commit, gitsource.Selection{})
			if row.err == nil {
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(tree.Close()).To(Succeed())
				return
			}
			g.Expect(err).To(MatchError(row.err))
			g.Expect(err).To(MatchError(ContainSubstring(row.message)))
			g.Expect(err.Error()).NotTo(ContainSubstring("\x1b"))
			g.Expect(len(err.Error())).To(BeNumerically("<", 600))
		})
	}
}

// nested is trees in one another, made by one process of git.
func (r *repository) nested(depth int) string {
	var stream bytes.Buffer
	stream.WriteString("commit refs/heads/nested\ncommitter Ada <ada@example.org> 1700000000 +0000\ndata 0\n")
	fmt.Fprintf(&stream, "M 100644 inline %sf\ndata 1\nx\n", strings.Repeat("d/", depth))
	r.run(stream.String(), "fast-import", "--quiet")
	return r.run("", "rev-parse", "refs/heads/nested")
}

// TestDepthIsBounded has git serve what it refuses by default.
func TestDepthIsBounded(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r := newRepository(t)
	r.config("core.maxTreeDepth", "20000")
	commit := r.nested(10_000)
	s := newGitServer(t, r, nil)
	c := newClient(t)
	for _, wanted := range []gitsource.Selection{{}, {BaseDir: strings.Repeat("d/", 5000)}} {
		wanted.Reference = commit
		_, err := c.Resolve(t.Context(), s.repo(), wanted, 0)
		g.Expect(err).To(MatchError(gitsource.ErrTooLarge))
		g.Expect(err).To(MatchError(ContainSubstring("directories are more than 64 deep")))
		_, err = c.Fetch(t.Context(), s.repo(), commit, wanted)
		g.Expect(err).To(MatchError(gitsource.ErrTooLarge))
	}
	got, err := c.Resolve(t.Context(), s.repo(), gitsource.Selection{Reference: commit, BaseDir: strings.Repeat("d/", 9950)}, 0)
	g.Expect(err).NotTo(HaveOccurred(), "what is not wanted may be as deep as it likes")
	g.Expect(got.Tree).NotTo(BeEmpty())
}

// TestABombOfPathsEnds has 60 trees that name 16^60 files.
func TestABombOfPathsEnds(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r := newRepository(t)
	tree := r.tree("100644 " + r.blob("x") + " f")
	for range 60 {
		var rows []string
		for i := range 16 {
			rows = append(rows, fmt.Sprintf("40000 %s %x", tree, i))
		}
		tree = r.tree(rows...)
	}
	commit := r.commit("main", tree, "bomb")
	s := newGitServer(t, r, nil)
	c := newClient(t)
	_, err := c.Resolve(t.Context(), s.repo(), gitsource.Selection{Reference: "main"}, time.Hour)
	g.Expect(err).To(MatchError(ContainSubstring("there are more than 20000 files and directories")))
	_, err = c.Fetch(t.Context(), s.repo(), commit, gitsource.Selection{})
	g.Expect(err).To(MatchError(gitsource.ErrTooLarge))
}

// TestNeighboursOfTheBaseDirectoryDoNotCount has a directory among very many, some of them hostile.
func TestNeighboursOfTheBaseDirectoryDoNotCount(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r := newRepository(t)
	dir, blob := r.files(map[string]string{"handler.js": "x"}), r.blob("x")
	rows := []string{"100644 " + blob + " .git", "40000 " + dir + " a"}
	for i := range 25_000 {
		rows = append(rows, fmt.Sprintf("100644 %s f%05d", blob, i))
	}
	commit := r.commit("main", r.tree(rows...), "wide")
	s := newGitServer(t, r, nil)
	c := newClient(t)
	got, err := c.Resolve(t.Context(), s.repo(), gitsource.Selection{Reference: "main", BaseDir: "a"}, time.Hour)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got.Tree).To(Equal(dir))
	tree, err := c.Fetch(t.Context(), s.repo(), commit, gitsource.Selection{BaseDir: "a"})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(tree.Close()).To(Succeed())
	_, err = c.Resolve(t.Context(), s.repo(), gitsource.Selection{Reference: "main"}, time.Hour)
	g.Expect(err).To(MatchError(ContainSubstring("there are more than 20000 files and directories")))
}

// TestARefusedTreeIsReadOnce asks for one that costs much to read.
func TestARefusedTreeIsReadOnce(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r := newRepository(t)
	first := r.commit("main", r.tree("100644 "+r.blob("x")+" .GIT"), "hostile")
	s := newGitServer(t, r, nil)
	c := newClient(t)
	for range 3 {
		_, err := c.Resolve(t.Context(), s.repo(), gitsource.Selection{Reference: "main"}, 0)
		g.Expect(err).To(MatchError(gitsource.ErrUnsafeTree))
	}
	g.Expect(s.count("want ")).To(Equal(1))
	r.commit("main", r.files(map[string]string{"a": "a"}), "mended", first)
	_, err := c.Resolve(t.Context(), s.repo(), gitsource.Selection{Reference: "main"}, 0)
	g.Expect(err).NotTo(HaveOccurred())
}
