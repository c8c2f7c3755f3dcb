package receiver_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/gitfn/gitfn/gitsource/receiver"
)

const (
	key        = "it's a secret"
	genericURL = "/hooks/generic/team-a/push-key"
	githubURL  = "/hooks/github/team-a/push-key"
	small      = `{"url": "https://git.example/team/fn.git", "ref": "refs/heads/main"}`
	large      = `{"ref": "refs/heads/main", "repository": {"clone_url": "https://github.com/o/r.git", "html_url": "https://github.com/o/r", "ssh_url": "git@github.com:o/r.git"}}`
)

func sign(key, body string) string {
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(body))
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

// secrets knows one key, one Secret without one, and one that cannot be asked for.
func secrets(_ context.Context, namespace, name string) ([]byte, error) {
	switch namespace + "/" + name {
	case "team-a/push-key":
		return []byte(key), nil
	case "team-a/empty":
		return nil, nil
	case "team-a/broken":
		return nil, errors.New("the API server is away")
	}
	return nil, receiver.ErrNoSecret
}

func TestReceiverTakesPushes(t *testing.T) {
	t.Parallel()
	smallPush := &receiver.Push{URLs: []string{"https://git.example/team/fn.git"}, Refs: []string{"refs/heads/main"}}
	largePush := &receiver.Push{URLs: []string{"https://github.com/o/r.git", "https://github.com/o/r", "git@github.com:o/r.git"}, Refs: []string{"refs/heads/main"}}
	form := url.Values{"payload": {large}}.Encode()
	rows := []struct {
		name, method, path, body string
		header                   map[string]string
		code                     int
		push                     *receiver.Push
	}{
		{name: "a generic push is noted", path: genericURL, body: small, header: map[string]string{"X-Gitfn-Signature-256": sign(key, small)}, code: 202, push: smallPush},
		{name: "a generic push signed as GitHub does is noted", path: genericURL, body: small, header: map[string]string{"X-Hub-Signature-256": sign(key, small)}, code: 202, push: smallPush},
		{name: "a GitHub push is noted", path: githubURL, body: large, header: map[string]string{"X-Hub-Signature-256": sign(key, large), "X-GitHub-Event": "push"}, code: 202, push: largePush},
		{name: "a GitHub push as a form is noted", path: githubURL, body: form, header: map[string]string{"X-Hub-Signature-256": sign(key, form), "X-GitHub-Event": "push", "Content-Type": "application/x-www-form-urlencoded"}, code: 202, push: largePush},
		{name: "a GitHub ping is accepted and ignored", path: githubURL, body: "{}", header: map[string]string{"X-Hub-Signature-256": sign(key, "{}"), "X-GitHub-Event": "ping"}, code: 202},
		{name: "another GitHub event is accepted and ignored", path: githubURL, body: large, header: map[string]string{"X-Hub-Signature-256": sign(key, large), "X-GitHub-Event": "issues"}, code: 202},
		{name: "a push without signature is refused", path: genericURL, body: small, code: 401},
		{name: "a ping without signature is refused", path: githubURL, body: "{}", header: map[string]string{"X-GitHub-Event": "ping"}, code: 401},
		{name: "a push signed with another key is refused", path: genericURL, body: small, header: map[string]string{"X-Gitfn-Signature-256": sign("guess", small)}, code: 401},
		{name: "a push signed for another body is refused", path: genericURL, body: small, header: map[string]string{"X-Gitfn-Signature-256": sign(key, large)}, code: 401},
		{name: "half a signature is refused", path: genericURL, body: small, header: map[string]string{"X-Gitfn-Signature-256": sign(key, small)[:40]}, code: 401},
		{name: "a signature without its kind is refused", path: genericURL, body: small, header: map[string]string{"X-Gitfn-Signature-256": sign(key, small)[7:]}, code: 401},
		{name: "a large body without signature is not read", path: genericURL, body: strings.Repeat(" ", 1<<20+1), code: 401},
		{name: "a signature that is no hex is refused", path: genericURL, body: small, header: map[string]string{"X-Gitfn-Signature-256": sign(key, small) + "zz"}, code: 401},
		{name: "an unknown Secret is refused even if signed with the empty key", path: "/hooks/generic/team-a/other", body: small, header: map[string]string{"X-Gitfn-Signature-256": sign("", small)}, code: 401},
		{name: "a Secret without a key is refused even if signed with the empty key", path: "/hooks/generic/team-a/empty", body: small, header: map[string]string{"X-Gitfn-Signature-256": sign("", small)}, code: 401},
		{name: "a Secret of another namespace is refused", path: "/hooks/generic/team-b/push-key", body: small, header: map[string]string{"X-Gitfn-Signature-256": sign(key, small)}, code: 401},
		{name: "a Secret that cannot be read is not called missing", path: "/hooks/generic/team-a/broken", body: small, header: map[string]string{"X-Gitfn-Signature-256": sign(key, small)}, code: 503},
		{name: "a body that is no JSON is refused", path: genericURL, body: "{", header: map[string]string{"X-Gitfn-Signature-256": sign(key, "{")}, code: 400},
		{name: "a body without a repository is refused", path: genericURL, body: "{}", header: map[string]string{"X-Gitfn-Signature-256": sign(key, "{}")}, code: 400},
		{name: "a GitHub push without a repository is refused", path: githubURL, body: "{}", header: map[string]string{"X-Hub-Signature-256": sign(key, "{}"), "X-GitHub-Event": "push"}, code: 400},
		{name: "a large body is refused before it is verified", path: genericURL, body: strings.Repeat(" ", 1<<20+1), header: map[string]string{"X-Gitfn-Signature-256": "sha256=00"}, code: 413},
		{name: "a large body from GitHub is read", path: githubURL, body: strings.Repeat(" ", 1<<20+1), header: map[string]string{"X-Hub-Signature-256": "sha256=00"}, code: 401},
		{name: "GET is refused", method: http.MethodGet, path: genericURL, code: 405},
		{name: "an unknown forge is not found", path: "/hooks/sourceforge/team-a/push-key", body: small, code: 404},
		{name: "a path too short is not found", path: "/hooks/generic/team-a", body: small, code: 404},
		{name: "a path too long is not found", path: genericURL + "/more", body: small, code: 404},
		{name: "a name that Kubernetes does not allow is not found", path: "/hooks/generic/team-a/..", body: small, code: 404},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			var got []receiver.Push
			handler := receiver.New(receiver.Options{Secrets: secrets, Notify: func(namespace string, push receiver.Push) bool {
				g.Expect(namespace).To(Equal("team-a"))
				got = append(got, push)
				return true
			}})
			method := row.method
			if method == "" {
				method = http.MethodPost
			}
			req := httptest.NewRequest(method, row.path, strings.NewReader(row.body))
			for name, value := range row.header {
				req.Header.Set(name, value)
			}
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, req)

			g.Expect(w.Code).To(Equal(row.code))
			g.Expect(w.Body.String()).To(HaveSuffix(".\n"))
			g.Expect(w.Body.String()).NotTo(ContainSubstring(key))
			if row.push == nil {
				g.Expect(got).To(BeEmpty())
				return
			}
			g.Expect(got).To(Equal([]receiver.Push{*row.push}))
		})
	}
}

func TestReceiverDoesNotTellWhichSecretsExist(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	handler := receiver.New(receiver.Options{Secrets: secrets, Notify: func(string, receiver.Push) bool { return true }})
	post := func(path string) *httptest.ResponseRecorder {
		req := httptest.NewRequest(http.MethodPost, path, strings.NewReader(small))
		req.Header.Set("X-Gitfn-Signature-256", sign("guess", small))
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, req)
		return w
	}
	known, unknown := post(genericURL), post("/hooks/generic/team-a/other")
	g.Expect(unknown.Code).To(Equal(known.Code))
	g.Expect(unknown.Body.String()).To(Equal(known.Body.String()))
	g.Expect(unknown.Header()).To(Equal(known.Header()))
}
