// Package registry asks image registries and pushes to them, over go-containerregistry.
//
// In goes a reference; out comes its digest or its image, or an error that says
// whether the registry knows it not, refuses the credential or could not be
// asked: these are different answers, and none is ever turned into another. In
// go layers and an image; out comes nothing but success or such an error. The
// package also knows that one registry may have two addresses, one for those
// who push and one for nodes that pull. It never shows a credential, and never
// speaks HTTP without TLS unless it was told that the registry does.
package registry

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/gitfn/gitfn/gitsource/dialer"
)

// Errors that callers may match with errors.Is.
var (
	// ErrNotFound means that the registry answered, and has no such image.
	ErrNotFound = errors.New("no such image")
	// ErrAuth means that the credential was refused.
	ErrAuth = errors.New("credential refused")
	// ErrUnavailable means that the registry could not be asked.
	ErrUnavailable = errors.New("registry does not answer")
)

// Address is where one registry is found, host:port, without a scheme.
type Address struct {
	// Push is how build Pods and the manager reach it.
	Push string
	// Pull is how nodes reach it. It may equal Push.
	Pull string
	// PlainHTTP is true if it speaks HTTP without TLS.
	PlainHTTP bool
}

// ForPush returns the reference as those who push must write it.
func (a Address) ForPush(reference string) string { return swap(reference, a.Pull, a.Push) }

// ForPull returns the reference as nodes must write it.
func (a Address) ForPull(reference string) string { return swap(reference, a.Push, a.Pull) }

func swap(reference, from, to string) string {
	if path, found := strings.CutPrefix(reference, from+"/"); found {
		return to + "/" + path
	}
	return reference
}

// Client asks registries. It is safe for concurrent use.
type Client struct {
	address Address
	options []remote.Option
	// puller and pusher keep the tokens of the repositories that they were used for.
	puller *remote.Puller
	pusher *remote.Pusher
}

// Options say what a client trusts, and where else than to the registry it may go: to base images of other
// registries, to where a registry says that tokens are, and to where it redirects.
type Options struct {
	// Roots are PEM certificates that are trusted besides the system's.
	Roots []byte
	// Policy says which addresses may be connected to. The push address of the registry itself may have any.
	Policy dialer.Policy
	// Proxy is the http or https URL of the administrator's proxy; empty is none. NoProxy lists the hosts that are
	// reached without it. The environment is not looked at.
	Proxy, NoProxy string
}

// New makes a client that asks the registry at address with the credential, and
// every other one without. It goes nowhere that the zero Options do not allow.
func New(address Address, username, password string) *Client {
	c, err := NewWithKeys(address, Credential(address.Push, username, password), Options{})
	if err != nil {
		panic(err) // only certificates and a proxy can be wrong
	}
	return c
}

// NewWithKeys makes a client that finds credentials in keys.
func NewWithKeys(address Address, keys authn.Keychain, o Options) (*Client, error) {
	base, err := newTransport(address, o)
	if err != nil {
		return nil, fmt.Errorf("make registry client: %w", err)
	}
	return newClient(address, remote.WithAuthFromKeychain(keys), remote.WithTransport(scheme{base, address}),
		remote.WithUserAgent("gitfn"), remote.WithRetryBackoff(retries))
}

func newClient(address Address, options ...remote.Option) (*Client, error) {
	puller, err := remote.NewPuller(options...)
	if err != nil {
		return nil, fmt.Errorf("make registry client: %w", err)
	}
	pusher, err := remote.NewPusher(options...)
	if err != nil {
		return nil, fmt.Errorf("make registry client: %w", err)
	}
	return &Client{address: address, options: options, puller: puller, pusher: pusher}, nil
}

// retries bridges a hiccup; a registry that is away longer is the caller's to wait for.
var retries = remote.Backoff{Duration: 250 * time.Millisecond, Factor: 2.5, Jitter: 0.1, Steps: 4}

// Limits of one request. A registry may take long to digest what it was sent.
const (
	dialTimeout   = 10 * time.Second
	answerTimeout = 2 * time.Minute
)

