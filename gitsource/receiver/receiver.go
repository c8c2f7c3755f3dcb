// Package receiver is the HTTP endpoint that forges push to.
//
// In goes a request to POST /hooks/<forge>/<namespace>/<secret name>; out comes a Push, handed to a
// function together with the namespace whose Secret verified it. A Push is a hint: it says where to look
// again. The package never resolves, fetches or believes anything that a payload says, and never tells a
// stranger which Secrets exist.
//
// What flows where: request ─► forge by path ─► key by namespace and name ─► signature over the body ─►
// the forge's parser ─► notify(namespace, Push) ─► 202.
package receiver

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"regexp"
	"strings"
)

// Push is what a forge said: something moved at one of these URLs.
type Push struct {
	// URLs are the names of one repository: clone, page and ssh. See gitsource.NormalizeURL.
	URLs []string
	// Ref is the full name of what moved, such as "refs/heads/main". Empty when the forge did not say.
	Ref string
}

// ErrNoSecret says that there is no such Secret, or none with a key.
var ErrNoSecret = errors.New("no such secret")

// Secrets returns the key that pushes to a namespace and Secret name are verified with. No Secret is an error
// that matches ErrNoSecret; any other error means that it could not be asked for. It must be safe for concurrent use.
type Secrets func(ctx context.Context, namespace, name string) (key []byte, err error)

// forge is how one kind of server pushes.
type forge struct {
	bodyBytes  int64
	signatures []string // headers that may hold "sha256=" and the HMAC of the body in hex
	parse      func(header http.Header, body []byte) (Push, verdict)
}

// verdict is what a verified request turned out to be.
type verdict int

const (
	pushed    verdict = iota // a Push
	ignored                  // an event of another kind
	malformed                // not what the forge sends
)

// forges is every kind, by its name in the path.
var forges = map[string]forge{"generic": generic, "github": github}

// New returns the endpoint, which is safe for concurrent use. notify is called once for each verified push,
// before the answer is sent: it must be quick and safe for concurrent use.
//
// It answers 202 to a verified request, whether it was a push or is ignored; 401 when the signature is
// missing or wrong or no such Secret exists; 503 when the Secret could not be asked for; and 400, 404, 405
// and 413 as HTTP means them. Every answer is one sentence.
func New(secrets Secrets, notify func(namespace string, push Push)) http.Handler {
	return &endpoint{secrets: secrets, notify: notify}
}

type endpoint struct {
	secrets Secrets
	notify  func(namespace string, push Push)
}

// answer is a status and its sentence.
type answer struct {
	code int
	text string
}

// ServeHTTP takes one push.
func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a := e.take(w, r)
	header := w.Header()
	header.Set("Content-Type", "text/plain; charset=utf-8")
	header.Set("X-Content-Type-Options", "nosniff")
	if a.code == http.StatusMethodNotAllowed {
		header.Set("Allow", http.MethodPost)
	}
	w.WriteHeader(a.code)
	_, _ = io.WriteString(w, a.text+"\n")
}

func (e *endpoint) take(w http.ResponseWriter, r *http.Request) answer {
	from, namespace, name, ok := target(r.URL.Path)
	if !ok {
		return answer{http.StatusNotFound, "There is nothing here: push to /hooks/<forge>/<namespace>/<secret name>."}
	}
	if r.Method != http.MethodPost {
		return answer{http.StatusMethodNotAllowed, "Only POST is answered here."}
	}
	signatures := from.signaturesOf(r.Header)
	if len(signatures) == 0 { // who shows nothing makes nobody read 25 MiB
		return answer{http.StatusUnauthorized, "The signature is missing or wrong."}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, from.bodyBytes))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return answer{http.StatusRequestEntityTooLarge, "The payload is too large."}
	case err != nil:
		return answer{http.StatusBadRequest, "The payload broke off."}
	}
	// Without a Secret the same is computed with an empty key, and the answer is the same.
	key, err := e.secrets(r.Context(), namespace, name)
	if err != nil && !errors.Is(err, ErrNoSecret) {
		return answer{http.StatusServiceUnavailable, "The secret could not be read: try again."}
	}
	if !signed(signatures, key, body) || err != nil || len(key) == 0 {
		return answer{http.StatusUnauthorized, "The signature is missing or wrong."}
	}
	push, is := from.parse(r.Header, body)
	switch is {
	case malformed:
		return answer{http.StatusBadRequest, "The payload is not what this forge sends: it must be JSON and name the repository."}
	case ignored:
		return answer{http.StatusAccepted, "This event is ignored: only pushes count."}
	}
	e.notify(namespace, push)
	return answer{http.StatusAccepted, "The push is noted."}
}

// dnsName is what Kubernetes allows as the name of a Secret, and more than it allows for a namespace.
var dnsName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)

// target reads the path.
func target(path string) (from forge, namespace, name string, ok bool) {
	parts := strings.Split(path, "/")
	if len(parts) != 5 || parts[0] != "" || parts[1] != "hooks" || !dnsName.MatchString(parts[3]) || !dnsName.MatchString(parts[4]) {
		return forge{}, "", "", false
	}
	from, ok = forges[parts[2]]
	return from, parts[3], parts[4], ok
}

// signaturesOf is the HMACs that a request claims to have, in hex.
func (f forge) signaturesOf(header http.Header) (signatures []string) {
	for _, name := range f.signatures {
		if signature, ok := strings.CutPrefix(header.Get(name), "sha256="); ok {
			signatures = append(signatures, signature)
		}
	}
	return signatures
}

// signed tells whether one of the signatures is the HMAC of the body. It takes as long for a wrong one as for a right one.
func signed(signatures []string, key, body []byte) bool {
	mac := hmac.New(sha256.New, key)
	mac.Write(body)
	want := mac.Sum(nil)
	good := false
	for _, signature := range signatures {
		got, err := hex.DecodeString(signature)
		good = hmac.Equal(got, want) && err == nil || good
	}
	return good
}
