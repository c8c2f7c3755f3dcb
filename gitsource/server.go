package gitsource

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// maxRedirects is how many redirects one request follows.
const maxRedirects = 5

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

// newTransport connects through the dialer and trusts the system's certificates and those of the bundles. A proxy of the
// environment is not used: it would connect where the dialer cannot look.
func newTransport(dial *net.Dialer, bundles ...[]byte) (*http.Transport, error) {
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	for _, bundle := range bundles {
		if len(bundle) > 0 && !roots.AppendCertsFromPEM(bundle) {
			return nil, errorf(ErrAuth, "read CA bundle: it holds no certificate in PEM form")
		}
	}
	return &http.Transport{
		DialContext:            dial.DialContext,
		TLSClientConfig:        &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2:      true,
		MaxIdleConns:           64,
		MaxIdleConnsPerHost:    4,
		IdleConnTimeout:        90 * time.Second,
		TLSHandshakeTimeout:    10 * time.Second,
		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: 64 << 10,
	}, nil
}

// originAuth shows the credentials to one origin. It decides for each request, redirects included: what
// net/http copies to a subdomain does not count.
type originAuth struct {
	next        http.RoundTripper
	origin      string
	credentials Credentials
}

func (t originAuth) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Del("Authorization")
	req.Header.Del("Cookie")
	req.Header.Del("Referer")
	if !t.credentials.anonymous() && origin(req.URL) == t.origin {
		req.SetBasicAuth(t.credentials.Username, t.credentials.Password)
	}
	return t.next.RoundTrip(req)
}

// origin is scheme, host and port.
func origin(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = defaultPort[u.Scheme]
	}
	return u.Scheme + "://" + strings.ToLower(u.Hostname()) + ":" + port
}

// checkRedirect lets a redirect go on to where a user could have pointed as well, and never to less safety.
func checkRedirect(req *http.Request, via []*http.Request) error {
	last := via[len(via)-1]
	switch {
	case len(via) > maxRedirects:
		return errorf(ErrUnsupported, "more than %d redirects", maxRedirects)
	case req.URL.Scheme != "http" && req.URL.Scheme != "https" || req.URL.User != nil:
		return errorf(ErrInvalidURL, "redirect to a URL that is refused")
	case last.URL.Scheme == "https" && req.URL.Scheme != "https":
		return errorf(ErrInvalidURL, "redirect from https to http is refused")
	case last.Method != req.Method:
		return errorf(ErrUnsupported, "redirect of a request with a body")
	}
	return nil
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

// refs asks for refs by name, and returns those that are there.
func (s *server) refs(ctx context.Context, names []string) (map[string]ref, error) {
	wanted := make(map[string]bool, len(names))
	for _, name := range names {
		wanted[name] = true
	}
	found := map[string]ref{}
	collect := func(r ref) {
		if wanted[r.name] {
			found[r.name] = r
		}
	}
	able, base, ok := s.known()
	if !ok || able.version != 2 {
		var err error
		if able, err = s.discover(ctx, collect); err != nil || able.version != 2 {
			return found, err
		}
		_, base, _ = s.known()
	}
	body, _, err := s.ask(ctx, http.MethodPost, base+"/git-upload-pack", lsRefs(able, names).Bytes(), refsBytes)
	if err != nil {
		s.forget()
		return nil, err
	}
	defer body.Close()
	if err := readRefs(body, s.limits.Refs, collect); err != nil {
		s.forget()
		return nil, s.explain(err)
	}
	return found, nil
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

// judge makes an error of an answer that is none.
func (s *server) judge(resp *http.Response, method string) error {
	retryAfter := s.retryAfter(resp.Header.Get("Retry-After"))
	switch code := resp.StatusCode; {
	case code == http.StatusOK:
		want := map[string]string{http.MethodGet: "advertisement", http.MethodPost: "result"}[method]
		if !strings.HasPrefix(resp.Header.Get("Content-Type"), "application/x-git-upload-pack-"+want) {
			return errorf(ErrUnsupported, "the server answers with a page, not with a Git repository: check the URL and the credentials")
		}
		return nil
	case code == http.StatusTooManyRequests, code == http.StatusRequestTimeout, code >= 500, code == http.StatusForbidden && retryAfter > 0:
		return &UnavailableError{RetryAfter: retryAfter, Err: fmt.Errorf("the server answers %d", code)}
	case (code == http.StatusUnauthorized || code == http.StatusForbidden) && s.credentials.anonymous():
		return errorf(ErrAuth, "the server wants credentials (%d): the repository is private or does not exist", code)
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return errorf(ErrAuth, "user or token refused (%d)", code)
	case code == http.StatusNotFound || code == http.StatusGone:
		return errorf(ErrRepositoryNotFound, "no such repository (%d); a private one looks the same without credentials that may read it", code)
	default:
		return errorf(ErrUnsupported, "the server answers %d", code)
	}
}

// maxRetryAfter bounds what a server can ask for.
const maxRetryAfter = time.Hour

func (s *server) retryAfter(header string) time.Duration {
	if seconds, err := strconv.Atoi(header); err == nil {
		return min(max(0, time.Duration(min(seconds, 1<<20))*time.Second), maxRetryAfter)
	}
	if at, err := http.ParseTime(header); err == nil {
		return min(max(0, at.Sub(s.now())), maxRetryAfter)
	}
	return 0
}

// explain names the repository in an error, and gives what is nobody's kind yet the kind ErrUnavailable. The words
// of net/http about a request go: they repeat URLs, and a redirect could have put anything there.
func (s *server) explain(err error) error {
	if err == nil {
		return nil
	}
	var about *url.Error
	if errors.As(err, &about) {
		err = about.Err
	}
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
func (s *server) about(err error) error {
	var named *aboutError
	if errors.As(err, &named) {
		return err
	}
	return &aboutError{url: s.url.Redacted(), text: oneLine(s.redact(err.Error()), 500), err: err}
}

type aboutError struct {
	url, text string
	err       error
}

func (e *aboutError) Error() string { return "ask " + e.url + ": " + e.text }
func (e *aboutError) Unwrap() error { return e.err }

// redact takes the credentials out of words that a server may have repeated.
func (s *server) redact(text string) string {
	c := s.credentials
	for _, secret := range []string{base64.StdEncoding.EncodeToString([]byte(c.Username + ":" + c.Password)), c.Password, url.QueryEscape(c.Password), url.PathEscape(c.Password)} {
		if len(c.Password) > 0 {
			text = strings.ReplaceAll(text, secret, "redacted")
		}
	}
	return text
}
