package controllers

import (
	"strings"
	"testing"
	"unicode/utf8"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
)

func deploymentAt(generation, observed int64) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "hello", UID: "u", Generation: generation, ResourceVersion: "7"}}
	d.Status.ObservedGeneration = observed
	return d
}

func TestWhatWasApplied(t *testing.T) {
	g := NewWithT(t)
	memo := &appliedMemo{}
	d, s := deploymentAt(1, 1), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "hello", UID: "s", ResourceVersion: "3"}}
	g.Expect(memo.current("Deployment", d, "h")).To(BeFalse(), "a restart remembers nothing")
	memo.remember("Deployment", d, "h")
	memo.remember("Service", s, "h")
	g.Expect(memo.current("Deployment", d, "h")).To(BeTrue())
	g.Expect(memo.current("Deployment", d, "other")).To(BeFalse(), "something else is wanted")

	d.ResourceVersion = "8"
	g.Expect(memo.current("Deployment", d, "h")).To(BeTrue(), "its status has moved")
	d.Generation = 2
	g.Expect(memo.current("Deployment", d, "h")).To(BeFalse(), "somebody changed its spec")
	d.Generation, d.UID = 1, "v"
	g.Expect(memo.current("Deployment", d, "h")).To(BeFalse(), "it is another one of this name")

	g.Expect(memo.current("Service", s, "h")).To(BeTrue())
	s.ResourceVersion = "4"
	g.Expect(memo.current("Service", s, "h")).To(BeFalse(), "somebody changed it")
	memo.remember("Service", s, "h")
	memo.forget(hello)
	g.Expect(memo.current("Service", s, "h")).To(BeFalse())
}

func TestScalingIsNoRollout(t *testing.T) {
	for _, row := range []struct {
		name           string
		rolled, known  int64 // generations: of the last template, and seen settled
		live, observed int64
		judged         int64
	}{
		{"its controller is up to date", 0, 0, 3, 3, 3},
		{"nothing is known: it must look first", 0, 0, 3, 2, 3},
		{"scaled since it was settled: what was said holds", 0, 2, 3, 2, 2},
		{"scaled twice since: what was said holds", 0, 2, 4, 3, 3},
		{"a new template, not seen: it must look first", 3, 2, 3, 2, 3},
		{"a new template, then scaled, none seen: it must look first", 3, 2, 4, 2, 4},
		{"a new template, seen, then scaled: what was said holds", 3, 2, 4, 3, 3},
	} {
		t.Run(row.name, func(t *testing.T) {
			memo := &appliedMemo{}
			if row.known > 0 {
				memo.settled(deploymentAt(row.known, row.known))
			}
			if row.rolled > 0 {
				memo.rolls(deploymentAt(row.rolled, row.rolled-1))
			}
			live := deploymentAt(row.live, row.observed)
			g := NewWithT(t)
			g.Expect(memo.settled(live).Generation).To(Equal(row.judged))
			g.Expect(live.Generation).To(Equal(row.live), "the object itself is left alone")
		})
	}
}

// notes keeps the text of Events.
type notes []string

// Eventf keeps the text of an Event.
func (n *notes) Eventf(_, _ runtime.Object, _, _, _, note string, args ...any) {
	*n = append(*n, strings.ReplaceAll(note, "%s", args[0].(string)))
}

func TestEventsAreNotTooLong(t *testing.T) {
	g := NewWithT(t)
	var told notes
	r := &FunctionReconciler{Recorder: &told}
	r.event(&functionv1.Function{}, warning("R", "A", "%s", "100% of it"))
	r.event(&functionv1.Function{}, warning("R", "A", "%s", strings.Repeat("ä", 2000)))
	g.Expect(told[0]).To(Equal("100% of it"))
	g.Expect(len(told[1])).To(BeNumerically("<=", noteBytes))
	g.Expect(utf8.ValidString(told[1])).To(BeTrue())
	g.Expect(told[1]).To(HaveSuffix("…"))
}
