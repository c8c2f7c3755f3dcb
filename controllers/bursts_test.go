package controllers

import (
	"fmt"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestHintsOfOneMomentAreOne(t *testing.T) {
	g := NewWithT(t)
	b, at := &bursts{}, repository{"ns", "git.example/fn"}
	none := map[repository][]string{}
	take := func(after time.Duration) (map[repository][]string, time.Duration) {
		due, next := b.due(noon.Add(after))
		for _, refs := range due {
			slices.Sort(refs)
		}
		return due, next
	}
	due, next := take(0)
	g.Expect(due).To(Equal(none))
	g.Expect(next).To(Equal(time.Hour), "there is nothing to wait for")

	g.Expect(b.add(at, []string{"refs/heads/main"})).To(BeTrue())
	g.Expect(b.came()).To(Receive(), "the first rings")
	due, next = take(0)
	g.Expect(due).To(Equal(map[repository][]string{at: {"refs/heads/main"}}), "the first is passed on at once")
	g.Expect(next).To(Equal(hintGap))

	for range 1000 {
		g.Expect(b.add(at, []string{"refs/heads/main"})).To(BeTrue())
	}
	g.Expect(b.add(at, []string{"refs/tags/v1"})).To(BeTrue())
	due, next = take(hintGap / 4)
	g.Expect(due).To(Equal(none))
	g.Expect(next).To(Equal(hintGap * 3 / 4))
	due, _ = take(hintGap)
	g.Expect(due).To(Equal(map[repository][]string{at: {"refs/heads/main", "refs/tags/v1"}}), "those after it are passed on together")

	g.Expect(b.add(at, []string{"refs/heads/main"})).To(BeTrue())
	g.Expect(b.add(at, nil)).To(BeTrue())
	due, _ = take(2 * hintGap)
	g.Expect(due).To(Equal(map[repository][]string{at: nil}), "one without refs is for all")

	for i := range mergedRefs + 1 {
		b.add(at, []string{fmt.Sprint("refs/heads/", i)})
	}
	due, _ = take(3 * hintGap)
	g.Expect(due).To(Equal(map[repository][]string{at: nil}), "too many refs are for all")

	_, next = take(4 * hintGap)
	g.Expect(next).To(Equal(time.Hour))
	g.Expect(b.of).To(BeEmpty(), "who is quiet is forgotten")
	g.Expect(b.count).To(BeEmpty())
}

func TestHintsHaveRoom(t *testing.T) {
	g := NewWithT(t)
	b := &bursts{}
	for i := range rooms {
		g.Expect(b.add(repository{"loud", fmt.Sprint("git.example/", i)}, nil)).To(BeTrue())
	}
	g.Expect(b.add(repository{"loud", "git.example/one-more"}, nil)).To(BeFalse(), "a namespace has its room")
	g.Expect(b.add(repository{"loud", "git.example/0"}, nil)).To(BeTrue(), "who is known has a place")
	g.Expect(b.add(repository{"quiet", "git.example/fn"}, nil)).To(BeTrue(), "other namespaces have theirs")
	due, _ := b.due(noon)
	g.Expect(due).To(HaveLen(rooms + 1))
	b.due(noon.Add(hintGap))
	g.Expect(b.add(repository{"loud", "git.example/one-more"}, nil)).To(BeTrue(), "there is room again a moment later")
}

func TestWhoFollowsWhat(t *testing.T) {
	for _, row := range []struct {
		reference string
		refs      []string
		want      bool
	}{
		{"main", []string{"refs/heads/main"}, true},
		{"main", []string{"refs/heads/dev", "refs/heads/main"}, true},
		{"main", []string{"refs/heads/dev", "refs/tags/v1"}, false},
		{"main", nil, true},
		{"v1", []string{"refs/tags/v1"}, true},
		{"release/1", []string{"refs/heads/release/1"}, true},
		{"refs/heads/main", []string{"refs/heads/main"}, true},
		{"heads/main", []string{"refs/heads/main"}, true},
		{"HEAD", []string{"refs/heads/dev"}, true},
		{"", []string{"refs/heads/dev"}, true},
		{"semver:>=1.2 <2", []string{"refs/tags/v1.3"}, true},
		{"semver:>=1.2 <2", []string{"refs/heads/main"}, false},
	} {
		NewWithT(t).Expect(follows(row.reference, row.refs)).To(Equal(row.want), "%q, %v", row.reference, row.refs)
	}
}
