package executor

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/gitfn/gitfn/builder"
	"github.com/gitfn/gitfn/registry"
)

// store is the plan's registry, with the credential of a stage.
type store struct {
	address registry.Address
	puller  *remote.Puller
	pusher  *remote.Pusher
}

// dependencyTag is where the dependency layer of a key is kept: beside the
// Function's images, for it alone.
func dependencyTag(plan builder.Plan, key string) string { return plan.Repository + ":deps-" + key }

func (o *options) store() (*store, error) {
	transport, err := o.transport()
	if err != nil {
		return nil, err
	}
	keys, err := readDockerConfig(o.dockerConfig)
	if err != nil {
		return nil, err
	}
	settings := []remote.Option{remote.WithAuthFromKeychain(keys), remote.WithTransport(transport), remote.WithUserAgent("gitfn-builder")}
	puller, err := remote.NewPuller(settings...)
	if err != nil {
		return nil, err
	}
	pusher, err := remote.NewPusher(settings...)
	if err != nil {
		return nil, err
	}
	host, _, _ := strings.Cut(o.plan.Repository, "/")
	return &store{registry.Address{Push: host, Pull: host, PlainHTTP: o.plainHTTP}, puller, pusher}, nil
}

func (s *store) reference(text string) (name.Reference, error) {
	return registry.ParseReference(text, s.address)
}

// digest is the digest of a reference; its error matches those of package registry.
func (s *store) digest(ctx context.Context, text string) (string, error) {
	ref, err := s.reference(text)
	if err != nil {
		return "", err
	}
	descriptor, err := s.puller.Head(ctx, ref)
	if err != nil {
		return "", fmt.Errorf("ask for %s: %w", ref, classifyRegistry(err))
	}
	return descriptor.Digest.String(), nil
}

// image is an image whose layers are not fetched: when it is pushed elsewhere in
// the same registry, they are mounted.
func (s *store) image(ctx context.Context, text string) (v1.Image, error) {
	ref, err := s.reference(text)
	if err != nil {
		return nil, err
	}
	descriptor, err := s.puller.Get(ctx, ref)
	if err != nil {
		return nil, fmt.Errorf("read image %s: %w", ref, classifyRegistry(err))
	}
	return descriptor.Image()
}

func (s *store) push(ctx context.Context, text string, image v1.Image) error {
	ref, err := s.reference(text)
	if err != nil {
		return err
	}
	if err := s.pusher.Push(ctx, ref, image); err != nil {
		return fmt.Errorf("push %s: %w", ref, classifyRegistry(err))
	}
	return nil
}

// classifyRegistry gives an error of the registry its class, and keeps
// registry.ErrNotFound matchable.
func classifyRegistry(err error) error {
	err = registry.Classify(err)
	class := builder.ClassRegistryUnavailable
	if errors.Is(err, registry.ErrAuth) {
		class = builder.ClassRegistryAuth
	}
	return errors.Join(&builder.StepError{Class: class, Message: err.Error()}, err)
}

// dockerConfig is a keychain of the credentials in a config.json.
type dockerConfig map[string]authn.AuthConfig

func readDockerConfig(dir string) (dockerConfig, error) {
	keys := dockerConfig{}
	if dir == "" {
		return keys, nil
	}
	text, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		return nil, fmt.Errorf("read registry credentials: %w", err)
	}
	var config struct {
		Auths map[string]struct {
			Auth     string `json:"auth"`
			Username string `json:"username"`
			Password string `json:"password"`
		} `json:"auths"`
	}
	if err := json.Unmarshal(text, &config); err != nil {
		return nil, errors.New("read registry credentials: config.json is no JSON") // the cause may quote the secret
	}
	for host, entry := range config.Auths {
		if entry.Username == "" {
			pair, _ := base64.StdEncoding.DecodeString(entry.Auth)
			entry.Username, entry.Password, _ = strings.Cut(string(pair), ":")
		}
		host = strings.TrimPrefix(strings.TrimPrefix(host, "https://"), "http://")
		host, _, _ = strings.Cut(host, "/")
		keys[host] = authn.AuthConfig{Username: entry.Username, Password: entry.Password}
	}
	return keys, nil
}

// Resolve returns the credential of a registry; none if there is none.
func (d dockerConfig) Resolve(resource authn.Resource) (authn.Authenticator, error) {
	if config, found := d[resource.RegistryStr()]; found {
		return authn.FromConfig(config), nil
	}
	return authn.Anonymous, nil
}
