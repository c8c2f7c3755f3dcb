package gitsource

import (
	"errors"
	"time"
)

const (
	// firstBackoff is how long a repository is left alone after one failure. Each further one doubles it.
	firstBackoff = 30 * time.Second
	// lastBackoff is the longest.
	lastBackoff = 15 * time.Minute
	// urgent is the longest maxAge of a caller who knows of a change, and does not wait for a back-off to end. A
	// failure stands for so long even then.
	urgent = 3 * time.Second
)

// backoff is how long a server is left alone that fails. The zero value is that of one that does not.
type backoff struct {
	failures int
	// ours ends the back-off, theirs what the server asked for; both are zero while all is well.
	ours, theirs time.Time
}

// noted is the back-off after one more answer, and how long it lasts.
func (b backoff) noted(err error, now time.Time) (backoff, time.Duration) {
	if err == nil {
		return backoff{}, 0
	}
	wait := lastBackoff
	if b.failures < 5 {
		wait = firstBackoff << b.failures
	}
	next := backoff{failures: b.failures + 1, ours: now.Add(wait)}
	if after := retryAfter(err); after > 0 {
		next.theirs = now.Add(after)
		wait = max(wait, after)
	}
	return next, wait
}

// left is how long the last failure, of that age, still stands.
func (b backoff) left(age, maxAge time.Duration, forgotten bool, now time.Time) time.Duration {
	theirs := b.theirs.Sub(now)
	if maxAge <= urgent || forgotten {
		return max(theirs, urgent-age)
	}
	return max(theirs, b.ours.Sub(now))
}

// standing is an error that is told again: the same sentence, and how long it still stands.
func standing(err error, left time.Duration) error {
	var unavailable *UnavailableError
	if errors.As(err, &unavailable) {
		return &UnavailableError{RetryAfter: left, Err: unwrapped(err)}
	}
	return err
}

// unwrapped is what an UnavailableError holds, or else the error.
func unwrapped(err error) error {
	if unavailable, is := err.(*UnavailableError); is {
		return unavailable.Err
	}
	return err
}
