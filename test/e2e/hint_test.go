package e2e

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// hint posts a push hint. It returns the status.
func (s *space) hint(path, body, key string, header map[string]string, signature string) int {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, facts.Hooks+path, strings.NewReader(body))
	s.g.Expect(err).NotTo(HaveOccurred())
	for name, value := range header {
		request.Header.Set(name, value)
	}
	if key != "" {
		request.Header.Set(signature, "sha256="+signatureOf(body, key))
	}
	response, err := once.Do(request)
	s.g.Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	s.g.Expect(string(text)).NotTo(BeEmpty(), "every answer is a sentence")
	return response.StatusCode
}

func signatureOf(body, key string) string {
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(body))
	return hex.EncodeToString(mac.Sum(nil))
}

// TestHints tells a Function of pushes that it would see by itself an hour later.
func TestHints(t *testing.T) {
	t.Parallel()
	const generic, github = "X-Gitfn-Signature-256", "X-Hub-Signature-256"
	s, stranger := newSpace(t, "hints"), newSpace(t, "stranger")
	repo, first := s.newRepository("fn", false, map[string]string{"handler.js": handler("one")})
	s.apply(newFunction("fn", fromGit(repo.url, "/"), withInterval(time.Hour)))
	s.ready("fn", first)
	s.secret("hook", map[string]string{"token": "key of the namespace"})
	stranger.secret("hook", map[string]string{"token": "key of a stranger"})

	second := repo.push("two", map[string]string{"handler.js": handler("two")})
	body := fmt.Sprintf(`{"url": %q, "ref": "refs/heads/main"}`, repo.url)
	own := "/generic/" + s.name + "/hook"
	version := s.function("fn").ResourceVersion
	s.g.Expect(s.hint(own, body, "wrong key", nil, generic)).To(Equal(http.StatusUnauthorized))
	s.g.Expect(s.hint(own, body, "", nil, "")).To(Equal(http.StatusUnauthorized), "no signature")
	s.g.Expect(s.hint("/generic/"+s.name+"/nothing", body, "", map[string]string{generic: "sha256=" + signatureOf(body, "")}, "")).
		To(Equal(http.StatusUnauthorized), "no such Secret")
	s.g.Expect(s.hint(own, body+" ", "", map[string]string{generic: "sha256=" + signatureOf(body, "key of the namespace")}, "")).
		To(Equal(http.StatusUnauthorized), "another body than was signed")
	s.g.Expect(s.hint("/generic/"+stranger.name+"/hook", body, "key of a stranger", nil, generic)).
		To(Equal(http.StatusAccepted), "a stranger may hint, at Functions of its own namespace")
	s.g.Consistently(func(g Gomega) {
		g.Expect(s.function("fn").Status.Commit).To(Equal(first))
		g.Expect(s.jobsSeen("fn")).To(Equal(1))
		g.Expect(s.function("fn").ResourceVersion).To(Equal(version))
	}).WithTimeout(3 * time.Second).WithPolling(100 * time.Millisecond).Should(Succeed())

	s.g.Expect(s.hint(own, body, "key of the namespace", nil, generic)).To(Equal(http.StatusAccepted))
	s.soon(15*time.Second, func(g Gomega) { g.Expect(s.function("fn").Status.Commit).To(Equal(second)) })
	s.ready("fn", second)
	s.answers("fn", "two")

	third := repo.push("three", map[string]string{"handler.js": handler("three")})
	payload := fmt.Sprintf(`{"ref": "refs/heads/main", "after": %q, "repository": {"clone_url": %q, "html_url": %q}}`, strings.Repeat("0", 40), repo.url+".git", repo.url)
	event := map[string]string{"X-GitHub-Event": "push", "Content-Type": "application/json"}
	path := "/github/" + system + "/" + facts.HookSecretName
	s.g.Expect(s.hint(path, payload, "wrong key", event, github)).To(Equal(http.StatusUnauthorized))
	s.g.Expect(s.hint(path, payload, facts.HookSecret, event, github)).To(Equal(http.StatusAccepted))
	s.soon(15*time.Second, func(g Gomega) { g.Expect(s.function("fn").Status.Commit).To(Equal(third)) })
	s.ready("fn", third)
	s.answers("fn", "three")
}
