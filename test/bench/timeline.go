package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// moment is something that happened on the way of a sample.
type moment struct {
	name  string
	after time.Duration // since the sample's start
}

// printTimelines shows where the time goes: when each moment came, and what it
// took since the one before, as medians.
func printTimelines(out io.Writer, timelines map[string][][]moment) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, d := range definitions {
		samples := timelines[d.name]
		if len(samples) == 0 {
			continue
		}
		fmt.Fprintf(table, "\nWHERE %s GOES\tMS SINCE START\tMS SINCE THE LAST\n", d.name)
		for _, line := range medianMoments(samples) {
			fmt.Fprintf(table, "  %s\t%d\t%+d\n", line.name, line.after.Milliseconds(), line.step.Milliseconds())
		}
	}
	table.Flush()
}

type medianMoment struct {
	name        string
	after, step time.Duration
}

// medianMoments takes the moments in the order of their medians. A moment that
// a sample lacks does not count there.
func medianMoments(samples [][]moment) []medianMoment {
	var names []string
	times := map[string][]time.Duration{}
	for _, sample := range samples {
		for _, m := range sample {
			if times[m.name] == nil {
				names = append(names, m.name)
			}
			times[m.name] = append(times[m.name], m.after)
		}
	}
	var lines []medianMoment
	for _, name := range names {
		slices.Sort(times[name])
		lines = append(lines, medianMoment{name: name, after: median(times[name])})
	}
	slices.SortStableFunc(lines, func(a, b medianMoment) int { return int(a.after - b.after) })
	var last time.Duration
	for i := range lines {
		lines[i].step, last = lines[i].after-last, lines[i].after
	}
	return lines
}
