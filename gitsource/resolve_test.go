package gitsource_test

import (
	"io"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/gitfn/gitfn/gitsource"
)

func TestResolveFindsEveryKindOfReference(t *testing.T) {
	t.Parallel()
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			r := newRepository(t)
			for key, value := range way.config {
				r.config(key, value)
			}
			first := r.commit("main", r.files(map[string]string{"a/fn.js": "1", "b/fn.js": "2"}), "first")
			second := r.commit("team/feature", r.files(map[string]string{"a/fn.js": "1", "b/fn.js": "3"}), "second\n\nbody", first)
			r.run("", "tag", "-a", "v1", "-m", "one", first)
			r.run("", "tag", "light", second)
			r.run("", "tag", "main", second)
			r.run("", "branch", "feature/x", first)
			s := newGitServer(t, r, way.before)
			c := newClient(t)

			rows := []struct {
				name, reference, dir, ref, commit string
				err                               error
			}{
				{name: "a branch wins over a tag of its name", reference: "main", ref: "refs/heads/main", commit: first},
				{name: "a full name is exact", reference: "refs/tags/main", ref: "refs/tags/main", commit: second},
				{name: "a name with slashes is exact", reference: "team/feature", ref: "refs/heads/team/feature", commit: second},
				{name: "an annotated tag is peeled", reference: "v1", ref: "refs/tags/v1", commit: first},
				{name: "a light tag is a commit", reference: "light", ref: "refs/tags/light", commit: second},
				{name: "HEAD names the default branch", reference: "HEAD", ref: "refs/heads/main", commit: first},
				{name: "a commit at a tip is verified", reference: second, commit: second},
				{name: "a base directory has a tree of its own", reference: "main", dir: "/a/", ref: "refs/heads/main", commit: first},
				{name: "the beginning of a name is not found", reference: "feature", err: gitsource.ErrRefNotFound},
				{name: "an abbreviated commit is not found", reference: first[:10], err: gitsource.ErrRefNotFound},
				{name: "a commit that is not there is not found", reference: "0123456789012345678901234567890123456789", err: gitsource.ErrRefNotFound},
				{name: "a tree is no commit", reference: r.run("", "rev-parse", first+"^{tree}"), err: gitsource.ErrRefNotFound},
				{name: "a directory that is not there", reference: "main", dir: "c", err: gitsource.ErrBaseDirNotFound},
				{name: "a file is no directory", reference: "main", dir: "a/fn.js", err: gitsource.ErrBaseDirNotFound},
			}
			for _, row := range rows {
				got, err := c.Resolve(t.Context(), s.repo(), gitsource.Selection{Reference: row.reference, BaseDir: row.dir}, time.Hour)
				if row.err != nil {
					g.Expect(err).To(MatchError(row.err), row.name)
					continue
				}
				g.Expect(err).NotTo(HaveOccurred(), row.name)
				g.Expect(got.Reference).To(Equal(row.reference), row.name)
				g.Expect(got.Ref).To(Equal(row.ref), row.name)
				g.Expect(got.Commit).To(Equal(row.commit), row.name)
				g.Expect(got.Tree).To(Equal(r.run("", "rev-parse", row.commit+":"+trimSlashes(row.dir))), row.name)
				g.Expect(got.Author).To(Equal("Ada Lovelace"))
				g.Expect(got.Subject).To(BeElementOf("first", "second"))
				g.Expect(got.Committed.Unix()).To(Equal(int64(1700000000)))
			}
		})
	}
}

func trimSlashes(dir string) string {
	if dir == "" {
		return ""
	}
	return dir[1 : len(dir)-1]
}

func TestFetchReturnsTheFilesOfACommit(t *testing.T) {
	t.Parallel()
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			r := newRepository(t)
			for key, value := range way.config {
				r.config(key, value)
			}
			run := r.tree("100755 "+r.blob("#!/bin/sh\n")+" run.sh", "120000 "+r.blob("../src/fn.js")+" start.js")
			src := r.tree("100644 " + r.blob("hello") + " fn.js")
			app := r.tree("40000 "+run+" bin", "100644 "+r.blob("{}")+" package.json", "40000 "+src+" src")
			commit := r.commit("main", r.tree("100644 "+r.blob("elsewhere")+" README", "40000 "+app+" app"), "first")
			s := newGitServer(t, r, way.before)

			tree, err := newClient(t).Fetch(t.Context(), s.repo(), commit, gitsource.Selection{BaseDir: "app"})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(tree.ID).To(Equal(app))
			g.Expect(tree.Files).To(Equal([]gitsource.File{
				{Path: "bin/run.sh", Size: 10, Executable: true},
				{Path: "bin/start.js", Size: 12, Symlink: "../src/fn.js"},
				{Path: "package.json", Size: 2},
				{Path: "src/fn.js", Size: 5},
			}))
			g.Expect(content(t, tree, "src/fn.js")).To(Equal("hello"))
			g.Expect(tree.Close()).To(Succeed())
		})
	}
}

func content(t *testing.T, tree *gitsource.Tree, path string) string {
	t.Helper()
	g := NewWithT(t)
	file, err := tree.Open(path)
	g.Expect(err).NotTo(HaveOccurred())
	defer file.Close()
	data, err := io.ReadAll(file)
	g.Expect(err).NotTo(HaveOccurred())
	return string(data)
}
