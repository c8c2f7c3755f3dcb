package main

import (
	"context"
	"time"
)

// The last controller of Kyma that built images, with 100 Functions on one repository at polls of 30 s for three
// minutes: it fetched the whole repository for each, and its memory only grew. Measured before on a machine like this.
const (
	kymaPeer    = "Kyma's last controller"
	kymaFetches = 592
	kymaCPU     = 5.75
)

// measureMonorepo looks at 1,000 Functions on one repository, and at one commit that touches one of them.
func measureMonorepo(ctx context.Context, dir string) ([]figure, error) {
	return fleet{
		row: "1,000 Functions on one repository, polled each minute", functions: 1000, repositories: 1,
		interval: time.Minute, rest: 5 * time.Minute, changes: true,
		judge: func(f *figures, m rested) {
			f.traffic(m)
			f.add("processor at rest", "% of a core", 100*m.cpu.Seconds()/m.took.Seconds()).atMost(1)
			f.add("memory at rest", "MiB", mebibytes(m.end)).atMost(160)
			f.memory(m)
		},
	}.measure(ctx, dir)
}

// measurePolls looks at 100 Functions on one repository with short intervals.
func measurePolls(ctx context.Context, dir string) ([]figure, error) {
	return fleet{
		row: "100 Functions on one repository, polled each 30 s, 3 minutes", functions: 100, repositories: 1,
		interval: 30 * time.Second, rest: 3 * time.Minute,
		judge: func(f *figures, m rested) {
			f.traffic(m)
			f.add("fetches of objects", "", float64(m.traffic.Packs)).beside(kymaPeer, kymaFetches).exactly(0)
			f.add("processor", "s", m.cpu.Seconds()).beside(kymaPeer, kymaCPU)
			f.memory(m)
		},
	}.measure(ctx, dir)
}

// measureRepositories looks at 500 repositories.
func measureRepositories(ctx context.Context, dir string) ([]figure, error) {
	return fleet{
		row: "500 repositories, polled each minute", functions: 500, repositories: 500,
		interval: time.Minute, rest: 3 * time.Minute,
		judge: func(f *figures, m rested) {
			f.traffic(m)
			f.add("processor", "% of a core", 100*m.cpu.Seconds()/m.took.Seconds())
			f.add("processor for a request", "ms", 1000*m.cpu.Seconds()/float64(max(1, m.traffic.Refs)))
			f.memory(m)
		},
	}.measure(ctx, dir)
}

func (f *figures) traffic(m rested) {
	f.add("refs requests at the server, for an interval", "", float64(m.traffic.Refs)/m.intervals)
	f.add("all requests at the server", "", float64(m.traffic.Refs+m.traffic.Advertisements+m.traffic.Packs))
	f.add("requests to kube-apiserver", "", m.api)
	f.add("builds at rest", "", float64(m.builds)).exactly(0)
}

func (f *figures) memory(m rested) {
	f.add("memory at the start and at the end: growth", "MiB", mebibytes(m.end-m.start)).beside("at the start", mebibytes(m.start))
	f.add("peak memory, builds and all", "MiB", mebibytes(m.peak))
}
