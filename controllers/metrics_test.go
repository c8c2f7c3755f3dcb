package controllers

import (
	"os"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gitfn/gitfn/gitsource"
	"github.com/gitfn/gitfn/gitsource/receiver"
)

func TestMetrics(t *testing.T) {
	g := NewWithT(t)
	registry := prometheus.NewPedanticRegistry()
	stats := gitsource.Stats{Refs: 1, RefsFailed: 2, Packs: 3, PacksFailed: 4, PackBytes: 5, MovedByHint: 6, MovedByPoll: 7, HintsMissed: 8}
	m, err := NewMetrics(registry, func() gitsource.Stats { return stats })
	g.Expect(err).NotTo(HaveOccurred())
	m.Hint("github", receiver.Taken)
	m.Hint("github", receiver.Taken)
	m.Hint("gitlab", receiver.Refused)
	m.foundAfter(300 * time.Millisecond)

	families, err := registry.Gather()
	g.Expect(err).NotTo(HaveOccurred())
	have := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.Metric {
			name := family.GetName()
			for _, label := range metric.Label {
				name += " " + label.GetValue()
			}
			have[name] = metric.GetCounter().GetValue() + float64(metric.GetHistogram().GetSampleCount())
		}
	}
	g.Expect(have).To(Equal(map[string]float64{
		"gitfn_git_refs_requests_total ok": 1, "gitfn_git_refs_requests_total error": 2,
		"gitfn_git_packs_total ok": 3, "gitfn_git_packs_total error": 4, "gitfn_git_pack_bytes_total": 5,
		"gitfn_git_ref_changes_total hint": 6, "gitfn_git_ref_changes_total poll": 7, "gitfn_git_hints_missed_total": 8,
		"gitfn_hints_total github taken": 2, "gitfn_hints_total gitlab refused": 1, "gitfn_hint_found_seconds": 1,
	}))

	_, err = NewMetrics(registry, func() gitsource.Stats { return stats })
	g.Expect(err).To(MatchError(HavePrefix("register metrics: ")), "twice is a mistake")
}

// TestNoMetrics wants that who counts nothing needs no Metrics.
func TestNoMetrics(*testing.T) {
	var m *Metrics
	m.Hint("github", receiver.Taken)
	m.foundAfter(time.Second)
}

// TestMetricsAreDocumented wants every metric in the page of the administrator.
func TestMetricsAreDocumented(t *testing.T) {
	g := NewWithT(t)
	page := readPage(t, "../docs/metrics.md")
	for _, m := range gitMetrics {
		name := strings.Split(m.about.String(), `"`)[1]
		g.Expect(page).To(ContainSubstring("`" + name))
	}
	g.Expect(page).To(And(ContainSubstring("`gitfn_hints_total"), ContainSubstring("`gitfn_hint_found_seconds")))
}

func readPage(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
