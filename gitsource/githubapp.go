package gitsource

import (
	"bytes"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// appUsername is the user name that goes with a token of an installation.
	appUsername = "x-access-token"
	// renewBefore is how long before its end a token is made anew.
	renewBefore = 5 * time.Minute
	// assertionAge and assertionLife bound the word that the App signs: GitHub takes at most ten minutes, and clocks differ.
	assertionAge, assertionLife = time.Minute, 9 * time.Minute
	// appAnswerBytes bounds an answer of the API.
	appAnswerBytes = 1 << 20
)

// appTokens makes tokens of a GitHub App for one repository: only its contents may be read with them. It is safe for
// concurrent use, and asks the API once however many want a token.
type appTokens struct {
	app        GitHubApp
	repository *url.URL
	http       *http.Client
	now        func() time.Time
	turn       chan struct{} // held by who asks

	mu    sync.Mutex
	token string
	ends  time.Time
}

func newAppTokens(app GitHubApp, repository *url.URL, ways routes, now func() time.Time) *appTokens {
	next := ways.foreign
	if api, err := app.base(); err == nil && origin(api) == origin(repository) {
		next = ways.own
	}
	return &appTokens{
		app: app, repository: repository, now: now, turn: make(chan struct{}, 1),
		http: &http.Client{Transport: next, CheckRedirect: func(*http.Request, []*http.Request) error {
			return errorf(ErrUnsupported, "the API of the GitHub App answers with a redirect: check %s", keyAppBaseURL)
		}},
	}
}

// show returns the user name and the token.
func (t *appTokens) show(ctx context.Context) (username, password string, err error) {
	select {
	case t.turn <- struct{}{}:
		defer func() { <-t.turn }()
	case <-ctx.Done():
		return "", "", ctx.Err()
	}
	if token, left := t.last(); left > renewBefore {
		return appUsername, token, nil
	}
	token, ends, err := t.ask(ctx)
	if err != nil {
		if token, left := t.last(); left > 0 && errors.Is(err, ErrUnavailable) {
			return appUsername, token, nil // it is good for a while
		}
		return "", "", err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.token, t.ends = token, ends
	return appUsername, token, nil
}

// last is the last token, and how long it is good.
func (t *appTokens) last() (token string, left time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.token, t.ends.Sub(t.now())
}

// forget makes the next request ask for a token: the last one was refused.
func (t *appTokens) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ends = time.Time{}
}

