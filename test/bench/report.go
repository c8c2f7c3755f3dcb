package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"text/tabwriter"
	"time"
)

// Names of the rows.
const (
	rowJob      = "empty-job"
	rowRollout  = "empty-rollout"
	rowInline   = "inline-to-answer"
	rowPush     = "push-to-answer"
	rowRevert   = "revert-to-answer"
	rowNoDeps   = "build-nodeps"
	rowDepsCold = "build-deps-cold"
	rowDepsWarm = "build-deps-cached"
)

// definition says what a row is held against.
type definition struct {
	name string
	// floor are the rows whose medians add up to the floor. A floor is its own.
	floor []string
	// wanted is the highest ratio that is good; zero means that none is wanted.
	wanted float64
}

var definitions = []definition{
	{rowJob, []string{rowJob}, 0},
	{rowRollout, []string{rowRollout}, 0},
	{rowInline, []string{rowJob, rowRollout}, 0},
	{rowPush, []string{rowJob, rowRollout}, 1.0},
	{rowRevert, []string{rowRollout}, 1.3},
	{rowNoDeps, []string{rowJob}, 1.0},
	{rowDepsCold, []string{rowJob}, 0},
	{rowDepsWarm, []string{rowJob}, 1.0},
}

// row is a line of the table, and an object of the JSON. Times are in seconds.
type row struct {
	Name   string  `json:"name"`
	Unit   string  `json:"unit"`
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	N      int     `json:"n"`
	Floor  float64 `json:"floor"`
	// Ratio is Median/Floor; a floor has 1.
	Ratio  float64 `json:"ratio"`
	wanted float64
}

// report makes the rows of samples; every row must have some.
func report(samples map[string][]time.Duration) ([]row, error) {
	medians := map[string]float64{}
	for _, d := range definitions {
		if len(samples[d.name]) == 0 {
			return nil, fmt.Errorf("report: there is no sample of %s", d.name)
		}
		medians[d.name] = summarize(samples[d.name]).median
	}
	var rows []row
	for _, d := range definitions {
		s := summarize(samples[d.name])
		var floor float64
		for _, name := range d.floor {
			floor += medians[name]
		}
		rows = append(rows, row{
			Name: d.name, Unit: "s",
			Median: rounded(s.median), Min: rounded(s.min), Max: rounded(s.max), N: s.n,
			Floor: rounded(floor), Ratio: rounded(s.median / floor), wanted: d.wanted,
		})
	}
	return rows, nil
}

// rounded is a figure to the millisecond, or thousandth: what is beyond is noise.
func rounded(f float64) float64 { return math.Round(f*1000) / 1000 }

// verdict is "ok", "over", or empty where nothing is wanted.
func (r row) verdict() string {
	switch {
	case r.wanted == 0:
		return ""
	case r.Ratio <= r.wanted:
		return "ok"
	}
	return "over"
}

func over(rows []row) bool {
	for _, r := range rows {
		if r.verdict() == "over" {
			return true
		}
	}
	return false
}

func printRows(out io.Writer, rows []row) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ROW\tSECONDS, MEDIAN (MIN–MAX)\tN\tFLOOR\tRATIO\tWANTED\t")
	for _, r := range rows {
		wanted := "-"
		if r.wanted > 0 {
			wanted = fmt.Sprintf("≤ %.1f", r.wanted)
		}
		fmt.Fprintf(table, "%s\t%.2f (%.2f–%.2f)\t%d\t%.2f\t%.2f\t%s\t%s\n", r.Name, r.Median, r.Min, r.Max, r.N, r.Floor, r.Ratio, wanted, r.verdict())
	}
	table.Flush()
}

// printFailures tells of requests that failed while the Function changed.
func printFailures(out io.Writer, asked int, failures map[string]int) {
	fmt.Fprintf(out, "\nOf %d requests during pushes and reverts", asked)
	if len(failures) == 0 {
		fmt.Fprintln(out, " none failed.")
		return
	}
	fmt.Fprintln(out, " some failed; wanted are none:")
	for _, why := range slices.Sorted(maps.Keys(failures)) {
		fmt.Fprintf(out, "  %d: %s\n", failures[why], why)
	}
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
