package gitsource

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// refsBytes bounds a refs answer: a million refs are about 60 MiB, and none of it is kept.
const refsBytes = 512 << 20

// server speaks Git's smart HTTP protocol for one repository and credential. It is safe for concurrent use.
type server struct {
	url         *url.URL
	credentials Credentials
	http        *http.Client
	limits      Limits
	timeout     time.Duration
	now         func() time.Time

	mu   sync.Mutex
	able *abilities // nil until the server was asked
	base string     // where it answered, after redirects
	at   time.Time  // when
}

func newServer(at *url.URL, credentials Credentials, transport http.RoundTripper, o Options) *server {
	s := &server{url: at, credentials: credentials, limits: o.Limits, timeout: o.Timeout, now: o.Now}
	s.http = &http.Client{
		Transport:     originAuth{next: transport, origin: origin(at), credentials: credentials},
		CheckRedirect: checkRedirect,
	}
	return s
}

// discover asks what the server can do. One without protocol v2 lists its refs: they go to visit.
func (s *server) discover(ctx context.Context, visit func(ref)) (abilities, error) {
	const suffix = "/info/refs"
	body, at, err := s.ask(ctx, http.MethodGet, s.url.String()+suffix+"?service=git-upload-pack", nil, refsBytes)
	if err != nil {
		return abilities{}, err
	}
	defer body.Close()
	able, err := readAdvertisement(body, s.limits.Refs, visit)
	if err != nil {
		return abilities{}, s.explain(err)
	}
	base, found := strings.CutSuffix(at.Path, suffix)
	if !found {
		return abilities{}, s.explain(errorf(ErrUnsupported, "redirect to what is no repository"))
	}
	root := url.URL{Scheme: at.Scheme, Host: at.Host, Path: base}
	s.mu.Lock()
	s.able, s.base, s.at = &able, root.String(), s.now()
	s.mu.Unlock()
	return able, nil
}

// knownFor is how long it is believed what a server can do, and where a redirect leads.
const knownFor = time.Hour

// known returns what the server can do, if it was asked lately.
func (s *server) known() (able abilities, base string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.able == nil || s.now().Sub(s.at) >= knownFor {
		return abilities{}, "", false
	}
	return *s.able, s.base, true
}

// forget makes the next request ask what the server can do, and where it is.
func (s *server) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.able = nil
}

// refs asks for refs by name, and hands those that are there to visit.
func (s *server) refs(ctx context.Context, names []string, visit func(ref)) error {
	visit = wanted(names, visit)
	able, base, ok := s.known()
	if !ok || able.version != 2 {
		var err error
		if able, err = s.discover(ctx, visit); err != nil || able.version != 2 {
			return err
		}
		_, base, _ = s.known()
	}
	body, _, err := s.ask(ctx, http.MethodPost, base+"/git-upload-pack", lsRefs(able, names).Bytes(), refsBytes)
	if err != nil {
		s.forget()
		return err
	}
	defer body.Close()
	if err := readRefs(body, s.limits.Refs, visit); err != nil {
		s.forget()
		return s.explain(err)
	}
	return nil
}

// abilities asks what the server can do, once.
func (s *server) abilities(ctx context.Context) (abilities, error) {
	if able, _, ok := s.known(); ok {
		return able, nil
	}
	return s.discover(ctx, func(ref) {})
}

// pack asks for a pack and hands it to store while it arrives.
func (s *server) pack(ctx context.Context, w want, store func(io.Reader) error) error {
	able, err := s.abilities(ctx)
	if err != nil {
		return err
	}
	_, base, _ := s.known()
	if base == "" {
		base = s.url.String()
	}
	body, _, err := s.ask(ctx, http.MethodPost, base+"/git-upload-pack", packRequest(able, w).Bytes(), s.limits.PackBytes+1<<20)
	if err != nil {
		s.forget()
		return err
	}
	defer body.Close()
	pack, err := packReader(body, able)
	if err == nil {
		err = store(pack)
	}
	return s.explain(err)
}

// ask makes one request and returns the body of a good answer, and the URL that gave it.
func (s *server) ask(ctx context.Context, method, at string, body []byte, limit int64) (io.ReadCloser, *url.URL, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.timeout, errTimeout)
	req, err := http.NewRequestWithContext(ctx, method, at, strings.NewReader(string(body)))
	if err != nil {
		cancel()
		return nil, nil, s.explain(errorf(ErrInvalidURL, "URL is not well formed"))
	}
	req.Header.Set("User-Agent", userAgent)
	req.Header.Set("Git-Protocol", "version=2")
	req.Header.Set("Accept", "application/x-git-upload-pack-result, application/x-git-upload-pack-advertisement")
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/x-git-upload-pack-request")
	}
	resp, err := s.http.Do(req)
	if err != nil {
		err = s.explain(timedOut(ctx, err))
		cancel()
		return nil, nil, err
	}
	answer := &answerBody{ctx: ctx, cancel: cancel, body: resp.Body, capped: capReader{r: resp.Body, left: limit, what: "answer"}}
	if err := s.judge(resp, method); err != nil {
		answer.Close()
		return nil, nil, s.explain(err)
	}
	return answer, resp.Request.URL, nil
}

var errTimeout = errors.New("no answer in time")

// timedOut tells the timeout of a request from the end of the caller's context.
func timedOut(ctx context.Context, err error) error {
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

// answerBody is the body of an answer, with its limit and its timeout.
type answerBody struct {
	ctx    context.Context
	cancel context.CancelFunc
	body   io.ReadCloser
	capped capReader
}

func (a *answerBody) Read(p []byte) (int, error) {
	n, err := a.capped.Read(p)
	if err != nil && err != io.EOF {
		err = timedOut(a.ctx, err)
	}
	return n, err
}

func (a *answerBody) Close() error {
	_, _ = io.CopyN(io.Discard, a.body, 4<<10) // an answer read to its end leaves the connection for the next request
	a.cancel()
	return a.body.Close()
}
