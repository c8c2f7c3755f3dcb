package controllers

import (
	"sync"
	"time"
)

// Hints for one repository that come within hintGap count as one: the first is
// passed on at once, the others together when it is over.
const (
	hintGap = time.Second
	// rooms is how many repositories of one namespace may have hints within hintGap;
	// for Secrets of gitfn's own namespace there is more room.
	rooms, moreRooms = 256, 4096
	// mergedRefs is how many refs a repository's hints may name until they count for all.
	mergedRefs = 32
	longURL    = 2 << 10
)

// repository is a normalised URL, and the namespace of the Functions that its
// hints may wake; none stands for all.
type repository struct{ namespace, url string }

// bursts gathers the hints of repositories. It is safe for concurrent use; the
// zero value is empty.
type bursts struct {
	mu    sync.Mutex
	of    map[repository]*burst
	count map[string]int // repositories by namespace
	bell  chan struct{}
}

// burst is what one repository waits for.
type burst struct {
	passed  time.Time // when hints were passed on last
	waiting bool      // hints have come since
	all     bool      // one of them was for all refs
	refs    map[string]bool
}

// came tells that hints have come.
func (b *bursts) came() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ready()
}

func (b *bursts) ready() chan struct{} {
	if b.bell == nil {
		b.bell, b.of, b.count = make(chan struct{}, 1), map[repository]*burst{}, map[string]int{}
	}
	return b.bell
}

// add notes a hint, and tells whether there was room for it.
func (b *bursts) add(at repository, refs []string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	bell := b.ready()
	one, known := b.of[at]
	if !known {
		room := rooms
		if at.namespace == "" {
			room = moreRooms
		}
		if b.count[at.namespace] >= room {
			return false
		}
		one = &burst{}
		b.of[at] = one
		b.count[at.namespace]++
	}
	if one.merge(refs) { // who waits already is on the timer
		select {
		case bell <- struct{}{}:
		default:
		}
	}
	return true
}

// merge takes more refs, and tells whether they are the first.
func (b *burst) merge(refs []string) (first bool) {
	first, b.waiting = !b.waiting, true
	if b.all = b.all || len(refs) == 0; b.all {
		return first
	}
	if b.refs == nil {
		b.refs = map[string]bool{}
	}
	for _, ref := range refs {
		b.refs[ref] = true
	}
	b.all = len(b.refs) > mergedRefs
	return first
}

// due takes what is to be passed on now, refs by repository, and says when to ask
// again. No refs stand for all.
func (b *bursts) due(now time.Time) (due map[repository][]string, next time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	due, next = map[repository][]string{}, time.Hour
	for at, one := range b.of {
		left := one.passed.Add(hintGap).Sub(now)
		switch {
		case left > 0:
			next = min(next, left)
		case one.waiting:
			due[at] = one.taken()
			*one = burst{passed: now}
			next = min(next, hintGap)
		default:
			delete(b.of, at)
			if b.count[at.namespace]--; b.count[at.namespace] == 0 {
				delete(b.count, at.namespace)
			}
		}
	}
	return due, next
}

func (b *burst) taken() (refs []string) {
	if b.all {
		return nil
	}
	for ref := range b.refs {
		refs = append(refs, ref)
	}
	return refs
}
