package gitsource

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"sync"
	"time"
)

// endpoint is what every remote has, however its server is reached: where it is, what is shown to it, what it
// may cost, and what it can do. It is safe for concurrent use.
type endpoint struct {
	url         *url.URL
	credentials Credentials
	limits      Limits
	timeout     time.Duration
	now         func() time.Time
	// secrets are what the server was shown, in every form.
	secrets func() []string

	mu   sync.Mutex
	able *abilities // nil until the server was asked
	at   time.Time  // when
}

func newEndpoint(at *url.URL, credentials Credentials, o Options) endpoint {
	return endpoint{url: at, credentials: credentials, limits: o.Limits, timeout: o.Timeout, now: o.Now, secrets: credentials.secrets}
}

// refsBytes bounds a refs answer: a million refs are about 60 MiB, and none of it is kept.
const refsBytes = 512 << 20

// packBytes bounds an answer with a pack: the pack, and what is said around it.
func (s *endpoint) packBytes() int64 { return s.limits.PackBytes + 1<<20 }

// knownFor is how long it is believed what a server can do, and where a redirect leads.
const knownFor = time.Hour

// learn keeps what the server said that it can do.
func (s *endpoint) learn(able abilities) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.able, s.at = &able, s.now()
}

// known returns what the server can do, if it was asked lately.
func (s *endpoint) known() (able abilities, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.able == nil || s.now().Sub(s.at) >= knownFor {
		return abilities{}, false
	}
	return *s.able, true
}

// forget makes the next request ask what the server can do, and where it is.
func (s *endpoint) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.able = nil
}

var errTimeout = errors.New("no answer in time")

// timedOut tells the timeout of a request from the end of the caller's context.
func timedOut(ctx context.Context, err error) error {
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		<-ctx.Done() // package net looks at the deadline itself, and may be a moment ahead
	}
	switch {
	case ctx.Err() == nil:
		return err
	case context.Cause(ctx) == errTimeout:
		return errTimeout
	}
	return callerGone(ctx)
}

// contextError is the end of a caller's context. It has a type of its own because a timeout of package net claims to
// be context.DeadlineExceeded too.
type contextError struct{ error }

func (e *contextError) Unwrap() error { return e.error }

func callerGone(ctx context.Context) error { return &contextError{ctx.Err()} }

// explain names the repository in an error, and gives what is nobody's kind yet the kind ErrUnavailable. The words
// of net/http about a request go: they repeat URLs, and a redirect could have put anything there.
func (s *endpoint) explain(err error) error {
	if err == nil {
		return nil
	}
	err = withoutURL(err)
	var unavailable *UnavailableError
	var kind *kindError
	var gone *contextError
	switch {
	case errors.As(err, &unavailable):
		return &UnavailableError{RetryAfter: unavailable.RetryAfter, Err: s.about(unavailable.Err)}
	case errors.As(err, &kind), errors.As(err, &gone), errors.Is(err, ErrAddressRefused):
		return s.about(err)
	case refused(err):
		return s.about(&refusedError{err})
	case errors.Is(err, errProtocol):
		return s.about(errorf(ErrUnsupported, "%v", err))
	}
	return &UnavailableError{Err: s.about(opaque{err})}
}

// refusedError is a server's word that it does not have an object, or does not give it.
type refusedError struct{ error }

func (e *refusedError) Is(target error) bool { return target == ErrRefNotFound }
func (e *refusedError) Unwrap() error        { return e.error }

// opaque keeps the words of an error and hides what it claims to be.
type opaque struct{ err error }

func (o opaque) Error() string { return o.err.Error() }

// about names the repository once, however often an error passes here.
func (s *endpoint) about(err error) error {
	var named *aboutError
	if errors.As(err, &named) {
		return err
	}
	most := 500
	if errors.Is(err, ErrHostKey) {
		most = 2000 // a line of known_hosts is worth nothing unless it is whole
	}
	return &aboutError{url: spell(s.url), text: oneLine(s.redact(err.Error()), most), err: err}
}

type aboutError struct {
	url, text string
	err       error
}

func (e *aboutError) Error() string { return "ask " + e.url + ": " + e.text }
func (e *aboutError) Unwrap() error { return e.err }

// redact takes the credentials out of words that a server may have repeated.
func (s *endpoint) redact(text string) string {
	for _, secret := range s.secrets() {
		text = strings.ReplaceAll(text, secret, "redacted")
	}
	return text
}
