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
	for _, path := range []string{"", "/a", "a/", "a//b", "./a", "../a", "a/../b", ".git/config", "a/.GIT/x", ".git", "GIT~1/x", ".git .", ".g\u200cit", ".git::$INDEX_ALLOCATION", ".git ::$INDEX_ALLOCATION", "a\\b", "a\nb", "a\x00b", "\xff", strings.Repeat("a", 256)} {
		t.Run(fmt.Sprintf("%.40q", path), func(t *testing.T) {
			t.Parallel()
			_, err := gitsource.NewTree(map[string]string{path: "x"})
			NewWithT(t).Expect(err).To(MatchError(gitsource.ErrUnsafeTree))
		})
	}
	for name, files := range map[string]map[string]string{
		"a file and a directory":        {"a": "1", "a/b": "2"},
		"names that differ by case":     {"Readme": "1", "README": "2"},
		"folders that differ by case":   {"Lib/a": "1", "lib/b": "2"},
		"a file and a folder, by case":  {"LIB": "1", "lib/b": "2"},
		"one name in two ways to write": {"caf\u00e9": "1", "cafe\u0301": "2"},
		"a pointer of Git LFS":          {"model.bin": "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := gitsource.NewTree(files)
			NewWithT(t).Expect(err).To(MatchError(gitsource.ErrUnsafeTree))
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
