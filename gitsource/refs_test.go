package gitsource_test

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/gitfn/gitfn/gitsource"
)

func TestReferencesThatAreNoneSayWhy(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	commit := r.commit("main", r.files(map[string]string{"fn.js": "1"}), "first")
	r.run("", "branch", "team/main", commit)
	tree, blob := r.run("", "rev-parse", "main^{tree}"), r.run("", "rev-parse", "main:fn.js")
	r.run("", "tag", "-a", "of-tree", "-m", "a tree", tree)
	r.run("", "tag", "of-blob", blob)
	r.run("", "tag", "-a", "annotated", "-m", "one", commit)
	tag := r.run("", "rev-parse", "refs/tags/annotated")
	r.run("", "update-ref", "refs/notes/tree", tree)
	s := newGitServer(t, r, nil)
	c := newClient(t)
	rows := []struct{ name, reference, words string }{
		{name: "nothing", reference: "", words: "it is empty; name a branch, a tag or a commit"},
		{name: "a name that is not there", reference: "gone", words: `resolve reference "gone": no branch or tag of that exact name`},
		{name: "the end of a name", reference: "main/x", words: "no branch or tag of that exact name"},
		{name: "the last part of a name", reference: "feature", words: "no branch or tag of that exact name"},
		{name: "a full name that is not there", reference: "refs/heads/gone", words: "no branch or tag of that exact name"},
		{name: "a folder of names", reference: "refs/heads/", words: "a name does not end in a slash"},
		{name: "a folder of branches", reference: "team/", words: "a name does not end in a slash"},
		{name: "the beginning of a commit", reference: commit[:12], words: "a commit needs all 40 digits of its id"},
		{name: "a commit of another repository", reference: strings.Repeat("ab", 20), words: "the server does not have it, or gives only what a branch or tag leads to"},
		{name: "an expression", reference: "main~1", words: "Git allows no such name"},
		{name: "a pattern", reference: "release/*", words: "Git allows no such name"},
		{name: "a line of the protocol", reference: "main\n0000", words: "Git allows no such name"},
		{name: "a name that is too long", reference: strings.Repeat("a", 2000), words: "Git allows no such name"},
		{name: "the id of a tree", reference: tree, words: "it is a tree; a reference must lead to a commit"},
		{name: "the id of a blob", reference: blob, words: "it is a blob; a reference must lead to a commit"},
		{name: "the id of a tag", reference: tag, words: "it is a tag; a reference must lead to a commit"},
		{name: "the tag of a tree", reference: "of-tree", words: "it is a tree; a reference must lead to a commit"},
		{name: "the tag of a blob", reference: "of-blob", words: "it is a blob; a reference must lead to a commit"},
		{name: "a ref of a tree", reference: "refs/notes/tree", words: "it is a tree; a reference must lead to a commit"},
	}
	for _, row := range rows {
		g := NewWithT(t)
		_, err := c.Resolve(t.Context(), s.repo(), gitsource.Selection{Reference: row.reference}, time.Hour)
		g.Expect(err).To(MatchError(gitsource.ErrRefNotFound), row.name)
		g.Expect(err).To(MatchError(ContainSubstring(row.words)), row.name)
	}
	got, err := c.Resolve(t.Context(), s.repo(), gitsource.Selection{Reference: strings.ToUpper(commit)}, 0)
	g := NewWithT(t)
	g.Expect(err).NotTo(HaveOccurred(), "none of them stands in the way of another")
	g.Expect(got.Commit).To(Equal(commit))
	g.Expect(got.String()).To(Equal("sha1:" + commit))
}

