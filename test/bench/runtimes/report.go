package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"text/tabwriter"
)

// row is a line of the table, and an object of the JSON. Floor is the bare
// server's figure of the same run.
type row struct {
	Name string `json:"name"`
	// Unit is "1/s" (Value is a median of rounds) or "ms" (Value is an average).
	Unit  string  `json:"unit"`
	Value float64 `json:"value"`
	Min   float64 `json:"min,omitempty"`
	Max   float64 `json:"max,omitempty"`
	P95   float64 `json:"p95,omitempty"`
	P99   float64 `json:"p99,omitempty"`
	N     int     `json:"n"`
	Floor float64 `json:"floor"`
	// FloorP95 and FloorP99 stand beside P95 and P99.
	FloorP95 float64 `json:"floorP95,omitempty"`
	FloorP99 float64 `json:"floorP99,omitempty"`
	Ratio    float64 `json:"ratio"`
	// RatioCPU is what remains of the ratio when nothing else runs on the machine:
	// the bare server's processor time per request, divided by the server's.
	RatioCPU float64 `json:"ratioCPU,omitempty"`
	// least and most say which Ratio is good; zero means that none is wanted.
	least, most float64
}

// rowsOf makes the rows of a language of the bare server's samples and the runtime's.
func rowsOf(name string, both [2]samples) []row {
	bare, server := both[0], both[1]
	return []row{{
		Name: "runtime-" + name + "-rps", Unit: "1/s", N: len(server.rates),
		Value: rounded(median(server.rates)), Min: rounded(slices.Min(server.rates)), Max: rounded(slices.Max(server.rates)),
		Floor: rounded(median(bare.rates)), Ratio: rounded(median(server.rates) / median(bare.rates)),
		RatioCPU: rounded(median(bare.costs) / median(server.costs)), least: 0.7,
	}, latencyRow("runtime-"+name+"-latency", both, 1.3)}
}

func latencyRow(name string, both [2]samples, most float64) row {
	bare, server := both[0].latencies, both[1].latencies
	return row{
		Name: name, Unit: "ms", N: len(server), most: most,
		Value: millis(average(server)), P95: millis(percentile(server, 95)), P99: millis(percentile(server, 99)),
		Floor: millis(average(bare)), FloorP95: millis(percentile(bare, 95)), FloorP99: millis(percentile(bare, 99)),
		Ratio: rounded(average(server) / average(bare)),
	}
}

func average(values []float64) float64 {
	var sum float64
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

func median(values []float64) float64 { return percentile(values, 50) }

// percentile is the smallest of values that p of a hundred do not exceed.
func percentile(values []float64, p int) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[max(0, (len(sorted)*p+99)/100-1)]
}

func millis(seconds float64) float64 { return rounded(seconds * 1000) }

func rounded(f float64) float64 { return math.Round(f*1000) / 1000 }

// verdict is "ok", "missed", or empty where nothing is wanted.
func (r row) verdict() string {
	switch {
	case r.least == 0 && r.most == 0:
		return ""
	case r.Ratio >= r.least && (r.most == 0 || r.Ratio <= r.most):
		return "ok"
	}
	return "missed"
}

func missed(rows []row) bool {
	return slices.ContainsFunc(rows, func(r row) bool { return r.verdict() == "missed" })
}

func printRows(out io.Writer, rows []row) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ROW\tUNIT\tVALUE\tP95\tP99\tN\tBARE\tP95\tP99\tRATIO\tBY CPU\tWANTED\t")
	for _, r := range rows {
		wanted := "-"
		switch {
		case r.least > 0:
			wanted = fmt.Sprintf("≥ %.1f", r.least)
		case r.most > 0:
			wanted = fmt.Sprintf("≤ %.1f", r.most)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\t%.2f\t%s\t%s\t%s\n", r.Name, r.Unit, r.figure(r.Value), r.figure(r.P95), r.figure(r.P99), r.N,
			r.figure(r.Floor), r.figure(r.FloorP95), r.figure(r.FloorP99), r.Ratio, orDash("%.2f", r.RatioCPU), wanted, r.verdict())
	}
	table.Flush()
}

func (r row) figure(f float64) string {
	if r.Unit == "ms" {
		return orDash("%.2f", f)
	}
	return orDash("%.0f", f)
}

func orDash(format string, f float64) string {
	if f == 0 {
		return "-"
	}
	return fmt.Sprintf(format, f)
}

func writeJSON(file string, rows []row) error {
	text, err := json.MarshalIndent(rows, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("write rows as JSON: %w", err)
	}
	return nil
}
