package gitsource

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

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