func TestABranchAndATagOfOneName(t *testing.T) {
	t.Parallel()
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			r := newRepository(t)
			for key, value := range way.config {
				r.config(key, value)
			}
			branch := r.commit("release/1.0", r.files(map[string]string{"fn.js": "1"}), "branch")
			tagged := r.commit("main", r.files(map[string]string{"fn.js": "2"}), "tag")
			r.run("", "tag", "-a", "release/1.0", "-m", "one", tagged)
			r.run("", "tag", "only", tagged)
			s := newGitServer(t, r, way.before)
			c := newClient(t)
			rows := []struct {
				reference, ref, commit string
				warnings               []string
			}{
				{reference: "release/1.0", ref: "refs/heads/release/1.0", commit: branch, warnings: []string{
					"there is a branch and a tag named release/1.0: the branch is followed; write refs/tags/release/1.0 for the tag"}},
				{reference: "refs/heads/release/1.0", ref: "refs/heads/release/1.0", commit: branch},
				{reference: "refs/tags/release/1.0", ref: "refs/tags/release/1.0", commit: tagged},
				{reference: "only", ref: "refs/tags/only", commit: tagged},
				{reference: "main", ref: "refs/heads/main", commit: tagged},
			}
			for _, row := range rows {
				got, err := c.Resolve(t.Context(), s.repo(), gitsource.Selection{Reference: row.reference}, time.Hour)
				g.Expect(err).NotTo(HaveOccurred(), row.reference)
				g.Expect(got.Ref).To(Equal(row.ref), row.reference)
				g.Expect(got.Commit).To(Equal(row.commit), row.reference)
				g.Expect(got.Warnings).To(Equal(row.warnings), row.reference)
			}
		})
	}
}

func TestTagsOfTagsArePeeled(t *testing.T) {
	t.Parallel()
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			r := newRepository(t)
			for key, value := range way.config {
				r.config(key, value)
			}
			commit := r.commit("main", r.files(map[string]string{"fn.js": "1"}), "first")
			r.run("", "tag", "-a", "inner", "-m", "one", commit)
			r.run("", "tag", "-a", "outer", "-m", "two", r.run("", "rev-parse", "inner"))
			s := newGitServer(t, r, way.before)
			got, err := newClient(t).Resolve(t.Context(), s.repo(), gitsource.Selection{Reference: "outer"}, 0)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got.Commit).To(Equal(commit))
			g.Expect(got.Ref).To(Equal("refs/tags/outer"))
		})
	}
}

func TestCommitsThatNoBranchLeadsTo(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		way   int // of ways
		words string
	}{
		{way: 0}, // protocol v2 gives whatever it has
		{way: 1},
		{way: 2, words: "the server does not have it, or gives only what a branch or tag leads to"},
		{way: 3},
	} {
		way := ways[row.way]
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			r := newRepository(t)
			for key, value := range way.config {
				r.config(key, value)
			}
			left := r.commit("main", r.files(map[string]string{"fn.js": "1"}), "first")
			tip := r.commit("main", r.files(map[string]string{"fn.js": "2"}), "instead of it")
			s := newGitServer(t, r, way.before)
			c := newClient(t)
			got, err := c.Resolve(t.Context(), s.repo(), gitsource.Selection{Reference: tip}, 0)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got.Commit).To(Equal(tip))
			got, err = c.Resolve(t.Context(), s.repo(), gitsource.Selection{Reference: left}, 0)
			if row.words != "" {
				g.Expect(err).To(And(MatchError(gitsource.ErrRefNotFound), MatchError(ContainSubstring(row.words))))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got.Commit).To(Equal(left))
		})
	}
}

func TestABranchIsDeletedAndComesBack(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r, first := monorepo(t, 1)
	r.run("", "branch", "feature/x", first)
	s := newGitServer(t, r, nil)
	c := newClient(t)
	resolve := func() (gitsource.Revision, error) {
		return c.Resolve(t.Context(), s.repo(), gitsource.Selection{Reference: "feature/x", BaseDir: "f0"}, 0)
	}
	_, err := resolve()
	g.Expect(err).NotTo(HaveOccurred())
	r.run("", "branch", "-D", "feature/x")
	_, err = resolve()
	g.Expect(err).To(MatchError(gitsource.ErrRefNotFound))
	g.Expect(err).To(MatchError(HaveSuffix(`resolve reference "feature/x": no branch or tag of that exact name; it is gone: it led to commit ` + first)))
	r.run("", "tag", "feature/x", first)
	got, err := resolve()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got.Ref).To(Equal("refs/tags/feature/x"), "now the name is a tag's")
}

