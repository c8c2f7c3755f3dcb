// Package registry asks image registries, over go-containerregistry.
//
// In goes a reference; out comes its digest, or an error that says whether the
// registry knows it not or could not be asked: these are different answers, and
// the second is never turned into the first. The package also knows that one
// registry may have two addresses, one for those who push and one for nodes that
// pull. It never writes; package builder/executor does.
package registry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
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
	keys    authn.Keychain
}

// New makes a client that asks the registry at address with the credential, and
// every other one without.
func New(address Address, username, password string) *Client {
	return &Client{address: address, keys: single{address.Push, authn.AuthConfig{Username: username, Password: password}}}
}

// Digest returns the digest of a reference, "sha256:…". Its errors match
// ErrNotFound, ErrAuth or ErrUnavailable.
func (c *Client) Digest(ctx context.Context, reference string) (string, error) {
	ref, err := ParseReference(reference, c.address)
	if err != nil {
		return "", fmt.Errorf("ask for image: %w", err)
	}
	descriptor, err := remote.Head(ref, remote.WithContext(ctx), remote.WithAuthFromKeychain(c.keys))
	if err != nil {
		return "", fmt.Errorf("ask for image %s: %w", ref, Classify(err))
	}
	return descriptor.Digest.String(), nil
}

// ParseReference reads a reference to an image. A host without TLS is spoken to
// over HTTP only if address says so, or if it is on this machine.
func ParseReference(reference string, address Address) (name.Reference, error) {
	var options []name.Option
	if address.PlainHTTP && strings.HasPrefix(reference, address.Push+"/") {
		options = append(options, name.Insecure)
	}
	return name.ParseReference(reference, options...)
}

// Classify wraps an error of go-containerregistry with the one of this package
// that tells what it means.
func Classify(err error) error {
	var answer *transport.Error
	if !errors.As(err, &answer) {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	switch answer.StatusCode {
	case http.StatusNotFound:
		return fmt.Errorf("%w: %w", ErrNotFound, err)
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Errorf("%w: %w", ErrAuth, err)
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// single is a keychain with the credential of one host.
type single struct {
	host   string
	config authn.AuthConfig
}

// Resolve returns the credential for its host, and none for any other.
func (s single) Resolve(resource authn.Resource) (authn.Authenticator, error) {
	if resource.RegistryStr() == s.host && s.config.Username != "" {
		return authn.FromConfig(s.config), nil
	}
	return authn.Anonymous, nil
}
