package gitsource

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gitfn/gitfn/gitsource/dialer"
)

// judge makes an error of an answer that is none.
func (s *server) judge(resp *http.Response, method string) error {
	retryAfter := readRetryAfter(resp.Header.Get("Retry-After"), s.now())
	switch code := resp.StatusCode; {
	case code == http.StatusOK:
		want := map[string]string{http.MethodGet: "advertisement", http.MethodPost: "result"}[method]
		if !strings.HasPrefix(resp.Header.Get("Content-Type"), "application/x-git-upload-pack-"+want) {
			return errorf(ErrUnsupported, "the server answers with a page, not with a Git repository: check the URL and the credentials")
		}
		return nil
	case code == http.StatusTooManyRequests, code == http.StatusRequestTimeout, code >= 500, code == http.StatusForbidden && retryAfter > 0:
		err := fmt.Errorf("the server answers %d", code)
		if retryAfter > 0 {
			err = fmt.Errorf("%w and asks to be left alone for %s", err, retryAfter.Round(time.Second))
		}
		return &UnavailableError{RetryAfter: retryAfter, Err: err}
	case (code == http.StatusUnauthorized || code == http.StatusForbidden) && s.credentials.anonymous():
		return errorf(ErrAuth, "the server wants credentials (%d): the repository is private or does not exist", code)
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		if s.app != nil {
			s.app.forget()
		}
		return errorf(ErrAuth, "user or token refused (%d)", code)
	case code == http.StatusProxyAuthRequired:
		return errProxyAuth
	case code == http.StatusNotFound || code == http.StatusGone:
		return errorf(ErrRepositoryNotFound, "no such repository (%d); a private one looks the same without credentials that may read it", code)
	default:
		return errorf(ErrUnsupported, "the server answers %d", code)
	}
}

// maxRetryAfter bounds what a server can ask for.
const maxRetryAfter = time.Hour

// readRetryAfter reads a Retry-After header: seconds, or a date.
func readRetryAfter(header string, now time.Time) time.Duration {
	if seconds, err := strconv.Atoi(header); err == nil {
		return min(max(0, time.Duration(min(seconds, 1<<20))*time.Second), maxRetryAfter)
	}
	if at, err := http.ParseTime(header); err == nil {
		return min(max(0, at.Sub(now)), maxRetryAfter)
	}
	return 0
}

var errProxyAuth = errorf(ErrAuth, "the proxy refuses the user or the password (407): check %s", keyProxy)

// explainRoute gives those errors of the way to a server a kind that are about credentials.
func explainRoute(err error) error {
	var proxy *dialer.ProxyError
	if errors.As(err, &proxy) && proxy.Status == http.StatusProxyAuthRequired {
		return errProxyAuth
	}
	// An alert about a certificate is about the one that was shown, or was not.
	var alert *net.OpError
	if errors.As(err, &alert) && alert.Op == "remote error" && strings.Contains(alert.Err.Error(), "certificate") {
		return errorf(ErrAuth, "the server wants another client certificate (%v): check %s", alert.Err, keyClientCertificate)
	}
	return err
}

// withoutURL takes the words of net/http about a request away: they repeat URLs.
func withoutURL(err error) error {
	var about *url.Error
	if errors.As(err, &about) {
		return about.Err
	}
	return err
}
