package gitsource

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// maxRedirects is how many redirects one request follows.
const maxRedirects = 5

// newTransport connects through the dialer and trusts the system's certificates and those of the bundles. A proxy of the
// environment is not used: it would connect where the dialer cannot look.
func newTransport(dial *net.Dialer, bundles ...[]byte) (*http.Transport, error) {
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	for _, bundle := range bundles {
		if len(bundle) > 0 && !roots.AppendCertsFromPEM(bundle) {
			return nil, errorf(ErrAuth, "read CA bundle: it holds no certificate in PEM form")
		}
	}
	return &http.Transport{
		DialContext:            dial.DialContext,
		TLSClientConfig:        &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2:      true,
		MaxIdleConns:           64,
		MaxIdleConnsPerHost:    4,
		IdleConnTimeout:        90 * time.Second,
		TLSHandshakeTimeout:    10 * time.Second,
		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: 64 << 10,
	}, nil
}

// originAuth shows the credentials to one origin. It decides for each request, redirects included: what
// net/http copies to a subdomain does not count.
type originAuth struct {
	next        http.RoundTripper
	origin      string
	credentials Credentials
}

func (t originAuth) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Del("Authorization")
	req.Header.Del("Cookie")
	req.Header.Del("Referer")
	if !t.credentials.anonymous() && origin(req.URL) == t.origin {
		req.SetBasicAuth(t.credentials.Username, t.credentials.Password)
	}
	return t.next.RoundTrip(req)
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
