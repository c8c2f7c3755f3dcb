package controllers

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// lookAgain is when to ask again after a hint, if the reference has not moved
// by then: forges send hints before all their servers know the push.
var lookAgain = []time.Duration{2 * time.Second, 5 * time.Second, 15 * time.Second}

// Hints remembers who was told to look again, and since when answers of the Git
// server count. It is only in memory: what a restart forgets, the poll finds.
// It is safe for concurrent use; the zero value is empty.
type Hints struct {
	mu        sync.Mutex
	hints     map[types.NamespacedName]hint
	scheduled map[types.NamespacedName]time.Time
}

type hint struct {
	// came is when the hint came, counts since when an answer is new enough.
	came, counts time.Time
	again        int
}

// Add notes a hint for a Function.
func (h *Hints) Add(name types.NamespacedName, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.hints == nil {
		h.hints = map[types.NamespacedName]hint{}
	}
	h.hints[name] = hint{came: now, counts: now}
}

// since says how old an answer may be for a Function that was hinted at: no
// older than the hint. Many Functions of one hint so share one answer.
func (h *Hints) since(name types.NamespacedName, now time.Time) (age time.Duration, hinted bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	pending, hinted := h.hints[name]
	if !hinted {
		return 0, false
	}
	if pending.again < len(lookAgain) && now.Sub(pending.came) >= lookAgain[pending.again] {
		pending.counts = pending.came.Add(lookAgain[pending.again])
		pending.again++
		h.hints[name] = pending
	}
	return now.Sub(pending.counts), true
}

// pending reports whether a hint for a Function was not answered yet.
func (h *Hints) pending(name types.NamespacedName) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, pending := h.hints[name]
	return pending
}

// looked notes that the source was asked. It returns when to ask again because
// of a hint that showed nothing new yet.
func (h *Hints) looked(name types.NamespacedName, now time.Time, moved bool, metrics *Metrics) (again time.Duration, hinted bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	pending, hinted := h.hints[name]
	if !hinted {
		return 0, false
	}
	if moved {
		metrics.foundAfter(now.Sub(pending.came))
	}
	if moved || pending.again >= len(lookAgain) {
		delete(h.hints, name)
		return 0, false
	}
	return max(pending.came.Add(lookAgain[pending.again]).Sub(now), time.Millisecond), true
}

// sinceScheduled says how old an answer may be for a Function with a schedule:
// one from its time on counts once that has come, any before. Many Functions of
// one schedule so share one answer. It notes the next time.
func (h *Hints) sinceScheduled(name types.NamespacedName, now time.Time, next time.Duration) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.scheduled == nil {
		h.scheduled = map[types.NamespacedName]time.Time{}
	}
	due, known := h.scheduled[name]
	h.scheduled[name] = now.Add(next)
	switch {
	case !known:
		return freshEnough
	case now.Before(due):
		return 365 * 24 * time.Hour
	}
	return now.Sub(due) + time.Nanosecond
}

// forget drops what is known of a Function that is gone.
func (h *Hints) forget(name types.NamespacedName) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.hints, name)
	delete(h.scheduled, name)
}