func newTransport(address Address, o Options) (http.RoundTripper, error) {
	t := &http.Transport{
		TLSHandshakeTimeout:   dialTimeout,
		ResponseHeaderTimeout: answerTimeout,
		ForceAttemptHTTP2:     true,
		MaxIdleConnsPerHost:   16,
		IdleConnTimeout:       90 * time.Second,
	}
	if len(o.Roots) > 0 {
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool()
		}
		if !pool.AppendCertsFromPEM(o.Roots) {
			return nil, errors.New("the trust bundle holds no PEM certificate")
		}
		t.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	route := dialer.Route{Policy: o.Policy, Timeout: dialTimeout, Trusted: []string{address.hostPort()}}
	if o.Proxy != "" {
		at, err := dialer.ParseProxy(o.Proxy)
		if err != nil {
			return nil, fmt.Errorf("read proxy: %w", err)
		}
		route.Proxy = &dialer.Proxy{URL: at, NoProxy: o.NoProxy, Trusted: true, TLS: t.TLSClientConfig}
	}
	return route.Transport(t), nil
}

// hostPort is the push address with its port.
func (a Address) hostPort() string {
	if _, _, err := net.SplitHostPort(a.Push); err == nil {
		return a.Push
	}
	if a.PlainHTTP {
		return net.JoinHostPort(a.Push, "80")
	}
	return net.JoinHostPort(a.Push, "443")
}

// scheme refuses to speak without TLS unless that is allowed: for hosts that
// look local, go-containerregistry falls back to plain HTTP by itself. And where
// it is allowed it spares the registry the TLS that is tried first.
type scheme struct {
	next    http.RoundTripper
	address Address
}

// RoundTrip sends the request on, or refuses.
func (s scheme) RoundTrip(r *http.Request) (*http.Response, error) {
	switch plain := r.URL.Scheme == "http"; {
	case plain && !s.address.PlainHTTP:
		return nil, fmt.Errorf("%s does not speak TLS, and the registry is not configured for plain HTTP", r.URL.Host)
	case !plain && s.address.PlainHTTP && r.URL.Host == s.address.Push:
		return nil, fmt.Errorf("%s is configured for plain HTTP", r.URL.Host)
	}
	return s.next.RoundTrip(r)
}

// Digest returns the digest of a reference, "sha256:…". Its errors match
// ErrNotFound, ErrAuth or ErrUnavailable.
func (c *Client) Digest(ctx context.Context, reference string) (string, error) {
	ref, err := ParseReference(reference, c.address)
	if err != nil {
		return "", fmt.Errorf("ask for image: %w", err)
	}
	// Nothing is kept for the next time: the manager asks for very many repositories.
	options := append(slices.Clone(c.options), remote.WithContext(ctx))
	head, err := remote.Head(ref, options...)
	if err == nil {
		return head.Digest.String(), nil
	}
	if status(err) == http.StatusNotFound {
		// The answer to HEAD has no body that could tell an unknown image from
		// an unknown path.
		found, again := remote.Get(ref, options...)
		if again == nil {
			return found.Digest.String(), nil
		}
		err = again
	}
	return "", fmt.Errorf("ask for image %s: %w", ref, Classify(err))
}

// ParseReference reads a reference to an image. A host without TLS is spoken to
// over HTTP only if address says so.
func ParseReference(reference string, address Address) (name.Reference, error) {
	return name.ParseReference(reference, nameOptions(reference, address)...)
}

func nameOptions(reference string, address Address) []name.Option {
	if address.PlainHTTP && strings.HasPrefix(reference, address.Push+"/") {
		return []name.Option{name.Insecure}
	}
	return nil
}

// unknown are the codes with which registries say that an image is not there.
// NOT_FOUND is Harbor's, for a project or an artifact.
var unknown = []transport.ErrorCode{transport.ManifestUnknownErrorCode, transport.NameUnknownErrorCode, "NOT_FOUND"}

// Classify wraps an error of go-containerregistry with the one of this package
// that tells what it means. A 404 is ErrNotFound only where the registry says
// what it does not know: a proxy's 404 is no answer.
func Classify(err error) error {
	switch status(err) {
	case http.StatusNotFound:
		var answer *transport.Error
		errors.As(err, &answer)
		for _, diagnostic := range answer.Errors {
			if slices.Contains(unknown, diagnostic.Code) {
				return fmt.Errorf("%w: %w", ErrNotFound, err)
			}
		}
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Errorf("%w: %w", ErrAuth, err)
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// status is the code of the registry's answer, or 0.
func status(err error) int {
	var answer *transport.Error
	if errors.As(err, &answer) {
		return answer.StatusCode
	}
	return 0
}
