package gitsource

import (
	"fmt"
	"net/http"
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
