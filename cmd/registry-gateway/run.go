package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/gitfn/gitfn/registry/gateway"
	"github.com/gitfn/gitfn/registry/tenant"
)

const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	// stopTimeout lets running uploads end; the Pod's grace period is longer.
	stopTimeout = 20 * time.Second
)

// options are the flags.
type options struct {
	// Listen is the address that clients reach, and Registry the one behind.
	Listen, Registry string
	// KeyFile holds the installation's registry key, JWKSFile is what init writes.
	KeyFile, JWKSFile string
	// SystemNamespace is where gitfn runs.
	SystemNamespace string
}

func defaults() options {
	return options{
		Listen: ":5000", Registry: "http://127.0.0.1:5001",
		KeyFile: "/etc/gitfn/registry/key", JWKSFile: "/run/gitfn/jwks.json",
		SystemNamespace: "gitfn-system",
	}
}

func (o *options) bind(flags *flag.FlagSet) {
	flags.StringVar(&o.Listen, "listen", o.Listen, "`address` to serve on")
	flags.StringVar(&o.Registry, "registry", o.Registry, "`URL` of the registry behind")
	flags.StringVar(&o.KeyFile, "key", o.KeyFile, "`file` with the registry key")
	flags.StringVar(&o.JWKSFile, "jwks", o.JWKSFile, "`file` that init writes for the registry")
	flags.StringVar(&o.SystemNamespace, "system-namespace", o.SystemNamespace, "`namespace` that gitfn runs in")
}

// Validate names the first flag that cannot be used.
func (o *options) Validate() error {
	if u, err := url.Parse(o.Registry); err != nil || u.Host == "" {
		return fmt.Errorf("-registry %q is not a URL such as http://127.0.0.1:5001", o.Registry)
	}
	if o.SystemNamespace == "" {
		return errors.New("-system-namespace must not be empty")
	}
	return nil
}

func (o *options) key() (tenant.Key, error) {
	text, err := os.ReadFile(o.KeyFile)
	if err != nil {
		return tenant.Key{}, fmt.Errorf("read registry key: %w", err)
	}
	return tenant.ParseKey(text)
}

// writeJWKS runs before the registry starts, which reads the file once.
func writeJWKS(_ context.Context, o options, _ *slog.Logger) error {
	key, err := o.key()
	if err != nil {
		return err
	}
	if err := os.WriteFile(o.JWKSFile, gateway.JWKS(key), 0o644); err != nil {
		return fmt.Errorf("write key set: %w", err)
	}
	return nil
}

// run serves until the context ends, and then lets running requests finish.
func run(ctx context.Context, o options, log *slog.Logger) error {
	key, err := o.key()
	if err != nil {
		return err
	}
	registry, err := url.Parse(o.Registry)
	if err != nil {
		return fmt.Errorf("read -registry: %w", err)
	}
	listener, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", o.Listen, err)
	}
	log.Info("serving", "address", listener.Addr().String(), "registry", registry.Host)
	return serve(ctx, listener, gateway.Handler(gateway.Options{
		Key:      key,
		Policy:   tenant.Policy{System: o.SystemNamespace},
		Registry: registry,
		Log:      log,
	}))
}

func serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	// No limit on a whole request: uploads take as long as they take.
	server := &http.Server{Handler: handler, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout}
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	select {
	case err := <-done:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if err := server.Shutdown(grace); err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	return nil
}
