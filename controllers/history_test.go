package controllers

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
)

func entry(n int) functionv1.HistoryEntry {
	digits := func(sign string) string { return strings.Repeat(sign, 32) + fmt.Sprintf("%08d", n) }
	return functionv1.HistoryEntry{
		Key: "k" + digits("1"), Digest: fmt.Sprintf("sha256:d%031d%s", n, strings.Repeat("2", 32)),
		Commit: fmt.Sprintf("c%039d", n), Tree: fmt.Sprintf("e%039d", n),
	}
}

// withHistory has the entries n, n-1, … 1 and the limit; serving is one of them.
func withHistory(n int, limit int32, serving int) *functionv1.Function {
	fn := &functionv1.Function{}
	fn.Spec.RevisionHistoryLimit = &limit
	for ; n > 0; n-- {
		fn.Status.History = append(fn.Status.History, entry(n))
	}
	if serving > 0 {
		fn.Status.Image = "registry/ns/fn@" + entry(serving).Digest
	}
	return fn
}

func TestRemember(t *testing.T) {
	for _, row := range []struct {
		name       string
		n, serving int
		limit      int32
		want       []int
	}{
		{"the first: it alone", 0, 0, 10, []int{1}},
		{"within the limit: newest first", 2, 2, 3, []int{3, 2, 1}},
		{"beyond the limit: the oldest goes", 3, 3, 3, []int{4, 3, 2}},
		{"beyond the limit, and the oldest serves: it stays", 3, 1, 3, []int{4, 3, 2, 1}},
		{"a limit of one: what serves stays beside the newest", 1, 1, 1, []int{2, 1}},
		{"a limit that was lowered: all the rest goes", 9, 8, 2, []int{10, 9, 8}},
		{"nothing serves: the limit alone counts", 3, 0, 1, []int{4}},
	} {
		t.Run(row.name, func(t *testing.T) {
			g := NewWithT(t)
			fn := withHistory(row.n, row.limit, row.serving)
			before := withHistory(row.n, row.limit, row.serving).Status.History
			was := fn.Status.History
			remember(fn, entry(row.n+1))
			var want []functionv1.HistoryEntry
			for _, n := range row.want {
				want = append(want, entry(n))
			}
			g.Expect(fn.Status.History).To(Equal(want))
			g.Expect(was).To(Equal(before), "who kept the old list may go back to it")
		})
	}
}

func TestEntries(t *testing.T) {
	g := NewWithT(t)
	fn := withHistory(3, 10, 2)
	g.Expect(historyEntry(fn, entry(1).Key)).To(BeIdenticalTo(&fn.Status.History[2]))
	g.Expect(historyEntry(fn, "none")).To(BeNil())
	g.Expect(servingEntry(fn)).To(BeIdenticalTo(&fn.Status.History[1]))
	fn.Status.Image = ""
	g.Expect(servingEntry(fn)).To(BeNil())
	fn.Status.History[0].Digest = ""
	g.Expect(servingEntry(fn)).To(BeNil(), "no image is not the entry without digest")
	g.Expect(imageEntry(fn, "registry/ns/fn:tag")).To(BeNil())
}

func TestPinnedEntry(t *testing.T) {
	fn := withHistory(3, 10, 3)
	wanted := entry(2)
	for name, pin := range map[string]string{
		"commit": wanted.Commit, "tree": wanted.Tree, "key": wanted.Key,
		"digest": wanted.Digest, "digest without its kind": strings.TrimPrefix(wanted.Digest, "sha256:"),
		"beginning of a digest": wanted.Digest[:40],
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(pinnedEntry(fn, pin)).To(BeIdenticalTo(&fn.Status.History[1]))
		})
	}
	g := NewWithT(t)
	g.Expect(pinnedEntry(fn, wanted.Commit[:6])).To(BeNil(), "too short to mean one")
	g.Expect(pinnedEntry(fn, "0123456789")).To(BeNil())
	g.Expect(pinnedEntry(fn, "sha256:")).To(BeNil(), "that begins every digest")
	g.Expect(pinnedEntry(fn, wanted.Digest[:13])).To(BeNil(), "too short to mean one")
}
