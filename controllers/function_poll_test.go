package controllers

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
)

func TestJitterOnlyAdds(t *testing.T) {
	g := NewWithT(t)
	for range 1000 {
		g.Expect(jittered(time.Minute)).To(And(BeNumerically(">=", time.Minute), BeNumerically("<=", 66*time.Second)))
	}
	g.Expect(jittered(0)).To(BeZero())
}

func TestPollInterval(t *testing.T) {
	r := &FunctionReconciler{Config: Config{PollInterval: time.Minute, MinPollInterval: 5 * time.Second}}
	for _, row := range []struct {
		name     string
		interval *metav1.Duration
		want     time.Duration
		warnings int
	}{
		{"none: the administrator's", nil, time.Minute, 0},
		{"zero: the administrator's", &metav1.Duration{}, time.Minute, 0},
		{"its own", &metav1.Duration{Duration: time.Hour}, time.Hour, 0},
		{"the least", &metav1.Duration{Duration: 5 * time.Second}, 5 * time.Second, 0},
		{"below the least: raised, and told", &metav1.Duration{Duration: time.Second}, 5 * time.Second, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			g := NewWithT(t)
			interval, warnings := r.pollInterval(&functionv1.GitRepository{Interval: row.interval})
			g.Expect(interval).To(Equal(row.want))
			g.Expect(warnings).To(HaveLen(row.warnings))
		})
	}
}

// TestAdvancesArePaced lets 1,000 Functions hear of a commit a minute for an hour.
func TestAdvancesArePaced(t *testing.T) {
	g := NewWithT(t)
	const n = 1000
	var p paces
	now := noon
	next := make([]time.Time, n)
	last := make([]time.Time, n)
	perSecond, writes := map[int64]int{}, 0
	for ; now.Before(noon.Add(time.Hour)); now = now.Add(250 * time.Millisecond) {
		for i := range n {
			if now.Before(next[i]) {
				continue
			}
			wait := p.advance(types.NamespacedName{Name: fmt.Sprint(i)}, now)
			if wait > 0 {
				next[i] = now.Add(wait)
				continue
			}
			g.Expect(now.Sub(last[i])).To(BeNumerically(">=", advanceEvery))
			last[i], next[i] = now, now.Add(time.Minute) // the next commit
			perSecond[now.Unix()]++
			writes++
		}
	}
	for second, writes := range perSecond {
		g.Expect(writes).To(BeNumerically("<=", 3*advanceRate), "at second %d", second-noon.Unix())
	}
	g.Expect(writes).To(BeNumerically(">=", n*25), "and all get there, every two minutes")
	g.Expect(writes).To(BeNumerically("<=", n*31))
	for i := range n {
		g.Expect(noon.Add(time.Hour).Sub(last[i])).To(BeNumerically("<", 2*advanceEvery))
	}
}

func TestFirstIsOnce(t *testing.T) {
	g := NewWithT(t)
	var p paces
	g.Expect(p.first(hello)).To(BeTrue())
	g.Expect(p.first(hello)).To(BeFalse())
	g.Expect(p.advance(hello, noon)).To(BeZero(), "who is alone does not wait")
	g.Expect(p.advance(hello, noon)).To(Equal(advanceEvery))
	p.forget(hello)
	g.Expect(p.first(hello)).To(BeTrue())
}
