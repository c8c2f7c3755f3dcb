package main

import (
	"slices"
	"time"
)

// summary is what is told of the samples of a row, in seconds.
type summary struct {
	median, min, max float64
	n                int
}

// summarize needs at least one sample.
func summarize(samples []time.Duration) summary {
	sorted := slices.Sorted(slices.Values(samples))
	return summary{
		median: median(sorted).Seconds(),
		min:    sorted[0].Seconds(),
		max:    sorted[len(sorted)-1].Seconds(),
		n:      len(sorted),
	}
}

// median is the middle of sorted samples, or halfway between the middle two.
func median(sorted []time.Duration) time.Duration {
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}
