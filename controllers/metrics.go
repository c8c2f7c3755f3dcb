package controllers

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gitfn/gitfn/gitsource"
	"github.com/gitfn/gitfn/gitsource/receiver"
)

// Metrics counts what the source step does. No label holds a URL or the name of
// an object. Nil counts nothing; it is safe for concurrent use.
type Metrics struct {
	hints *prometheus.CounterVec
	found prometheus.Histogram
}

// NewMetrics registers the metrics. stats is gitsource.Client.Stats.
func NewMetrics(registry prometheus.Registerer, stats func() gitsource.Stats) (*Metrics, error) {
	m := &Metrics{
		hints: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gitfn_hints_total", Help: "Push hints of forges, by what became of them.",
		}, []string{"forge", "result"}),
		found: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "gitfn_hint_found_seconds", Help: "Time from a push hint until the new commit was known to a Function.",
			Buckets: []float64{0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20},
		}),
	}
	for _, collector := range []prometheus.Collector{m.hints, m.found, &gitCollector{stats}} {
		if err := registry.Register(collector); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return m, nil
}

// Hint counts a hint of a forge.
func (m *Metrics) Hint(forge string, result receiver.Result) {
	if m != nil {
		m.hints.WithLabelValues(forge, string(result)).Inc()
	}
}

// foundAfter notes how long after a hint a Function knew the new commit.
func (m *Metrics) foundAfter(delay time.Duration) {
	if m != nil {
		m.found.Observe(delay.Seconds())
	}
}

// gitCollector shows the counts of the Git client.
type gitCollector struct{ stats func() gitsource.Stats }

// gitMetrics is each of them, and how it is read.
var gitMetrics = []struct {
	about *prometheus.Desc
	label []string
	value func(gitsource.Stats) int64
}{
	{refsRequests, []string{"ok"}, func(s gitsource.Stats) int64 { return s.Refs }},
	{refsRequests, []string{"error"}, func(s gitsource.Stats) int64 { return s.RefsFailed }},
	{packRequests, []string{"ok"}, func(s gitsource.Stats) int64 { return s.Packs }},
	{packRequests, []string{"error"}, func(s gitsource.Stats) int64 { return s.PacksFailed }},
	{packBytes, nil, func(s gitsource.Stats) int64 { return s.PackBytes }},
	{refChanges, []string{"hint"}, func(s gitsource.Stats) int64 { return s.MovedByHint }},
	{refChanges, []string{"poll"}, func(s gitsource.Stats) int64 { return s.MovedByPoll }},
	{hintsMissed, nil, func(s gitsource.Stats) int64 { return s.HintsMissed }},
}

var (
	refsRequests = prometheus.NewDesc("gitfn_git_refs_requests_total", "Requests for refs, by result.", []string{"result"}, nil)
	packRequests = prometheus.NewDesc("gitfn_git_packs_total", "Requests for packs, by result.", []string{"result"}, nil)
	packBytes    = prometheus.NewDesc("gitfn_git_pack_bytes_total", "Bytes of packs.", nil, nil)
	refChanges   = prometheus.NewDesc("gitfn_git_ref_changes_total", "References that moved, by what made gitfn look first.", []string{"seen_by"}, nil)
	hintsMissed  = prometheus.NewDesc("gitfn_git_hints_missed_total", "References that a poll saw move first, in repositories that had sent hints before.", nil, nil)
)

// Describe names the metrics.
func (c *gitCollector) Describe(to chan<- *prometheus.Desc) {
	for _, about := range []*prometheus.Desc{refsRequests, packRequests, packBytes, refChanges, hintsMissed} {
		to <- about
	}
}

// Collect reads the counts.
func (c *gitCollector) Collect(to chan<- prometheus.Metric) {
	stats := c.stats()
	for _, m := range gitMetrics {
		to <- prometheus.MustNewConstMetric(m.about, prometheus.CounterValue, float64(m.value(stats)), m.label...)
	}
}
