package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// endpoint is an HTTP server that only the leader runs: hints are only of use to it.
type endpoint struct {
	name, address string
	handler       http.Handler
}

// Start serves until ctx ends.
func (e *endpoint) Start(ctx context.Context) error {
	server := &http.Server{
		Addr: e.address, Handler: e.handler, MaxHeaderBytes: 64 << 10,
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: 40 * time.Second, IdleTimeout: time.Minute,
	}
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve %s on %s: %w", e.name, e.address, err)
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := server.Shutdown(drain); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}