// ask asks the API for a token.
func (t *appTokens) ask(ctx context.Context) (token string, ends time.Time, err error) {
	base, err := t.api()
	if err != nil {
		return "", ends, err
	}
	assertion, err := t.assertion()
	if err != nil {
		return "", ends, err
	}
	at := base.JoinPath("app/installations", t.app.Installation, "access_tokens")
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at.String(), bytes.NewReader(t.wish()))
	if err != nil {
		return "", ends, errorf(ErrAuth, "%s is no URL", keyAppBaseURL)
	}
	req.Header.Set("Accept", "application/vnd.github+json")
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "gitfn")
	req.Header.Set("Authorization", "Bearer "+assertion)
	resp, err := t.http.Do(req)
	if err != nil {
		return "", ends, t.away(base, explainRoute(withoutURL(err)))
	}
	defer resp.Body.Close()
	if err := t.judge(base, resp); err != nil {
		return "", ends, err
	}
	var answer struct {
		Token     string    `json:"token"`
		ExpiresAt time.Time `json:"expires_at"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, appAnswerBytes)).Decode(&answer); err != nil || answer.Token == "" || answer.ExpiresAt.IsZero() {
		return "", ends, errorf(ErrUnsupported, "the API at %s answers without a token: check %s", base.Host, keyAppBaseURL)
	}
	return answer.Token, answer.ExpiresAt, nil
}

// api is the API that the App belongs to, if it is that of the repository's server: its tokens are of no use to
// another, and nobody else's business.
func (t *appTokens) api() (*url.URL, error) {
	base, err := t.app.base()
	if err != nil {
		return nil, err
	}
	api, host := strings.ToLower(base.Hostname()), strings.ToLower(t.repository.Hostname())
	if api != host && api != "api."+host {
		return nil, errorf(ErrAuth, "a GitHub App of %s has no tokens for %s: check %s", api, host, keyAppBaseURL)
	}
	if base.Scheme == "https" && t.repository.Scheme != "https" {
		return nil, errorf(ErrAuth, "a token of a GitHub App is not sent without TLS: write the URL with https")
	}
	return base, nil
}

// wish narrows the token down to reading the one repository. A URL that is not owner/name leaves out the name.
func (t *appTokens) wish() []byte {
	wish := struct {
		Repositories []string          `json:"repositories,omitempty"`
		Permissions  map[string]string `json:"permissions"`
	}{Permissions: map[string]string{"contents": "read"}}
	if owner, name := path.Split(strings.Trim(t.repository.Path, "/")); strings.Count(owner, "/") == 1 {
		wish.Repositories = []string{strings.TrimSuffix(name, ".git")}
	}
	text, err := json.Marshal(wish)
	if err != nil {
		panic(err) // strings always marshal
	}
	return text
}

// assertion is a JSON Web Token (RFC 7519) in which the App says who it is, signed with RS256.
func (t *appTokens) assertion() (string, error) {
	key, err := t.app.key()
	if err != nil {
		return "", err
	}
	issuer, err := json.Marshal(t.app.ID)
	if err != nil {
		return "", errorf(ErrAuth, "%s cannot be sent", keyAppID)
	}
	now := t.now()
	claims := fmt.Sprintf(`{"iat":%d,"exp":%d,"iss":%s}`, now.Add(-assertionAge).Unix(), now.Add(assertionLife).Unix(), issuer)
	signed := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"RS256","typ":"JWT"}`)) + "." + base64.RawURLEncoding.EncodeToString([]byte(claims))
	sum := sha256.Sum256([]byte(signed))
	signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
	if err != nil {
		return "", errorf(ErrAuth, "%s cannot sign", keyAppPrivateKey)
	}
	return signed + "." + base64.RawURLEncoding.EncodeToString(signature), nil
}

// away makes an error of the API that gave no answer.
func (t *appTokens) away(base *url.URL, err error) error {
	var kind *kindError
	if errors.As(err, &kind) || errors.Is(err, ErrAddressRefused) {
		return fmt.Errorf("ask %s for a token: %w", base.Host, err)
	}
	return &UnavailableError{Err: fmt.Errorf("ask %s for a token: %w", base.Host, opaque{err})}
}

// judge makes an error of an answer that is none. What the API says in words is not repeated.
func (t *appTokens) judge(base *url.URL, resp *http.Response) error {
	after := readRetryAfter(resp.Header.Get("Retry-After"), t.now())
	if reset, err := strconv.ParseInt(resp.Header.Get("X-Ratelimit-Reset"), 10, 64); err == nil && after == 0 && resp.Header.Get("X-Ratelimit-Remaining") == "0" {
		after = min(max(0, time.Unix(reset, 0).Sub(t.now())), maxRetryAfter)
	}
	limited := after > 0 && resp.StatusCode == http.StatusForbidden
	switch code := resp.StatusCode; {
	case code == http.StatusCreated:
		return nil
	case code == http.StatusTooManyRequests, code >= 500, limited:
		return &UnavailableError{RetryAfter: after, Err: fmt.Errorf("the API at %s answers %d when asked for a token", base.Host, code)}
	case code == http.StatusUnauthorized:
		return errorf(ErrAuth, "%s does not know the GitHub App by this key (401): check %s and %s, and the clock", base.Host, keyAppID, keyAppPrivateKey)
	case code == http.StatusForbidden:
		return errorf(ErrAuth, "%s refuses the GitHub App a token (403): check whether the installation is suspended", base.Host)
	case code == http.StatusNotFound:
		return errorf(ErrAuth, "%s knows no such installation of the GitHub App (404): check %s and %s", base.Host, keyAppInstallation, keyAppBaseURL)
	case code == http.StatusUnprocessableEntity:
		return errorf(ErrAuth, "the installation of the GitHub App does not cover the repository (422): give it the repository, and the App the permission contents: read")
	default:
		return errorf(ErrUnsupported, "the API at %s answers %d when asked for a token: check %s", base.Host, code, keyAppBaseURL)
	}
}
