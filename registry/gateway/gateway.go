// Package gateway stands in front of the internal registry.
//
// In go requests of clients; out come tokens for those who have a credential
// of registry/tenant, and everything else goes on, unchanged, to a registry on
// the same Pod's loopback address that believes these tokens. It stores nothing
// and never opens an image.
package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"

	"github.com/gitfn/gitfn/registry/tenant"
)

// What the registry's configuration must say, so that it believes the tokens
// and sends clients here for them.
const (
	// TokenPath is where clients ask for tokens; it is distribution's default for autoredirect.
	TokenPath = "/auth/token"
	// Issuer and Service stand in every token.
	Issuer  = "gitfn"
	Service = "gitfn-registry"
)

const (
	healthTimeout = 2 * time.Second
	flushInterval = 100 * time.Millisecond
	// idleConnections to the registry: as many as clients that pull at once keep busy.
	idleConnections = 64
)

// Options are what a gateway needs.
type Options struct {
	// Key verifies credentials, and the key that signs tokens comes from it.
	Key tenant.Key
	// Policy decides.
	Policy tenant.Policy
	// Registry is the address behind: scheme and host.
	Registry *url.URL
	// Log takes decisions; never a credential or a token.
	Log *slog.Logger
	// Now is the clock. Nil is time.Now.
	Now func() time.Time
}

// Handler serves the token endpoint, /healthz (the registry answers), /livez
// (this process answers), and the registry.
func Handler(o Options) http.Handler {
	if o.Now == nil {
		o.Now = time.Now
	}
	transport := &http.Transport{
		// No proxy of the environment: the registry is on loopback.
		MaxIdleConnsPerHost: idleConnections,
		// The bytes of a blob are its digest: nothing may be packed on the way.
		DisableCompression: true,
	}
	mux := http.NewServeMux()
	mux.Handle(TokenPath, &tokens{Options: o, signer: newSigner(o.Key)})
	mux.Handle("/healthz", health(o.Registry, transport))
	mux.HandleFunc("/livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.Handle("/v2/", proxy(o, transport))
	return mux
}

// proxy passes on the Host that the client used, and its scheme: the registry
// names the token endpoint by them, and one registry has several addresses.
func proxy(o Options, transport http.RoundTripper) http.Handler {
	return &httputil.ReverseProxy{
		Transport:     transport,
		FlushInterval: flushInterval,
		ErrorLog:      slog.NewLogLogger(o.Log.Handler(), slog.LevelWarn),
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(o.Registry)
			r.SetXForwarded()
			r.Out.Host = r.In.Host
			r.Out.Header.Del("X-Forwarded-Host") // is Host, and would be believed before it
			r.Out.Header.Del("X-Forwarded-Port")
			r.Out.Header.Set("X-Forwarded-Proto", scheme(r.In))
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if r.Context().Err() == nil {
				o.Log.Warn("registry does not answer", "method", r.Method, "path", r.URL.Path, "error", err)
			}
			refuse(w, http.StatusServiceUnavailable, "UNAVAILABLE", "the registry does not answer; try again")
		},
	}
}

// scheme is the one that the client sees: a proxy before us that ends TLS
// says so. Who lies here only spoils the answer to himself.
func scheme(r *http.Request) string {
	if r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https" {
		return "https"
	}
	return "http"
}

func health(registry *url.URL, transport http.RoundTripper) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), healthTimeout)
		defer cancel()
		if err := ping(ctx, registry, transport); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
}

// ping asks as nobody: 401 is the answer of a registry that is well.
func ping(ctx context.Context, registry *url.URL, transport http.RoundTripper) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, registry.JoinPath("/v2/").String(), nil)
	if err != nil {
		return fmt.Errorf("ask registry: %w", err)
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return fmt.Errorf("ask registry: %w", err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK && response.StatusCode != http.StatusUnauthorized {
		return fmt.Errorf("ask registry: it answers %s", response.Status)
	}
	return nil
}

// refuse answers as registries do, so that clients show the sentence.
func refuse(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	type entry struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	// The status is out; a client that has gone is not told anything more.
	_ = json.NewEncoder(w).Encode(map[string][]entry{"errors": {{code, message}}})
}
