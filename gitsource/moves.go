package gitsource

import (
	"sync"
	"time"
)

// hintedFor is how long after a hint a ref that moved was found because of it: forges replicate late, so that
// callers look several times.
const hintedFor = 30 * time.Second

// moves notices when references of a repository mean something else than before, and who made that known.
type moves struct {
	mu     sync.Mutex
	last   map[string]string // reference to the id it had
	hinted time.Time         // the last hint
}

// hint notes that somebody said that something moved.
func (m *moves) hint(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hinted = now
}

// saw notes where a reference is, and counts it if it was elsewhere. It reports whether that was news to all.
func (m *moves) saw(reference, id string, now time.Time, counts *counts) (news bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before, known := m.last[reference]
	if before == id {
		return false
	}
	if m.last == nil || len(m.last) >= wantedMost {
		m.last = map[string]string{}
	}
	m.last[reference] = id
	switch {
	case !known:
	case !m.hinted.IsZero() && now.Sub(m.hinted) <= hintedFor:
		counts.movedByHint.Add(1)
	default:
		counts.movedByPoll.Add(1)
		if !m.hinted.IsZero() {
			counts.hintsMissed.Add(1)
		}
		return true
	}
	return false
}

// before is what a reference meant when it was last seen, or empty.
func (m *moves) before(reference string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last[reference]
}
