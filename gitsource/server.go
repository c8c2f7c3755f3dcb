package gitsource

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// server speaks Git's smart HTTP protocol for one repository and credential. It is safe for concurrent use.
type server struct {
	endpoint
	http *http.Client
	app  *appTokens // nil without a GitHub App
	base string     // where it answered, after redirects; guarded by mu
}

func newServer(at *url.URL, credentials Credentials, ways routes, o Options) *server {
	s := &server{endpoint: newEndpoint(at, credentials, o)}
	shown := func(context.Context) (string, string, error) { return credentials.Username, credentials.Password, nil }
	if credentials.GitHubApp != nil {
		s.app = newAppTokens(*credentials.GitHubApp, at, ways, o.Now)
		shown = s.app.show
		s.secrets = func() []string {
			token, _ := s.app.last()
			return append(credentials.secrets(), Credentials{Username: appUsername, Password: token}.secrets()...)
		}
	}
	s.http = &http.Client{Transport: originAuth{ways, origin(at), shown}, CheckRedirect: checkRedirect}
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
	s.base = root.String()
	s.mu.Unlock()
	s.learn(able)
	return able, nil
}

// where is the URL at which the server answered last, after redirects.
func (s *server) where() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.base == "" {
		return s.url.String()
	}
	return s.base
}

// refs asks for refs by name, and hands those that are there to visit.
func (s *server) refs(ctx context.Context, names []string, visit func(ref)) error {
	visit = wanted(names, visit)
	able, ok := s.known()
	if !ok || able.version != 2 {
		var err error
		if able, err = s.discover(ctx, visit); err != nil || able.version != 2 {
			return err
		}
	}
	body, _, err := s.ask(ctx, http.MethodPost, s.where()+"/git-upload-pack", lsRefs(able, names).Bytes(), refsBytes)
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
	if able, ok := s.known(); ok {
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
	body, _, err := s.ask(ctx, http.MethodPost, s.where()+"/git-upload-pack", packRequest(able, w).Bytes(), s.packBytes())
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
		err = s.explain(explainRoute(timedOut(ctx, err)))
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
