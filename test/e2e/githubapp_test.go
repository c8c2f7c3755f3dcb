package e2e

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
)

// forge stands in for GitHub Enterprise Server: its API makes tokens of an
// installation, and its Git server takes these tokens alone.
type forge struct {
	git http.Handler
	key *rsa.PublicKey

	mu sync.Mutex
	// seen is every secret that passed by, by what it is.
	seen map[string]string
}

const (
	appID, installation = "4711", "815"
	tokenPath           = "/api/v3/app/installations/" + installation + "/access_tokens"
)

func (f *forge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == tokenPath && r.Method == http.MethodPost {
		f.makeToken(w, r)
		return
	}
	if user, password, _ := r.BasicAuth(); user != "x-access-token" || !f.made(password) {
		refuse(w)
		return
	}
	f.git.ServeHTTP(w, r)
}

func (f *forge) makeToken(w http.ResponseWriter, r *http.Request) {
	assertion, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if err := f.verify(assertion); err != nil || !bearer {
		http.Error(w, fmt.Sprintf(`{"message": "A JSON web token could not be decoded: %v"}`, err), http.StatusUnauthorized)
		return
	}
	token := "ghs_" + rand.Text()
	f.mu.Lock()
	f.seen["the assertion of "+token] = assertion
	f.seen["an installation token: "+token] = token
	f.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(map[string]any{"token": token, "expires_at": time.Now().Add(time.Hour).UTC().Format(time.RFC3339)})
}

// verify looks at a JSON web token as GitHub's documentation says.
func (f *forge) verify(assertion string) error {
	parts := strings.Split(assertion, ".")
	if len(parts) != 3 {
		return errors.New("not three parts")
	}
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil {
		return err
	}
	digest := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if err := rsa.VerifyPKCS1v15(f.key, crypto.SHA256, digest[:], signature); err != nil {
		return err
	}
	var header struct{ Alg string }
	var claims struct {
		Iat, Exp int64
		Iss      any
	}
	for part, into := range map[string]any{parts[0]: &header, parts[1]: &claims} {
		text, err := base64.RawURLEncoding.DecodeString(part)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(text, into); err != nil {
			return err
		}
	}
	now := time.Now()
	issued, expires := time.Unix(claims.Iat, 0), time.Unix(claims.Exp, 0)
	if header.Alg != "RS256" || fmt.Sprint(claims.Iss) != appID || issued.After(now) || expires.Before(now) || expires.After(now.Add(10*time.Minute)) {
		return fmt.Errorf("algorithm %s, issuer %v, issued %s, expires %s", header.Alg, claims.Iss, issued, expires)
	}
	return nil
}

func (f *forge) made(token string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return token != "" && f.seen["an installation token: "+token] == token
}

// secrets is all that passed by.
func (f *forge) secrets() map[string]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.seen)
}

// TestGitHubApp reads a repository with tokens of an App's installation.
func TestGitHubApp(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "app")
	logs := s.collectLogs()
	repo, commit := s.newRepository("fn", true, map[string]string{"handler.js": handler("from an app")})
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	s.g.Expect(err).NotTo(HaveOccurred())
	wrong, err := rsa.GenerateKey(rand.Reader, 2048)
	s.g.Expect(err).NotTo(HaveOccurred())
	ca := newAuthority(s.g)
	f := &forge{git: s.gitServer(), key: &key.PublicKey, seen: map[string]string{}}
	address := "https://" + s.serve(f, ca.server())

	secret := map[string]string{
		"githubAppID": appID, "githubAppInstallationID": installation,
		"githubAppPrivateKey": encodePEM("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(wrong)),
		"githubAppBaseURL":    address + "/api/v3", "ca.crt": ca.pem,
	}
	s.secret("app", secret)
	s.apply(newFunction("fn", fromGit(address+repo.path, "/"), withAuthOf(functionv1.AuthGitHubApp, "app"), withInterval(time.Hour)))
	s.eventually(func(g Gomega) {
		g.Expect(condition(s.function("fn"), functionv1.ConfigurationReady)).
			To(And(HavePrefix("False SourceUpdateFailed: GitAuth: "), ContainSubstring("Secret app")))
	}, "the key of another App")

	secret["githubAppPrivateKey"] = encodePEM("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key))
	s.secret("app", secret)
	s.ready("fn", commit)
	s.answers("fn", "from an app")
	secrets := f.secrets()
	s.g.Expect(secrets).NotTo(BeEmpty())
	secrets["the private key"] = secret["githubAppPrivateKey"]
	s.hides(secrets, logs)
}
