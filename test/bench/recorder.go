package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// sighting is an object as a watch told of it, and when it did.
type sighting struct {
	at     time.Time
	gone   bool // the object has been deleted
	object client.Object
}

// recorder keeps all that watches tell of a namespace, in the order of its
// coming, so that a question can be asked after the fact. It is safe for
// concurrent use.
type recorder struct {
	mu       sync.Mutex
	seen     []sighting
	news     chan struct{} // closed and replaced at each sighting
	firstAt  map[types.UID]int
	versions map[types.UID]string
}

func newRecorder() *recorder {
	return &recorder{news: make(chan struct{}), firstAt: map[types.UID]int{}, versions: map[types.UID]string{}}
}

// mark is a place in time: sightings from now on come after it.
func (r *recorder) mark() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.seen)
}

func (r *recorder) add(s sighting) {
	r.mu.Lock()
	defer r.mu.Unlock()
	uid := s.object.GetUID()
	// A watch that starts anew tells again what is there.
	if !s.gone && r.versions[uid] == s.object.GetResourceVersion() {
		return
	}
	r.versions[uid] = s.object.GetResourceVersion()
	if _, known := r.firstAt[uid]; !known {
		r.firstAt[uid] = len(r.seen)
	}
	r.seen = append(r.seen, s)
	close(r.news)
	r.news = make(chan struct{})
}

// match says whether a sighting is the one that is waited for. The recorder is
// locked while it is asked.
type match func(sighting) bool

// find returns the first sighting from a mark on that matches.
func (r *recorder) find(from int, matches match) (sighting, bool) {
	s, found, _, _ := r.look(from, matches)
	return s, found
}

// look is find, with what tells of news and the mark that they come after.
func (r *recorder) look(from int, matches match) (s sighting, found bool, news <-chan struct{}, end int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.seen[from:] {
		if matches(s) {
			return s, true, r.news, len(r.seen)
		}
	}
	return sighting{}, false, r.news, len(r.seen)
}

// await returns the first sighting from a mark on that matches, as soon as there
// is one. If there is none in time, the error says what was waited for.
func (r *recorder) await(ctx context.Context, what string, from int, matches match) (sighting, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for next := from; ; {
		s, found, news, end := r.look(next, matches)
		if found {
			return s, nil
		}
		next = end
		select {
		case <-ctx.Done():
			return sighting{}, fmt.Errorf("wait for %s: %w", what, ctx.Err())
		case <-news:
		}
	}
}

// new narrows a match to objects that were first seen after a mark.
func (r *recorder) new(from int, matches match) match {
	return func(s sighting) bool { return r.firstAt[s.object.GetUID()] >= from && matches(s) }
}

// watch records one kind of objects until the context ends. It returns when the
// watch stands.
func (r *recorder) watch(ctx context.Context, c client.WithWatch, namespace string, list client.ObjectList) error {
	start := func() (watch.Interface, error) { return c.Watch(ctx, list, client.InNamespace(namespace)) }
	events, err := start()
	if err != nil {
		return fmt.Errorf("watch %T: %w", list, err)
	}
	go func() {
		for {
			for event := range events.ResultChan() {
				object, readable := event.Object.(client.Object)
				if readable && event.Type != watch.Bookmark && event.Type != watch.Error {
					r.add(sighting{at: time.Now(), gone: event.Type == watch.Deleted, object: object})
				}
			}
			// The API server ends watches now and then.
			for events, err = start(); err != nil; events, err = start() {
				select {
				case <-ctx.Done():
					return
				case <-time.After(100 * time.Millisecond):
				}
			}
		}
	}()
	return nil
}
