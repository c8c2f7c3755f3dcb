// Package receiver is the HTTP endpoint that forges push to.
//
// In goes a request to POST /hooks/<forge>/<namespace>/<secret name>; out comes a Push, handed to a
// function together with the namespace whose Secret verified it. A Push is a hint: it says where to look
// again. The package never resolves, fetches or believes anything that a payload says, and never tells a
// stranger which Secrets exist, neither by an answer nor by the time that it takes.
//
// What flows where: request ─► forge by path ─► body, within a budget ─► key by namespace and name ─►
// proof of the key ─► the forge's parser ─► notify(namespace, Push) ─► 202.
package receiver

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Push is what a forge said: something moved at one of these URLs.
type Push struct {
	// URLs are the names of one repository: clone, page and ssh. See gitsource.NormalizeURL.
	URLs []string
	// Refs are the full names of what moved, came or went, such as "refs/heads/main". None means that the forge did not say.
	Refs []string
}

// ErrNoSecret says that there is no such Secret, or none with a key.
var ErrNoSecret = errors.New("no such secret")

// Secrets returns the key that pushes to a namespace and Secret name are verified with. No Secret is an error
// that matches ErrNoSecret; any other error means that it could not be asked for. It must be safe for concurrent use.
type Secrets func(ctx context.Context, namespace, name string) (key []byte, err error)

// Result is what became of a request, in one word for counting.
type Result string

// The results of a request.
const (
	Taken     Result = "taken"     // a push, handed on
	Ignored   Result = "ignored"   // verified, but no push
	Refused   Result = "refused"   // not verified
	Malformed Result = "malformed" // verified, but not what the forge sends; or a body that broke off
	TooLarge  Result = "tooLarge"  // more than the forge sends
	Lost      Result = "lost"      // we were too busy, or could not ask for the Secret: unless it is sent again, a poll finds the push
)

// Options say what an endpoint works with. All but Count are needed.
type Options struct {
	// Secrets finds keys.
	Secrets Secrets
	// Notify is called once for each verified push, before the answer is sent, and tells whether it could take it.
	// It must be quick and safe for concurrent use.
	Notify func(namespace string, push Push) bool
	// Count is called once for each request to a forge. It must be quick and safe for concurrent use.
	Count func(forge string, result Result)
}

// Forges are the names of all kinds of forges, as they stand in paths.
func Forges() []string {
	return slices.Sorted(maps.Keys(forges))
}

// forge is how one kind of server pushes.
type forge struct {
	// bodyBytes limits a payload.
	bodyBytes int64
	// proofs are what a request shows to prove that its sender knows the key. Without any the body is not read.
	proofs func(header http.Header) []proof
	// parse reads a verified payload.
	parse func(header http.Header, body []byte) (Push, verdict)
}

// smallBody limits the payloads of all forges that do not say that theirs are larger. A push of 20 commits has 20 KiB.
const smallBody = 1 << 20

// verdict is what a verified request turned out to be.
type verdict int

const (
	pushed    verdict = iota // a Push
	ignored                  // an event of another kind
	ping                     // the forge tries whether we are there
	malformed                // not what the forge sends
)

// forges is every kind, by its name in the path.
var forges = map[string]forge{
	"azuredevops": azureDevOps,
	"bitbucket":   bitbucket,
	"forgejo":     gitea,
	"generic":     generic,
	"gitea":       gitea,
	"github":      github,
	"gitlab":      gitlab,
}

// refusalTakes is how long a refusal takes at least. Without it strangers could tell by the time whether a Secret
// was read.
const refusalTakes = 25 * time.Millisecond

// New returns the endpoint, which is safe for concurrent use.
//
// It answers 202 to a verified request, whether it was a push or is ignored; 401 when the proof is missing or wrong
// or no such Secret exists; 503 with Retry-After when the Secret could not be asked for or there is too much at once; and 400, 404, 405, 408 and 413 as HTTP means them. Every answer is one sentence.
func New(o Options) http.Handler {
	if o.Count == nil {
		o.Count = func(string, Result) {}
	}
	return &endpoint{Options: o, bodies: newBodies()}
}

type endpoint struct {
	Options
	bodies *bodies
}

// answer is a status, its sentence, and what it counts as; nothing for what no forge sent.
type answer struct {
	code   int
	text   string
	result Result
}

