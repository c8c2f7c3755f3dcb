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
	"errors"
	"net/http"
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

// New returns the endpoint. notify is called once for each verified push, before the answer is sent: it
// must be quick and safe for concurrent use.
func New(secrets Secrets, notify func(namespace string, push Push)) http.Handler {
	return http.NotFoundHandler()
}
