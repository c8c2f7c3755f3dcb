package gitsource

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
)

const (
	// wantedFor is how long a name is asked together with the others after somebody wanted it.
	wantedFor = 10 * time.Minute
	// wantedMost is how many names are asked together.
	wantedMost = 4096
	// failedFor is how long at most a failure stands for an answer.
	failedFor = 10 * time.Second
)

// refsShare is what everybody shares who asks for refs of one repository with one credential. Requests go out one
// after the other; whoever comes meanwhile waits for one that asks for what he wants.
type refsShare struct {
	ask func(ctx context.Context, names []string, visit func(ref)) error
	now func() time.Time

	mu        sync.Mutex
	wanted    map[string]time.Time // name to when it was wanted last
	answer    *refsAnswer          // the last one
	flight    *refsAnswer          // on its way
	forgotten int                  // how often forget was called
	notBefore time.Time            // the server's Retry-After
}

func newRefsShare(ask func(context.Context, []string, func(ref)) error, now func() time.Time) *refsShare {
	return &refsShare{ask: ask, now: now, wanted: map[string]time.Time{}}
}

// refsAnswer is one request and, once done is closed, its answer.
type refsAnswer struct {
	names     map[string]bool
	asked     time.Time
	forgotten int
	done      chan struct{}
	refs      map[string]ref
	err       error
}

func (a *refsAnswer) covers(names []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool { return !a.names[name] })
}

// get returns the refs of those names, from an answer younger than maxAge.
func (s *refsShare) get(ctx context.Context, names []string, maxAge time.Duration) (map[string]ref, error) {
	for {
		answer, mine, err := s.next(ctx, names, maxAge)
		if err != nil {
			return nil, err
		}
		select {
		case <-answer.done:
		case <-ctx.Done():
			return nil, callerGone(ctx)
		}
		if mine {
			return answer.refs, answer.err
		}
	}
}

// next is the answer to wait for, and whether it is one for these names.
func (s *refsShare) next(ctx context.Context, names []string, maxAge time.Duration) (*refsAnswer, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	for _, name := range names {
		s.wanted[name] = now
	}
	if a := s.answer; a != nil && a.forgotten == s.forgotten && a.covers(names) {
		age := now.Sub(a.asked)
		if age < maxAge && (a.err == nil || age < failedFor) {
			return a, true, nil
		}
	}
	if f := s.flight; f != nil {
		return f, f.forgotten == s.forgotten && f.covers(names), nil
	}
	if wait := s.notBefore.Sub(now); wait > 0 {
		return nil, false, &UnavailableError{RetryAfter: wait, Err: errLeaveAlone}
	}
	s.flight = &refsAnswer{names: s.together(now), asked: now, forgotten: s.forgotten, done: make(chan struct{})}
	for _, name := range names {
		s.flight.names[name] = true
	}
	go s.fly(context.WithoutCancel(ctx), s.flight)
	return s.flight, true, nil
}

var errLeaveAlone = errorf(ErrUnavailable, "ask for refs: the server asked to be left alone")

// together is the names that were wanted lately; the others are dropped.
func (s *refsShare) together(now time.Time) map[string]bool {
	names := make(map[string]bool, len(s.wanted))
	for name, at := range s.wanted {
		if now.Sub(at) > wantedFor || len(names) >= wantedMost {
			delete(s.wanted, name)
			continue
		}
		names[name] = true
	}
	return names
}

func (s *refsShare) fly(ctx context.Context, flight *refsAnswer) {
	names := make([]string, 0, len(flight.names))
	for name := range flight.names {
		names = append(names, name)
	}
	slices.Sort(names)
	flight.refs = map[string]ref{}
	flight.err = s.ask(ctx, names, func(r ref) { flight.refs[r.name] = r })

	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer, s.flight = flight, nil
	if after := retryAfter(flight.err); after > 0 {
		s.notBefore = s.now().Add(after)
	}
	close(flight.done)
}

// forget makes every answer too old, also that of a request that is on its way: it may have been answered
// before what the caller knows about.
func (s *refsShare) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgotten++
}

// candidates is the full names that a reference may mean, in the order in which they are tried.
func candidates(reference string) ([]string, error) {
	switch {
	case reference == "":
		return nil, errorf(ErrRefNotFound, "resolve reference: it is empty; name a branch, a tag or a commit")
	case len(reference) > 1024 || strings.ContainsFunc(reference, func(r rune) bool { return r <= ' ' || r == 0x7f || strings.ContainsRune(`~^:?*[\`, r) }):
		return nil, errorf(ErrRefNotFound, "resolve reference %q: Git allows no such name", oneLine(reference, 80))
	case reference == "HEAD" || strings.HasPrefix(reference, "refs/"):
		return []string{reference}, nil
	}
	return []string{"refs/heads/" + reference, "refs/tags/" + reference}, nil
}

// isCommit tells a commit id from a name.
func isCommit(reference string) bool { return plumbing.IsHash(reference) }

// choose picks the first candidate that is there.
func choose(reference string, names []string, found map[string]ref) (ref, error) {
	for _, name := range names {
		if r, ok := found[name]; ok {
			return r, nil
		}
	}
	return ref{}, errorf(ErrRefNotFound, "resolve reference %q: no branch or tag of that exact name%s", reference, abbreviated(reference))
}

// abbreviated is a hint for those who wrote the beginning of a commit id.
func abbreviated(reference string) string {
	if len(reference) < 7 || len(reference) >= 40 || strings.Trim(strings.ToLower(reference), "0123456789abcdef") != "" {
		return ""
	}
	return "; a commit needs all 40 digits of its id"
}
