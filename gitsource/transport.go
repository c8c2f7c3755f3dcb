package gitsource

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gitfn/gitfn/gitsource/dialer"
)

// maxRedirects is how many redirects one request follows.
const maxRedirects = 5

// roots are the system's authorities and those of the bundles.
func roots(bundles ...[]byte) (*x509.CertPool, error) {
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	for _, bundle := range bundles {
		if len(bundle) > 0 && !pool.AppendCertsFromPEM(bundle) {
			return nil, errorf(ErrAuth, "read CA bundle: it holds no certificate in PEM form")
		}
	}
	return pool, nil
}

// newTransport connects as the credentials say, and where the options let it.
func newTransport(o Options, c Credentials) (*dialer.Transport, error) {
	pool, err := roots(o.RootCAs, c.CABundle)
	if err != nil {
		return nil, err
	}
	certificates, err := c.clientCertificates()
	if err != nil {
		return nil, err
	}
	proxy, err := proxyOf(o, c, pool)
	if err != nil {
		return nil, err
	}
	route := dialer.Route{Policy: o.policy(), Resolver: o.Resolver, Proxy: proxy}
	return route.Transport(&http.Transport{
		TLSClientConfig:        &tls.Config{RootCAs: pool, Certificates: certificates, MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2:      true,
		MaxIdleConns:           64,
		MaxIdleConnsPerHost:    4,
		IdleConnTimeout:        90 * time.Second,
		TLSHandshakeTimeout:    10 * time.Second,
		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: 64 << 10,
	}), nil
}

// proxyOf is the proxy of the credentials, or else the administrator's, or else none.
func proxyOf(o Options, c Credentials, pool *x509.CertPool) (*dialer.Proxy, error) {
	proxy := &dialer.Proxy{NoProxy: c.NoProxy, TLS: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}
	raw := c.Proxy
	if raw == "" {
		raw, proxy.NoProxy, proxy.Trusted = o.Proxy, o.NoProxy, true
	}
	at, err := parseProxy(raw)
	if at == nil || err != nil {
		return nil, err
	}
	proxy.URL = at
	return proxy, nil
}

// policy is what the dialer looks at.
func (o Options) policy() dialer.Policy { return dialer.Policy{Allow: o.Allow, Deny: o.Deny} }

// routes are how the requests of one credential go out: those to its origin, and those to where redirects lead, which
// see no client certificate.
type routes struct{ own, foreign http.RoundTripper }

// originAuth shows the credentials to one origin. It decides for each request, redirects included: what
// net/http copies to a subdomain does not count.
type originAuth struct {
	routes
	origin string
	// shown is the user name and the password; both are empty if there are none.
	shown func(context.Context) (username, password string, err error)
}

func (t originAuth) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Del("Authorization")
	req.Header.Del("Cookie")
	req.Header.Del("Referer")
	if origin(req.URL) != t.origin {
		return t.foreign.RoundTrip(req)
	}
	username, password, err := t.shown(req.Context())
	if err != nil {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, err
	}
	if username != "" || password != "" {
		req.SetBasicAuth(username, password)
	}
	return t.own.RoundTrip(req)
}

// origin is scheme, host and port.
func origin(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = defaultPort[u.Scheme]
	}
	return u.Scheme + "://" + strings.ToLower(u.Hostname()) + ":" + port
}

// checkRedirect lets a redirect go on to where a user could have pointed as well, and never to less safety.
func checkRedirect(req *http.Request, via []*http.Request) error {
	last := via[len(via)-1]
	switch {
	case len(via) > maxRedirects:
		return errorf(ErrUnsupported, "more than %d redirects", maxRedirects)
	case req.URL.Scheme != "http" && req.URL.Scheme != "https" || req.URL.User != nil:
		return errorf(ErrInvalidURL, "redirect to a URL that is refused")
	case last.URL.Scheme == "https" && req.URL.Scheme != "https":
		return errorf(ErrInvalidURL, "redirect from https to http is refused")
	case last.Method != req.Method:
		return errorf(ErrUnsupported, "redirect of a request with a body")
	}
	return nil
}