func TestABranchIsForcePushed(t *testing.T) {
	t.Parallel()
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			r := newRepository(t)
			for key, value := range way.config {
				r.config(key, value)
			}
			files := map[string]string{"a/fn.js": "1", "b/fn.js": "2"}
			root := r.commit("main", r.files(files), "root")
			old := r.commit("main", r.files(map[string]string{"a/fn.js": "bad", "b/fn.js": "2"}), "bad", root)
			s := newGitServer(t, r, way.before)
			c := newClient(t)
			resolve := func() gitsource.Revision {
				t.Helper()
				got, err := c.Resolve(t.Context(), s.repo(), gitsource.Selection{Reference: "main", BaseDir: "a"}, 0)
				g.Expect(err).NotTo(HaveOccurred())
				return got
			}
			g.Expect(resolve().Commit).To(Equal(old))
			amended := r.commit("main", r.files(map[string]string{"a/fn.js": "good", "b/fn.js": "2"}), "good", root)
			r.run("", "gc", "--quiet", "--prune=now")
			g.Expect(r.run("", "cat-file", "--batch-all-objects", "--batch-check")).NotTo(ContainSubstring(old), "the server has forgotten the commit that the mirror is told from")
			g.Expect(resolve().Commit).To(Equal(amended))
			unrelated := r.commit("main", r.files(map[string]string{"a/fn.js": "anew"}), "another beginning")
			r.run("", "gc", "--quiet", "--prune=now")
			got := resolve()
			g.Expect(got.Commit).To(Equal(unrelated))
			tree, err := c.Fetch(t.Context(), s.repo(), got.Commit, gitsource.Selection{BaseDir: "a"})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(content(t, tree, "fn.js")).To(Equal("anew"))
			g.Expect(tree.Close()).To(Succeed())
			_, err = c.Fetch(t.Context(), s.repo(), strings.Repeat("0", 39)+"1", gitsource.Selection{BaseDir: "a"})
			g.Expect(err).To(MatchError(gitsource.ErrRefNotFound))
		})
	}
}

func TestSSHGivesWhatOnlyATagLeadsTo(t *testing.T) {
	t.Parallel()
	for _, way := range sshWays {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			r := newRepository(t)
			for key, value := range way.config {
				r.config(key, value)
			}
			jane := newOpenPGP(t, "Jane")
			tree := r.files(map[string]string{"fn.js": "1"})
			tagged := r.write("commit", rawCommit(tree), "refs/heads/main")
			r.write("tag", signedTag(t, rawTag(tagged, "commit", "v1.0.0"), withOpenPGP(jane)), "refs/tags/v1.0.0")
			left := r.commit("main", r.files(map[string]string{"fn.js": "2"}), "left")
			r.commit("main", r.files(map[string]string{"fn.js": "3"}), "the tip")
			s := newSSHD(t, way.sshd...)
			c := newClient(t)
			got, err := c.Resolve(t.Context(), s.repo(r), gitsource.Selection{Reference: "semver:^1",
				Verification: gitsource.Verification{Mode: gitsource.VerifyTag, Keys: [][]byte{publicKey(t, jane)}}}, 0)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got.Ref).To(Equal("refs/tags/v1.0.0"))
			g.Expect(got.Commit).To(Equal(tagged))
			g.Expect(got.Signer).To(HavePrefix("OpenPGP " + jane.PrimaryKey.KeyIdString()))
			files, err := newClient(t).Fetch(t.Context(), s.repo(r), tagged, gitsource.Selection{})
			g.Expect(err).NotTo(HaveOccurred(), "a build knows the commit only")
			g.Expect(files.ID).To(Equal(tree))
			g.Expect(files.Close()).To(Succeed())
			_, err = c.Resolve(t.Context(), s.repo(r), gitsource.Selection{Reference: left}, 0)
			if strings.HasPrefix(way.name, "protocol v0, ") {
				g.Expect(err).To(And(MatchError(gitsource.ErrRefNotFound), MatchError(ContainSubstring("gives only what a branch or tag leads to"))))
			} else {
				g.Expect(err).NotTo(HaveOccurred())
			}
		})
	}
}
