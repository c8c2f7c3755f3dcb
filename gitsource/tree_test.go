package gitsource_test

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/gitfn/gitfn/gitsource"
)

func TestNewTreeHasTheIDThatGitGives(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name  string
		files map[string]string
	}{
		{name: "nothing", files: map[string]string{}},
		{name: "one file", files: map[string]string{"handler.js": "module.exports = {}"}},
		{name: "two strings of an inline source", files: map[string]string{"handler.py": "def main(): pass\n", "requirements.txt": ""}},
		{name: "nested directories", files: map[string]string{"src/a.js": "a", "src/lib/b.js": "b", "package.json": "{}"}},
		{name: "names that sort apart from directories", files: map[string]string{"a.b": "1", "a/x": "2", "a-b": "3", "a0": "4", "ab/c": "5"}},
		{name: "names in other scripts", files: map[string]string{"größe/日本語.js": "x", "sp ace": "y"}},
		{name: "a large file", files: map[string]string{"large": strings.Repeat("0123456789", 100_000)}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			r := newRepository(t)
			tree, err := gitsource.NewTree(row.files)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(tree.ID).To(Equal(r.files(row.files)))
			paths := []string{}
			for _, file := range tree.Files {
				g.Expect(content(t, tree, file.Path)).To(Equal(row.files[file.Path]))
				g.Expect(file.Size).To(BeEquivalentTo(len(row.files[file.Path])))
				paths = append(paths, file.Path)
			}
			g.Expect(paths).To(HaveLen(len(row.files)))
			g.Expect(paths).To(Equal(slices.AppendSeq([]string{}, slices.Values(slices.Sorted(maps.Keys(row.files))))))
			_, err = tree.Open("other")
			g.Expect(err).To(MatchError(fs.ErrNotExist))
			g.Expect(tree.Close()).To(Succeed())
		})
	}
}

func TestNewTreeRefusesUnsafeNames(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"", "/a", "a/", "a//b", "./a", "../a", "a/../b", ".git/config", "a/.GIT/x", ".git", "GIT~1/x", ".git .", ".g\u200cit", ".git::$INDEX_ALLOCATION", "a\\b", "a\nb", "a\x00b", "\xff", strings.Repeat("a", 256)} {
		t.Run(fmt.Sprintf("%.40q", path), func(t *testing.T) {
			t.Parallel()
			_, err := gitsource.NewTree(map[string]string{path: "x"})
			NewWithT(t).Expect(err).To(MatchError(gitsource.ErrUnsafeTree))
		})
	}
	for name, files := range map[string]map[string]string{
		"a file and a directory":       {"a": "1", "a/b": "2"},
		"names that differ by case":    {"Readme": "1", "README": "2"},
		"folders that differ by case":  {"Lib/a": "1", "lib/b": "2"},
		"a file and a folder, by case": {"LIB": "1", "lib/b": "2"},
		"a pointer of Git LFS":         {"model.bin": "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := gitsource.NewTree(files)
			NewWithT(t).Expect(err).To(MatchError(gitsource.ErrUnsafeTree))
		})
	}
}

