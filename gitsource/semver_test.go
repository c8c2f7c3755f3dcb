package gitsource_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/gitfn/gitfn/gitsource"
)

func TestARangeIsItsHighestTag(t *testing.T) {
	t.Parallel()
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			r := newRepository(t)
			for key, value := range way.config {
				r.config(key, value)
			}
			commits := map[string]string{}
			for _, name := range []string{"v1.2.0", "1.4.2", "v1.10.0", "v1.11.0-rc.1", "v2.0.0", "v2.1.0+build.9", "v2.1.0+build.10", "v3.0.0-beta.1", "v4", "4.1", "2026-11-21", "nightly", "pkg/v9.0.0"} {
				commits[name] = r.commit("main", r.files(map[string]string{"fn.js": name}), name)
				r.run("", "tag", "-a", name, "-m", name)
			}
			r.run("", "branch", "v1.99.0", commits["nightly"])
			s := newGitServer(t, r, way.before)
			c := newClient(t)
			rows := []struct{ name, reference, tag, words string }{
				{name: "the highest version in the range wins, not the last name", reference: "semver:^1.4", tag: "v1.10.0"},
				{name: "a space is an and", reference: "semver:>=1.2 <2", tag: "v1.10.0"},
				{name: "a comma is an and", reference: "semver:>=1.2, <1.5", tag: "1.4.2"},
				{name: "two bars are an or", reference: "semver:~1.2 || ~2.0", tag: "v2.0.0"},
				{name: "a star is every release", reference: "semver:*", tag: "v2.1.0+build.10"},
				{name: "a space may follow the colon", reference: "semver: 1.2.x", tag: "v1.2.0"},
				{name: "a prerelease counts where the range names one", reference: "semver:>=3.0.0-0", tag: "v3.0.0-beta.1"},
				{name: "a prerelease does not count elsewhere", reference: "semver:>=3", words: "none of the repository's 13 tags is in this range; the highest is v3.0.0-beta.1"},
				{name: "a tag of one or two numbers is no version", reference: "semver:4.x", words: "the highest is v3.0.0-beta.1"},
				{name: "what is no range is refused", reference: "semver:latest", words: "write for example semver:^1.4"},
				{name: "a range without end is refused", reference: "semver:" + strings.Repeat(">1 ", 200), words: "at most 256 characters"},
				{name: "an empty range is refused", reference: "semver:", words: "no range of versions"},
			}
			for _, row := range rows {
				got, err := c.Resolve(t.Context(), s.repo(), gitsource.Selection{Reference: row.reference}, time.Hour)
				if row.words != "" {
					g.Expect(err).To(MatchError(gitsource.ErrRefNotFound), row.name)
					g.Expect(err).To(MatchError(ContainSubstring(row.words)), row.name)
					continue
				}
				g.Expect(err).NotTo(HaveOccurred(), row.name)
				g.Expect(got.Ref).To(Equal("refs/tags/"+row.tag), row.name)
				g.Expect(got.Commit).To(Equal(commits[row.tag]), row.name)
				g.Expect(got.String()).To(Equal(row.tag+"@sha1:"+commits[row.tag]), row.name)
			}
		})
	}
}

func TestARepositoryWithoutVersions(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r, _ := monorepo(t, 1)
	s := newGitServer(t, r, nil)
	resolve := func() error {
		_, err := newClient(t).Resolve(t.Context(), s.repo(), gitsource.Selection{Reference: "semver:^1"}, 0)
		return err
	}
	g.Expect(resolve()).To(And(MatchError(gitsource.ErrRefNotFound), MatchError(ContainSubstring("the repository has no tags"))))
	r.run("", "tag", "latest", "main")
	g.Expect(resolve()).To(And(MatchError(gitsource.ErrRefNotFound), MatchError(ContainSubstring("none of the repository's 1 tags is a version such as v1.2.3"))))
}

func TestRangesAndNamesShareOneRequest(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r, first := monorepo(t, 1)
	r.run("", "tag", "v1.0.0", first)
	s := newGitServer(t, r, nil)
	c := newClient(t, withClock(newClock()))
	resolve := func(reference string) string {
		t.Helper()
		got, err := c.Resolve(t.Context(), s.repo(), gitsource.Selection{Reference: reference}, time.Minute)
		g.Expect(err).NotTo(HaveOccurred())
		return got.Commit
	}
	g.Expect(resolve("semver:^1")).To(Equal(first))
	second := r.commit("main", r.files(map[string]string{"fn.js": "2"}), "second", first)
	r.run("", "tag", "v1.1.0", second)
	g.Expect(resolve("semver:^1")).To(Equal(first), "nobody said that there is another")
	g.Expect(s.count("ls-refs")).To(Equal(1), "an answer to a range is used again")
	g.Expect(resolve("main")).To(Equal(second))
	g.Expect(s.count("ls-refs")).To(Equal(2))
	g.Expect(resolve("semver:^1")).To(Equal(second), "the request for the branch asked for the range too")
	g.Expect(s.count("ls-refs")).To(Equal(2))
	c.Forget(s.repo().URL)
	g.Expect(resolve("semver:^1")).To(Equal(second))
	g.Expect(s.count("ls-refs")).To(Equal(3))
}

func TestOneHundredThousandTagsAreNotKept(t *testing.T) {
	g := NewWithT(t) // not parallel: it weighs the heap
	r, commit := monorepo(t, 1)
	packed := strings.Builder{}
	fmt.Fprintf(&packed, "# pack-refs with: peeled fully-peeled sorted \n%s refs/heads/main\n", commit)
	for i := range 100_000 {
		fmt.Fprintf(&packed, "%s refs/tags/v1.%d.0\n", commit, 100_000+i) // all as long as the others: git wants them sorted
	}
	g.Expect(os.WriteFile(filepath.Join(r.dir, "packed-refs"), []byte(packed.String()), 0o600)).To(Succeed())
	s := newGitServer(t, r, nil)
	c := newClient(t)
	_, err := c.Resolve(t.Context(), s.repo(), gitsource.Selection{Reference: commit}, 0)
	g.Expect(err).NotTo(HaveOccurred())
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before, begin := heap(), time.Now()
	s.restart()
	got, err := c.Resolve(t.Context(), s.repo(), gitsource.Selection{Reference: "semver:^1"}, time.Hour)
	g.Expect(err).NotTo(HaveOccurred())
	took, kept := time.Since(begin), heap()-before
	t.Logf("100,000 tags: %d bytes, %s, %d bytes kept", s.bytes(), took, kept)
	g.Expect(got.Ref).To(Equal("refs/tags/v1.199999.0"))
	g.Expect(kept).To(BeNumerically("<", 1<<20))
	runtime.KeepAlive(c)
}