var refusal = answer{http.StatusUnauthorized, "The signature or token is missing or wrong.", Refused}

// ServeHTTP takes one push.
func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, a := e.take(w, r)
	if a.result != "" {
		e.Count(name, a.result)
	}
	header := w.Header()
	header.Set("Content-Type", "text/plain; charset=utf-8")
	header.Set("X-Content-Type-Options", "nosniff")
	switch a.code {
	case http.StatusMethodNotAllowed:
		header.Set("Allow", http.MethodPost)
	case http.StatusServiceUnavailable:
		header.Set("Retry-After", "2")
	}
	w.WriteHeader(a.code)
	_, _ = io.WriteString(w, a.text+"\n")
}

// take returns the name of the forge and the answer to it.
func (e *endpoint) take(w http.ResponseWriter, r *http.Request) (string, answer) {
	at, ok := target(r.URL.Path)
	if !ok {
		return "", answer{http.StatusNotFound, "There is nothing here: push to /hooks/<forge>/<namespace>/<secret name>.", ""}
	}
	if r.Method != http.MethodPost {
		return "", answer{http.StatusMethodNotAllowed, "Only POST is answered here.", ""}
	}
	proofs := at.forge.proofs(r.Header)
	if len(proofs) == 0 { // who shows nothing makes nobody read 25 MiB
		return at.name, refusal
	}
	body, release, fault := e.bodies.read(w, r, at.forge.bodyBytes)
	defer release()
	if fault.code != 0 {
		return at.name, fault
	}
	came := time.Now()
	// Without a Secret the same is computed with an empty key, and the answer is the same.
	key, err := e.Secrets(r.Context(), at.namespace, at.secret)
	if err != nil && !errors.Is(err, ErrNoSecret) {
		return at.name, answer{http.StatusServiceUnavailable, "The secret could not be read: try again.", Lost}
	}
	if !proven(proofs, key, body) || err != nil || len(key) == 0 {
		release()
		pause(r.Context(), refusalTakes-time.Since(came))
		return at.name, refusal
	}
	return at.name, e.hand(at, r.Header, body)
}

// hand hands a verified push on.
func (e *endpoint) hand(at place, header http.Header, body []byte) answer {
	push, is := at.forge.parse(header, body)
	switch is {
	case malformed:
		return answer{http.StatusBadRequest, "The payload is not what this forge sends: it must be JSON and name the repository.", Malformed}
	case ignored:
		return answer{http.StatusAccepted, "This event is ignored: only pushes count.", Ignored}
	case ping:
		return answer{http.StatusAccepted, "The secret is right: pushes will be noted.", Ignored}
	}
	if !e.Notify(at.namespace, push) {
		return answer{http.StatusServiceUnavailable, "Too many pushes at once: try again.", Lost}
	}
	return answer{http.StatusAccepted, "The push is noted.", Taken}
}

// pause waits, but not for a sender who is gone.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// place is what a path names.
type place struct {
	name              string
	forge             forge
	namespace, secret string
}

// dnsName is what Kubernetes allows as the name of a Secret, and more than it allows for a namespace.
var dnsName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)

// target reads the path.
func target(path string) (place, bool) {
	parts := strings.Split(path, "/")
	if len(parts) != 5 || parts[0] != "" || parts[1] != "hooks" || !dnsName.MatchString(parts[3]) || !dnsName.MatchString(parts[4]) {
		return place{}, false
	}
	from, known := forges[parts[2]]
	return place{parts[2], from, parts[3], parts[4]}, known
}

// manyRefs is how many refs a Push names at most. Of more, or of longer ones, it says nothing: then all are looked at.
const (
	manyRefs = 100
	longRef  = 1 << 10
)

// pushOf is a Push of those URLs and refs that are not empty, each once.
func pushOf(urls, refs []string) (Push, verdict) {
	push := Push{URLs: filled(urls), Refs: filled(refs)}
	if len(push.URLs) == 0 {
		return Push{}, malformed
	}
	if len(push.Refs) > manyRefs || slices.ContainsFunc(push.Refs, func(ref string) bool { return len(ref) > longRef }) {
		push.Refs = nil
	}
	return push, pushed
}

func filled(all []string) (some []string) {
	seen := map[string]bool{"": true}
	for _, one := range all {
		if !seen[one] {
			seen[one] = true
			some = append(some, one)
		}
	}
	return some
}
