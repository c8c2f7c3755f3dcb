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
)

// refsShare is what everybody shares who asks for refs of one repository with one credential. Requests go out one
// after the other; whoever comes meanwhile waits for one that asks for what he wants.
type refsShare struct {
	ask func(ctx context.Context, names []string, visit func(ref)) error
	now func() time.Time
	// recovered is told of the first answer after failures. It must be quick.
	recovered func()

	mu        sync.Mutex
	wanted    map[string]time.Time // name or range to when it was wanted last
	answer    *refsAnswer          // the last one
	flight    *refsAnswer          // on its way
	forgotten int                  // how often forget was called
	backoff   backoff
}

func newRefsShare(ask func(context.Context, []string, func(ref)) error, now func() time.Time, recovered func()) *refsShare {
	return &refsShare{ask: ask, now: now, recovered: recovered, wanted: map[string]time.Time{}}
}

// refsAnswer is one request and, once done is closed, its answer.
type refsAnswer struct {
	names     map[string]bool // and ranges
	asked     time.Time
	forgotten int
	done      chan struct{}
	found     *foundRefs
	err       error
}

// foundRefs is what was wanted of a repository's refs, and nothing else: there may be a million.
type foundRefs struct {
	refs map[string]ref // by name
	tags tags           // for the ranges
}

// keep is what to ask a server for so that names and ranges are answered, and what to do with each ref.
func (f *foundRefs) keep(wanted map[string]bool) (names []string, visit func(ref)) {
	f.refs = map[string]ref{}
	for name := range wanted {
		if !strings.HasPrefix(name, semverPrefix) {
			names = append(names, name)
		} else if constraints, err := parseRange(name); err == nil {
			f.tags.ranges = append(f.tags.ranges, &tagRange{reference: name, constraints: constraints})
		}
	}
	if len(f.tags.ranges) > 0 {
		names = append(names, tagPrefix)
	}
	slices.Sort(names)
	return names, func(r ref) {
		if wanted[r.name] {
			f.refs[r.name] = r
		}
		if len(f.tags.ranges) > 0 && strings.HasPrefix(r.name, tagPrefix) {
			f.tags.add(r)
		}
	}
}

func (a *refsAnswer) covers(names []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool { return !a.names[name] })
}

// get returns an answer younger than maxAge to those names and ranges.
func (s *refsShare) get(ctx context.Context, names []string, maxAge time.Duration) (*foundRefs, error) {
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
			return answer.found, answer.err
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
	if a := s.answer; a != nil {
		age, forgotten := now.Sub(a.asked), a.forgotten != s.forgotten
		if a.err == nil && age < maxAge && !forgotten && a.covers(names) {
			return a, true, nil
		}
		if left := s.backoff.left(age, maxAge, forgotten, now); a.err != nil && left > 0 {
			return nil, false, standing(a.err, left)
		}
	}
	if f := s.flight; f != nil {
		return f, f.forgotten == s.forgotten && f.covers(names), nil
	}
	if err := s.leftAlone(now); err != nil {
		return nil, false, err
	}
	s.flight = &refsAnswer{names: s.together(now), asked: now, forgotten: s.forgotten, done: make(chan struct{})}
	for _, name := range names {
		s.flight.names[name] = true
	}
	go s.fly(context.WithoutCancel(ctx), s.flight)
	return s.flight, true, nil
}

// leftAlone is an error while the server wants to be left alone. The caller holds mu.
func (s *refsShare) leftAlone(now time.Time) error {
	if wait := s.backoff.theirs.Sub(now); wait > 0 {
		return &UnavailableError{RetryAfter: wait, Err: errLeaveAlone}
	}
	return nil
}

// held is leftAlone for other requests than those for refs.
func (s *refsShare) held() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leftAlone(s.now())
}

// hold takes down what another request than one for refs was told.
func (s *refsShare) hold(err error) {
	if after := retryAfter(err); after > 0 {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.backoff.theirs = s.now().Add(after)
	}
}

var errLeaveAlone = errorf(ErrUnavailable, "the server asked to be left alone")

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
	flight.found = &foundRefs{}
	names, visit := flight.found.keep(flight.names)
	flight.err = s.ask(ctx, names, visit)

	s.mu.Lock()
	defer s.mu.Unlock()
	recovered := s.backoff.failures > 0 && flight.err == nil
	var wait time.Duration
	s.backoff, wait = s.backoff.noted(flight.err, s.now())
	flight.err = standing(flight.err, wait)
	s.answer, s.flight = flight, nil
	close(flight.done)
	if recovered {
		s.recovered()
	}
}

// forget makes every answer too old, also that of a request that is on its way: it may have been answered
// before what the caller knows about.
func (s *refsShare) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgotten++
}

// CheckReference tells whether a reference may mean anything in some repository: see Client.Resolve. The error matches
// ErrRefNotFound.
func CheckReference(reference string) error {
	_, err := candidates(reference)
	return err
}

// candidates is the full names that a reference may mean, in the order in which they are tried, or else its range.
func candidates(reference string) ([]string, error) {
	switch {
	case reference == "":
		return nil, errorf(ErrRefNotFound, "resolve reference: it is empty; name a branch, a tag or a commit")
	case strings.HasPrefix(reference, semverPrefix):
		_, err := parseRange(reference)
		return []string{reference}, err
	case len(reference) > 1024 || strings.ContainsFunc(reference, func(r rune) bool { return r <= ' ' || r == 0x7f || strings.ContainsRune(`~^:?*[\`, r) }):
		return nil, errorf(ErrRefNotFound, "resolve reference %q: Git allows no such name", oneLine(reference, 80))
	case strings.HasSuffix(reference, "/"):
		return nil, errorf(ErrRefNotFound, "resolve reference %q: a name does not end in a slash", oneLine(reference, 80))
	case reference == "HEAD" || strings.HasPrefix(reference, "refs/"):
		return []string{reference}, nil
	}
	return []string{branchPrefix + reference, tagPrefix + reference}, nil
}

const branchPrefix = "refs/heads/"

// isCommit tells a commit id from a name.
func isCommit(reference string) bool { return plumbing.IsHash(reference) }

// choose picks the first candidate that is there, and warns where there are two.
func choose(reference string, names []string, found *foundRefs) (at ref, warnings []string, err error) {
	if strings.HasPrefix(reference, semverPrefix) {
		at, err = found.tags.choose(reference)
		return at, nil, err
	}
	for i, name := range names {
		at, ok := found.refs[name]
		if !ok {
			continue
		}
		if i+1 < len(names) && found.refs[names[i+1]] != (ref{}) {
			warnings = append(warnings, "there is a branch and a tag named "+oneLine(reference, 80)+": the branch is followed; write "+oneLine(tagPrefix+reference, 100)+" for the tag")
		}
		return at, warnings, nil
	}
	return ref{}, nil, errorf(ErrRefNotFound, "resolve reference %q: no branch or tag of that exact name%s", reference, abbreviated(reference))
}

// abbreviated is a hint for those who wrote the beginning of a commit id.
func abbreviated(reference string) string {
	if len(reference) < 7 || len(reference) >= 40 || strings.Trim(strings.ToLower(reference), "0123456789abcdef") != "" {
		return ""
	}
	return "; a commit needs all 40 digits of its id"
}