func TestFetchRefusesHostileTrees(t *testing.T) {
	t.Parallel()
	link := func(target string) func(*repository) string {
		return func(r *repository) string {
			dir := r.tree("120000 " + r.blob(target) + " link")
			return r.tree("40000 "+dir+" dir", "100644 "+r.blob("x")+" file")
		}
	}
	named := func(mode, name string) func(*repository) string {
		return func(r *repository) string { return r.tree(mode + " " + r.blob("x") + " " + name) }
	}
	rows := []struct {
		name string
		tree func(*repository) string
		err  error // nil: the tree is fine
	}{
		{name: "a link to a neighbour is fine", tree: link("neighbour")},
		{name: "a link up and inside is fine", tree: link("../file")},
		{name: "a link to nothing inside is fine", tree: link("not/there")},
		{name: "a link out of the tree", tree: link("../../file"), err: gitsource.ErrUnsafeTree},
		{name: "an absolute link", tree: link("/etc/passwd"), err: gitsource.ErrUnsafeTree},
		{name: "a link that could leave through another", tree: link("other/../../file"), err: gitsource.ErrUnsafeTree},
		{name: "a link into .git", tree: link("../.git/config"), err: gitsource.ErrUnsafeTree},
		{name: "a link to nowhere", tree: link(""), err: gitsource.ErrUnsafeTree},
		{name: "a link longer than any path", tree: link(strings.Repeat("a/", 3000)), err: gitsource.ErrUnsafeTree},
		{name: "a file named ..", tree: named("100644", ".."), err: gitsource.ErrUnsafeTree},
		{name: "a file named .", tree: named("100644", "."), err: gitsource.ErrUnsafeTree},
		{name: "a file with a slash", tree: named("100644", "../../etc/passwd"), err: gitsource.ErrUnsafeTree},
		{name: "an absolute file", tree: named("100644", "/etc/passwd"), err: gitsource.ErrUnsafeTree},
		{name: "a file with a backslash", tree: named("100644", `..\x`), err: gitsource.ErrUnsafeTree},
		{name: "a file with a control character", tree: named("100644", "a\x1b[2Jb"), err: gitsource.ErrUnsafeTree},
		{name: "a file named .git", tree: named("100644", ".git"), err: gitsource.ErrUnsafeTree},
		{name: "a file named .GiT", tree: named("100644", ".GiT"), err: gitsource.ErrUnsafeTree},
		{name: "a file with an unknown mode", tree: named("140000", "socket"), err: gitsource.ErrUnsafeTree},
		{name: "a directory named .git", tree: func(r *repository) string {
			return r.tree("40000 " + r.tree("100644 "+r.blob("x")+" config") + " .git")
		}, err: gitsource.ErrUnsafeTree},
		{name: "names that differ by case", tree: func(r *repository) string {
			return r.tree("100644 "+r.blob("1")+" README", "100644 "+r.blob("2")+" readme")
		}, err: gitsource.ErrUnsafeTree},
		{name: "one name twice", tree: func(r *repository) string {
			return r.tree("100644 "+r.blob("1")+" a", "120000 "+r.blob("..")+" a")
		}, err: gitsource.ErrUnsafeTree},
		{name: "a submodule", tree: func(r *repository) string {
			return r.tree("160000 " + r.commit("sub", r.files(nil), "sub") + " vendor")
		}, err: gitsource.ErrUnsafeTree},
		{name: "a pointer of Git LFS", tree: func(r *repository) string {
			return r.tree("100644 " + r.blob("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12345\n") + " model.bin")
		}, err: gitsource.ErrUnsafeTree},
		{name: "a tree that is no tree, which git's own server does not send", tree: func(r *repository) string {
			return r.run("garbage", "hash-object", "-w", "--literally", "-t", "tree", "--stdin")
		}, err: gitsource.ErrUnavailable},
		{name: "directories without end", tree: func(r *repository) string {
			tree := r.tree("100644 " + r.blob("x") + " f")
			for range 12 {
				tree = r.tree("40000 " + tree + " d")
			}
			return tree
		}, err: gitsource.ErrTooLarge},
		{name: "a bomb of directories", tree: func(r *repository) string {
			tree := r.tree("100644 " + r.blob("x") + " f")
			for range 9 {
				tree = r.tree("40000 "+tree+" a", "40000 "+tree+" b", "40000 "+tree+" c", "40000 "+tree+" d")
			}
			return tree
		}, err: gitsource.ErrTooLarge},
		{name: "a file that is too large", tree: func(r *repository) string {
			return r.tree("100644 " + r.blob(strings.Repeat("x", 10_001)) + " large")
		}, err: gitsource.ErrTooLarge},
		{name: "files that are too large together", tree: func(r *repository) string {
			var rows []string
			for i := range 9 {
				rows = append(rows, fmt.Sprintf("100644 %s f%d", r.blob(strings.Repeat(fmt.Sprint(i), 9000)), i))
			}
			return r.tree(rows...)
		}, err: gitsource.ErrTooLarge},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			r := newRepository(t)
			commit := r.commit("main", row.tree(r), "hostile")
			c := newClient(t, func(o *gitsource.Options) {
				o.Limits = gitsource.Limits{Depth: 10, Files: 1000, FileBytes: 10_000, TotalBytes: 50_000}
			})
			s := newGitServer(t, r, nil)
			tree, err := c.Fetch(t.Context(), s.repo(), commit, gitsource.Selection{BaseDir: ""})
			if row.err == nil {
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(tree.Close()).To(Succeed())
				return
			}
			g.Expect(err).To(MatchError(row.err))
			g.Expect(err.Error()).NotTo(ContainSubstring("\x1b"))
		})
	}
}

func TestPacksAreBounded(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name  string
		files map[string]string
	}{
		{name: "a pack longer than its limit", files: map[string]string{"a": noise(40_000)}},
		{name: "an object that inflates", files: map[string]string{"a": strings.Repeat("a", 2_000_000)}},
	}
	for _, row := range rows {
		for _, way := range ways {
			t.Run(row.name+", "+way.name, func(t *testing.T) {
				t.Parallel()
				g := NewWithT(t)
				r := newRepository(t)
				for key, value := range way.config {
					r.config(key, value)
				}
				commit := r.commit("main", r.files(row.files), "bomb")
				c := newClient(t, func(o *gitsource.Options) {
					o.Limits = gitsource.Limits{PackBytes: 20_000, FileBytes: 1_000_000}
				})
				_, err := c.Fetch(t.Context(), newGitServer(t, r, way.before).repo(), commit, gitsource.Selection{BaseDir: ""})
				g.Expect(err).To(MatchError(gitsource.ErrTooLarge))
			})
		}
	}
}

// noise is text that does not compress well, the same each time.
func noise(length int) string {
	var b strings.Builder
	for x := uint32(1); b.Len() < length; {
		x = x*1664525 + 1013904223
		b.WriteByte(byte(x >> 24))
	}
	return b.String()
}
