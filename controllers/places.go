package controllers

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Places are the places of waiting Jobs in the queue, as the admitter saw them
// last. It is safe for concurrent use; the zero value is empty.
type Places struct {
	mu     sync.Mutex
	places map[types.NamespacedName]int
}

// Of is the place of a Job, from 1; zero if it is not known to wait.
func (p *Places) Of(job types.NamespacedName) int32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return int32(p.places[job])
}

// set replaces the places and returns the Jobs whose place is another now.
func (p *Places) set(places map[types.NamespacedName]int) (moved []types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for job, place := range places {
		if p.places[job] != place {
			moved = append(moved, job)
		}
	}
	p.places = places
	return moved
}
