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

// figure is a line of the table, and an object of the JSON.
type figure struct {
	Row  string `json:"row"`
	Name string `json:"name"`
	Unit string `json:"unit"`
	// Value is the median of N samples.
	Value float64 `json:"value"`
	N     int     `json:"n"`
	// Peer is what the value is held against, in the same unit; no name means that there is none.
	Peer      string  `json:"peer,omitempty"`
	PeerValue float64 `json:"peerValue,omitempty"`
	// Least and Most bound what is wanted of the value; both nil means that nothing is.
	Least *float64 `json:"least,omitempty"`
	Most  *float64 `json:"most,omitempty"`
}

// figures collects a row's.
type figures struct {
	row string
	all []figure
}

// add makes a figure of samples.
func (f *figures) add(name, unit string, samples ...float64) *figure {
	f.all = append(f.all, figure{Row: f.row, Name: name, Unit: unit, Value: rounded(median(samples)), N: len(samples)})
	return &f.all[len(f.all)-1]
}

// beside names what the figure is held against.
func (f *figure) beside(peer string, samples ...float64) *figure {
	f.Peer, f.PeerValue = peer, rounded(median(samples))
	return f
}

func (f *figure) atMost(n float64) *figure { f.Most = &n; return f }

func (f *figure) exactly(n float64) *figure { f.Least, f.Most = &n, &n; return f }

// verdict is "ok", "over", "under", or empty where nothing is wanted.
func (f figure) verdict() string {
	switch {
	case f.Least == nil && f.Most == nil:
		return ""
	case f.Most != nil && f.Value > *f.Most:
		return "over"
	case f.Least != nil && f.Value < *f.Least:
		return "under"
	}
	return "ok"
}

func (f figure) wanted() string {
	switch {
	case f.Most == nil:
		return ""
	case f.Least != nil:
		return "= " + number(*f.Least)
	}
	return "≤ " + number(*f.Most)
}

// median is the middle of samples, or halfway between the middle two. There is at least one.
func median(samples []float64) float64 {
	sorted := slices.Sorted(slices.Values(samples))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// rounded is a figure to the thousandth: what is beyond is noise.
func rounded(f float64) float64 { return math.Round(f*1000) / 1000 }

// number writes a figure with the digits that mean something.
func number(f float64) string {
	switch {
	case f == math.Trunc(f):
		return fmt.Sprintf("%.0f", f)
	case math.Abs(f) >= 100:
		return fmt.Sprintf("%.0f", f)
	case math.Abs(f) >= 1:
		return fmt.Sprintf("%.1f", f)
	}
	return fmt.Sprintf("%.3f", f)
}

func printFigures(out io.Writer, all []figure) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := ""
	for _, f := range all {
		if f.Row != row {
			row = f.Row
			fmt.Fprintf(table, "\n%s\tFIGURE\tN\tPEER\tRATIO\tWANTED\t\n", row)
		}
		peer, ratio := "", ""
		if f.Peer != "" {
			peer = fmt.Sprintf("%s: %s", f.Peer, number(f.PeerValue))
			if f.PeerValue != 0 {
				ratio = fmt.Sprintf("%.4f", f.Value/f.PeerValue)
			}
		}
		fmt.Fprintf(table, "  %s\t%s %s\t%d\t%s\t%s\t%s\t%s\n", f.Name, number(f.Value), f.Unit, f.N, peer, ratio, f.wanted(), f.verdict())
	}
	_ = table.Flush()
}

func writeJSON(file string, all []figure) error {
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("write figures as JSON: %w", err)
	}
	return nil
}

// mebibytes is a number of bytes as it is read.
func mebibytes(n int64) float64 { return float64(n) / (1 << 20) }
