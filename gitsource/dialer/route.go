package dialer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpproxy"
)

// Route is how HTTP requests reach addresses that a user may name: directly or through a proxy. Its zero value goes
// directly, to what the zero Policy allows.
type Route struct {
	// Policy says which addresses may be connected to.
	Policy Policy
	// Resolver looks names up. Nil is the system's.
	Resolver *net.Resolver
	// Timeout limits connecting to one address. Zero means ten seconds.
	Timeout time.Duration
	// Trusted are servers, host:port, that the administrator named: they may have any address.
	Trusted []string
	// Proxy is between here and every server that its NoProxy does not list. Nil is none. The environment is not looked at.
	Proxy *Proxy
}

// Proxy is a forward proxy. Servers with TLS are reached by CONNECT.
type Proxy struct {
	// URL is http or https, with the user and the password to show, if there are some.
	URL *url.URL
	// NoProxy lists the hosts that are reached without it, as in the environment variable NO_PROXY.
	NoProxy string
	// Trusted says that the administrator named it, so that it may have any address.
	Trusted bool
	// TLS is for an https proxy. No certificate of a client belongs here. Nil trusts the system's authorities.
	TLS *tls.Config
}

// ParseProxy reads the URL of a proxy: http or https, a host, and perhaps a port, a user and a password. Its error does
// not repeat the URL.
func ParseProxy(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" ||
		strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("it is no http or https URL of a proxy, such as http://proxy.example:3128")
	}
	return u, nil
}

// ProxyError is the answer of a proxy that did not connect.
type ProxyError struct {
	// Status is the code of the answer.
	Status int
}

// Error names the status, and nothing that the proxy said: it may repeat what it was shown.
func (e *ProxyError) Error() string { return fmt.Sprintf("the proxy answers %d", e.Status) }

// Transport sends HTTP requests on a Route. It is safe for concurrent use.
type Transport struct {
	route   Route
	direct  *http.Transport
	proxied *http.Transport // nil without a proxy
	choose  func(*url.URL) (*url.URL, error)
}

// Transport returns a transport with the settings of base; how it connects is the route's business.
func (r Route) Transport(base *http.Transport) *Transport {
	if r.Timeout <= 0 {
		r.Timeout = 10 * time.Second
	}
	checked, unchecked := New(r.Policy, r.Timeout), &net.Dialer{Timeout: r.Timeout, Resolver: r.Resolver}
	checked.Resolver = r.Resolver
	t := &Transport{route: r, direct: base.Clone(), choose: func(*url.URL) (*url.URL, error) { return nil, nil }}
	t.direct.Proxy = nil
	t.direct.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		if r.trusts(address) {
			return unchecked.DialContext(ctx, network, address)
		}
		return checked.DialContext(ctx, network, address)
	}
	if r.Proxy == nil {
		return t
	}
	if r.Proxy.Trusted {
		checked = unchecked
	}
	t.choose = (&httpproxy.Config{HTTPProxy: r.Proxy.URL.String(), HTTPSProxy: r.Proxy.URL.String(), NoProxy: r.Proxy.NoProxy}).ProxyFunc()
	t.proxied = base.Clone()
	t.proxied.Proxy = http.ProxyURL(r.Proxy.plain())
	t.proxied.DialContext = r.Proxy.dialer(checked)
	t.proxied.OnProxyConnectResponse = func(_ context.Context, _ *url.URL, _ *http.Request, answer *http.Response) error {
		if answer.StatusCode != http.StatusOK {
			return &ProxyError{Status: answer.StatusCode}
		}
		return nil
	}
	return t
}

// plain is the proxy's URL as net/http is given it: without TLS, because dialer has seen to that.
func (p *Proxy) plain() *url.URL {
	port := p.URL.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[p.URL.Scheme]
	}
	return &url.URL{Scheme: "http", Host: net.JoinHostPort(p.URL.Hostname(), port), User: p.URL.User}
}

// dialer connects to the proxy. net/http would show it the client certificate that is meant for the server behind.
func (p *Proxy) dialer(dial *net.Dialer) func(ctx context.Context, network, address string) (net.Conn, error) {
	if p.URL.Scheme != "https" {
		return dial.DialContext
	}
	config := p.TLS.Clone()
	if config == nil {
		config = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return (&tls.Dialer{NetDialer: dial, Config: config}).DialContext
}

// RoundTrip sends a request. Its errors match ErrRefused for an address that must not be connected to.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	proxy, err := t.choose(req.URL)
	if err == nil && proxy != nil {
		err = t.route.checkTarget(req.Context(), req.URL)
	}
	if err != nil {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, err
	}
	if proxy != nil {
		return t.proxied.RoundTrip(req)
	}
	return t.direct.RoundTrip(req)
}

// CloseIdleConnections closes the connections that nobody uses right now.
func (t *Transport) CloseIdleConnections() {
	t.direct.CloseIdleConnections()
	if t.proxied != nil {
		t.proxied.CloseIdleConnections()
	}
}

// trusts tells whether the administrator named a server, host:port.
func (r Route) trusts(address string) bool {
	return slices.ContainsFunc(r.Trusted, func(trusted string) bool { return strings.EqualFold(trusted, address) })
}

// lookupTimeout limits the look at a name that a proxy is about to be asked for.
const lookupTimeout = 2 * time.Second

// checkTarget looks at the server that a proxy is about to be asked for. It cannot see what the proxy will see: a name
// that does not resolve here, or resolves to something else there, is the proxy's to judge.
func (r Route) checkTarget(ctx context.Context, target *url.URL) error {
	host, port := strings.ToLower(strings.TrimSuffix(target.Hostname(), ".")), target.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[target.Scheme]
	}
	if r.trusts(net.JoinHostPort(host, port)) {
		return nil
	}
	if address, err := netip.ParseAddr(host); err == nil {
		return r.Policy.Check(address)
	}
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return r.Policy.Check(netip.AddrFrom4([4]byte{127, 0, 0, 1}))
	}
	if endsInNumber(host) {
		return fmt.Errorf("connect to %s through the proxy: %w: it is an address in a form of old", host, ErrRefused)
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	resolver := r.Resolver
	if resolver == nil {
		resolver = net.DefaultResolver
	}
	addresses, err := resolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil // the proxy may know better
	}
	for _, address := range addresses {
		if err := r.Policy.Check(address); err != nil {
			return err
		}
	}
	return nil
}

// endsInNumber tells names that inet_aton(3) reads as addresses, such as 127.1 and 0x7f000001: no top-level domain
// is a number.
func endsInNumber(host string) bool {
	last := host[strings.LastIndexByte(host, '.')+1:]
	if hex, found := strings.CutPrefix(last, "0x"); found {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return last != "" && strings.Trim(last, "0123456789") == ""
}
