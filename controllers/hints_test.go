package controllers

import (
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
)

var (
	noon  = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	hello = types.NamespacedName{Namespace: "ns", Name: "hello"}
)

func TestHintsAreLookedAtAgain(t *testing.T) {
	g := NewWithT(t)
	h := &Hints{}
	_, hinted := h.since(hello, noon)
	g.Expect(hinted).To(BeFalse())
	_, hinted = h.looked(hello, noon, false, nil)
	g.Expect(hinted).To(BeFalse())

	h.Add(hello, noon)
	for _, step := range []struct{ at, age, again time.Duration }{
		{time.Millisecond, time.Millisecond, 2*time.Second - time.Millisecond},
		{time.Second, time.Second, time.Second}, // woken by something else in between
		{2 * time.Second, 0, 3 * time.Second},
		{2500 * time.Millisecond, 500 * time.Millisecond, 2500 * time.Millisecond},
		{6 * time.Second, time.Second, 9 * time.Second},
	} {
		age, hinted := h.since(hello, noon.Add(step.at))
		g.Expect(hinted).To(BeTrue())
		g.Expect(age).To(Equal(step.age))
		again, hinted := h.looked(hello, noon.Add(step.at), false, nil)
		g.Expect(hinted).To(BeTrue())
		g.Expect(again).To(Equal(step.again))
	}
	age, hinted := h.since(hello, noon.Add(15*time.Second))
	g.Expect(hinted).To(BeTrue())
	g.Expect(age).To(BeZero())
	_, hinted = h.looked(hello, noon.Add(15*time.Second), false, nil)
	g.Expect(hinted).To(BeFalse())
	_, hinted = h.since(hello, noon.Add(16*time.Second))
	g.Expect(hinted).To(BeFalse())
}

func TestHintThatShowedSomethingIsDone(t *testing.T) {
	g := NewWithT(t)
	h := &Hints{}
	h.Add(hello, noon)
	h.since(hello, noon)
	_, hinted := h.looked(hello, noon, true, nil)
	g.Expect(hinted).To(BeFalse())
	_, hinted = h.since(hello, noon)
	g.Expect(hinted).To(BeFalse())

	h.Add(hello, noon)
	h.forget(hello)
	_, hinted = h.since(hello, noon)
	g.Expect(hinted).To(BeFalse())
}

func TestScheduleCountsAnswersFromItsTimeOn(t *testing.T) {
	g := NewWithT(t)
	h := &Hints{}
	const year = 365 * 24 * time.Hour
	g.Expect(h.sinceScheduled(hello, noon, time.Hour)).To(Equal(freshEnough), "never looked")
	g.Expect(h.sinceScheduled(hello, noon.Add(time.Minute), 59*time.Minute)).To(Equal(year))
	g.Expect(h.sinceScheduled(hello, noon.Add(time.Hour), time.Hour)).To(Equal(time.Nanosecond), "its time has come: no older answer")
	g.Expect(h.sinceScheduled(hello, noon.Add(time.Hour), time.Hour)).To(Equal(year))
	g.Expect(h.sinceScheduled(hello, noon.Add(2*time.Hour+time.Second), time.Hour)).To(Equal(time.Second+time.Nanosecond), "late: what others of that time were told")
}

func TestHintsFromManySides(t *testing.T) {
	h := &Hints{}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 200 {
				h.Add(hello, noon)
				h.since(hello, noon)
				h.looked(hello, noon, false, nil)
				h.sinceScheduled(hello, noon, time.Second)
				h.forget(hello)
			}
		})
	}
	all.Wait()
}

func TestPlaces(t *testing.T) {
	g := NewWithT(t)
	p := &Places{}
	other := types.NamespacedName{Namespace: "ns", Name: "other"}
	g.Expect(p.Of(hello)).To(BeZero())
	g.Expect(p.set(map[types.NamespacedName]int{hello: 1, other: 2})).To(ConsistOf(hello, other))
	g.Expect(p.Of(other)).To(Equal(int32(2)))
	g.Expect(p.set(map[types.NamespacedName]int{hello: 1, other: 2})).To(BeEmpty())
	g.Expect(p.set(map[types.NamespacedName]int{other: 1})).To(ConsistOf(other))
	g.Expect(p.Of(hello)).To(BeZero())
}
