package gitsource

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// failedPacksMost is how many failures of packs are remembered for one repository.
const failedPacksMost = 16

// sparing is a remote that does not ask for a commit again and again that cannot be had: one that is too large
// costs as much to refuse as to take.
type sparing struct {
	remote
	now func() time.Time

	mu     sync.Mutex
	failed map[string]failedPack
}

type failedPack struct {
	asked   time.Time
	err     error
	backoff backoff
}

func (s *sparing) pack(ctx context.Context, w want, store func(io.Reader) error) error {
	if !w.shallow || len(w.ids) == 0 {
		return s.remote.pack(ctx, w, store)
	}
	what := fmt.Sprint(w.ids[0], w.blobless, len(w.haves) > 0)
	s.mu.Lock()
	last := s.failed[what]
	s.mu.Unlock()
	if left := last.backoff.ours.Sub(s.now()); left > 0 {
		return standing(last.err, left)
	}
	asked := s.now()
	err := s.remote.pack(ctx, w, store)
	if ctx.Err() == nil && !errors.Is(err, errBroken) {
		s.note(what, asked, last.backoff, err)
	}
	return err
}

func (s *sparing) note(what string, asked time.Time, before backoff, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		delete(s.failed, what)
		return
	}
	if s.failed == nil || len(s.failed) >= failedPacksMost {
		s.failed = map[string]failedPack{}
	}
	after, _ := before.noted(err, s.now())
	s.failed[what] = failedPack{asked, err, after}
}

// hurry forgets the failures that are not just from now: somebody knows of a change.
func (s *sparing) hurry() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for what, f := range s.failed {
		if s.now().Sub(f.asked) >= urgent {
			delete(s.failed, what)
		}
	}
}
