package main

import (
	"bytes"
	"testing"

	. "github.com/onsi/gomega"
)

func TestPercentile(t *testing.T) {
	g := NewWithT(t)
	var hundred []float64
	for i := range 100 {
		hundred = append(hundred, float64(100-i))
	}
	g.Expect(percentile(hundred, 50)).To(Equal(50.0))
	g.Expect(percentile(hundred, 95)).To(Equal(95.0))
	g.Expect(percentile(hundred, 99)).To(Equal(99.0))
	g.Expect(percentile([]float64{7}, 99)).To(Equal(7.0))
	g.Expect(median([]float64{3, 1, 2})).To(Equal(2.0))
}

func TestRows(t *testing.T) {
	for _, c := range []struct {
		name           string
		rate, latency  float64
		rateOK, paceOK string
		wantRatio      float64
	}{
		{name: "as fast as the bare server", rate: 100, latency: 0.001, rateOK: "ok", paceOK: "ok", wantRatio: 1},
		{name: "seven tenths are enough", rate: 70, latency: 0.0013, rateOK: "ok", paceOK: "ok", wantRatio: 0.7},
		{name: "less is missed", rate: 69, latency: 0.0014, rateOK: "missed", paceOK: "missed", wantRatio: 0.69},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := NewWithT(t)
			rows := rowsOf("x", [2]samples{
				{rates: []float64{100}, costs: []float64{1}, latencies: []float64{0.001}},
				{rates: []float64{c.rate}, costs: []float64{2}, latencies: []float64{c.latency}},
			})
			g.Expect(rows).To(HaveLen(2))
			g.Expect(rows[0].Name).To(Equal("runtime-x-rps"))
			g.Expect(rows[0].Floor).To(Equal(100.0))
			g.Expect(rows[0].Ratio).To(Equal(c.wantRatio))
			g.Expect(rows[0].RatioCPU).To(Equal(0.5))
			g.Expect(rows[0].verdict()).To(Equal(c.rateOK))
			g.Expect(rows[1].verdict()).To(Equal(c.paceOK))
			g.Expect(missed(rows)).To(Equal(c.rateOK == "missed"))
			var out bytes.Buffer
			printRows(&out, rows)
			g.Expect(out.String()).To(ContainSubstring("runtime-x-latency"))
		})
	}
}
