package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/cgi"
	"os/exec"
	"strings"
	"sync"
)

// gitServer is git http-backend behind a front that counts.
type gitServer struct {
	backend http.Handler
	url     string
	server  *http.Server

	mu   sync.Mutex
	seen traffic
}

// traffic is what a Git server was asked.
type traffic struct {
	// Advertisements are requests for what the server can do, which with protocol v0 lists all refs; Refs are those
	// of protocol v2 for refs by name; Packs are for objects.
	Advertisements, Refs, Packs int
	// Bytes is what was answered.
	Bytes int64
}

// minus is what came since an earlier look.
func (t traffic) minus(before traffic) traffic {
	return traffic{t.Advertisements - before.Advertisements, t.Refs - before.Refs, t.Packs - before.Packs, t.Bytes - before.Bytes}
}

// serveGit serves the bare repositories of a directory on a port of its own.
func serveGit(dir string) (*gitServer, error) {
	git, err := exec.LookPath("git")
	if err != nil {
		return nil, fmt.Errorf("serve Git: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("serve Git: %w", err)
	}
	s := &gitServer{
		url: "http://" + listener.Addr().String(),
		backend: &cgi.Handler{
			Path: git, Args: []string{"http-backend"}, Stderr: io.Discard, Logger: log.New(io.Discard, "", 0),
			Env: []string{"GIT_PROJECT_ROOT=" + dir, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1", "HOME=/nonexistent"},
		},
	}
	s.server = &http.Server{Handler: s, ErrorLog: log.New(io.Discard, "", 0)}
	go func() { _ = s.server.Serve(listener) }()
	return s, nil
}

// ServeHTTP counts a request and its answer.
func (s *gitServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client is gone
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	s.mu.Lock()
	switch {
	case strings.HasSuffix(r.URL.Path, "/info/refs"):
		s.seen.Advertisements++
	case bytes.Contains(body, []byte("command=ls-refs")):
		s.seen.Refs++
	default:
		s.seen.Packs++
	}
	s.mu.Unlock()
	s.backend.ServeHTTP(&counter{w, s}, r)
}

// counter counts what is answered.
type counter struct {
	http.ResponseWriter
	server *gitServer
}

// Write passes bytes on.
func (c *counter) Write(p []byte) (int, error) {
	c.server.mu.Lock()
	c.server.seen.Bytes += int64(len(p))
	c.server.mu.Unlock()
	return c.ResponseWriter.Write(p)
}

func (s *gitServer) traffic() traffic {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen
}

func (s *gitServer) close() error { return s.server.Shutdown(context.Background()) }
