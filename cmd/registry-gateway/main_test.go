package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/gitfn/gitfn/registry/tenant"
)

func TestInitWritesTheKeySet(t *testing.T) {
	g := NewWithT(t)
	key, jwks := filepath.Join(t.TempDir(), "key"), filepath.Join(t.TempDir(), "jwks.json")
	g.Expect(os.WriteFile(key, tenant.NewKey().Encode(), 0o600)).To(Succeed())
	g.Expect(start(t.Context(), []string{"init", "-key", key, "-jwks", jwks}, io.Discard)).To(Equal(0))

	text, err := os.ReadFile(jwks)
	g.Expect(err).NotTo(HaveOccurred())
	var set struct{ Keys []map[string]string }
	g.Expect(json.Unmarshal(text, &set)).To(Succeed())
	g.Expect(set.Keys).To(HaveLen(1))
	g.Expect(set.Keys[0]).NotTo(HaveKey("d"), "the private half")
}

func TestStartRefuses(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"an unknown flag ends with 2", []string{"-what"}, 2, "flag provided but not defined"},
		{"a registry that is no URL ends with 2", []string{"-registry", "localhost"}, 2, `-registry "localhost" is not a URL`},
		{"an empty system namespace ends with 2", []string{"-system-namespace="}, 2, "must not be empty"},
		{"a missing key ends with 1", []string{"-key", "/nowhere"}, 1, "read registry key: open /nowhere"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			var out bytes.Buffer
			g.Expect(start(t.Context(), tt.args, &out)).To(Equal(tt.code))
			g.Expect(out.String()).To(ContainSubstring(tt.says))
		})
	}
}

func TestStopLetsRequestsFinish(t *testing.T) {
	g := NewWithT(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	finish := make(chan struct{})
	go func() {
		stopped <- serve(ctx, listener, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			stop()
			<-finish
			_, _ = io.WriteString(w, "whole")
		}))
	}()
	go func() { <-ctx.Done(); close(finish) }()
	response, err := http.Get("http://" + listener.Addr().String())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(io.ReadAll(response.Body)).To(BeEquivalentTo("whole"))
	g.Expect(<-stopped).To(Succeed())
}

func TestRunServesUntilStopped(t *testing.T) {
	g := NewWithT(t)
	key := filepath.Join(t.TempDir(), "key")
	g.Expect(os.WriteFile(key, tenant.NewKey().Encode(), 0o600)).To(Succeed())
	o := defaults()
	o.KeyFile, o.Listen = key, "127.0.0.1:0"
	ctx, stop := context.WithCancel(t.Context())
	stop()
	g.Expect(run(ctx, o, slog.New(slog.DiscardHandler))).To(Succeed())
}
