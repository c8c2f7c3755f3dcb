package gitsource_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/gitfn/gitfn/gitsource"
)

// newResolver is a name server in the process. Names that lookup has no address for do not exist.
func newResolver(lookup func(name string) []string) *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		here, there := net.Pipe()
		go answerNames(there, lookup)
		return here, nil
	}}
}

func answerNames(conn net.Conn, lookup func(name string) []string) {
	defer conn.Close()
	for {
		var length uint16
		if binary.Read(conn, binary.BigEndian, &length) != nil {
			return
		}
		packet := make([]byte, length)
		var message dnsmessage.Message
		if _, err := io.ReadFull(conn, packet); err != nil || message.Unpack(packet) != nil {
			return
		}
		question := message.Questions[0]
		message.Response, message.RecursionAvailable, message.Additionals = true, true, nil
		addresses := lookup(strings.TrimSuffix(question.Name.String(), "."))
		if len(addresses) == 0 {
			message.RCode = dnsmessage.RCodeNameError
		}
		for _, address := range addresses {
			if question.Type == dnsmessage.TypeA {
				message.Answers = append(message.Answers, dnsmessage.Resource{
					Header: dnsmessage.ResourceHeader{Name: question.Name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET},
					Body:   &dnsmessage.AResource{A: netip.MustParseAddr(address).As4()},
				})
			}
		}
		packet, err := message.Pack()
		if err != nil {
			return
		}
		if _, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(packet))), packet...)); err != nil {
			return
		}
	}
}

func names(table map[string]string) *net.Resolver {
	return newResolver(func(name string) []string {
		if address, found := table[name]; found {
			return []string{address}
		}
		return nil
	})
}

// loopbackOne is where the tests' servers are, and nothing else of loopback.
var loopbackOne = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}

func withNames(table map[string]string) func(*gitsource.Options) {
	return func(o *gitsource.Options) { o.Resolver = names(table) }
}

func TestANameThatChangesItsAnswerGainsNothing(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r, commit := monorepo(t, 1)
	s := newGitServer(t, r, nil)
	s.Config.SetKeepAlivesEnabled(false) // each request looks the name up
	var asked atomic.Int32
	var moved atomic.Bool
	c := newClient(t, func(o *gitsource.Options) {
		o.Allow = loopbackOne
		o.Resolver = newResolver(func(name string) []string {
			asked.Add(1)
			switch {
			case name != "git.example":
				return nil
			case moved.Load():
				return []string{"127.0.0.2"} // where the kernel would find the same server
			}
			return []string{"127.0.0.1"}
		})
	})
	repo := gitsource.Repository{URL: strings.Replace(s.URL, "127.0.0.1", "git.example", 1) + "/fn.git"}
	got, err := c.Resolve(t.Context(), repo, gitsource.Selection{Reference: "main"}, 0)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got.Commit).To(Equal(commit))
	g.Expect(asked.Load()).NotTo(BeZero())

	seen := len(s.all())
	moved.Store(true)
	_, err = c.Resolve(t.Context(), repo, gitsource.Selection{Reference: "main"}, 0)
	g.Expect(err).To(MatchError(gitsource.ErrAddressRefused))
	g.Expect(s.all()).To(HaveLen(seen))
}

// secured is a server with TLS before another, with its certificate as PEM.
func secured(t testing.TB, serve http.HandlerFunc, configure func(*tls.Config)) (s *httptest.Server, ca []byte) {
	t.Helper()
	s = httptest.NewUnstartedServer(serve)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.TLS = &tls.Config{}
	if configure != nil {
		configure(s.TLS)
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}

func TestClientCertificates(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	certificate, key := newCertificate(t)
	strangers, strangersKey := newCertificate(t)
	known := x509.NewCertPool()
	g.Expect(known.AppendCertsFromPEM(certificate)).To(BeTrue())
	r, commit := monorepo(t, 1)
	git := newGitServer(t, r, nil)

	var elsewhereSaw atomic.Int32
	elsewhere, elsewhereCA := secured(t, func(w http.ResponseWriter, r *http.Request) {
		elsewhereSaw.Add(int32(len(r.TLS.PeerCertificates)))
		git.serve(w, r)
	}, func(c *tls.Config) { c.ClientAuth = tls.RequestClientCert })

	var connections atomic.Int32
	s, ca := secured(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/moved/") {
			http.Redirect(w, r, elsewhere.URL+strings.TrimPrefix(r.URL.RequestURI(), "/moved"), http.StatusFound)
			return
		}
		git.serve(w, r)
	}, func(c *tls.Config) {
		c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, known
		c.VerifyConnection = func(tls.ConnectionState) error { connections.Add(1); return nil }
	})
	c := newClient(t, func(o *gitsource.Options) { o.RootCAs = append(ca, elsewhereCA...) })
	resolve := func(path string, credentials gitsource.Credentials) (gitsource.Revision, error) {
		return c.Resolve(t.Context(), gitsource.Repository{URL: s.URL + path, Credentials: credentials}, gitsource.Selection{Reference: "main"}, 0)
	}

	mine := gitsource.Credentials{ClientCertificate: certificate, ClientKey: key}
	for _, path := range []string{"/fn.git", "/fn"} {
		got, err := resolve(path, mine)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(got.Commit).To(Equal(commit))
	}
	g.Expect(connections.Load()).To(BeEquivalentTo(1), "repositories of one certificate share connections")

	for name, credentials := range map[string]gitsource.Credentials{
		"none":         {},
		"a password":   {Username: "ci", Password: "hunter2"},
		"a stranger's": {ClientCertificate: strangers, ClientKey: strangersKey},
	} {
		_, err := resolve("/fn.git", credentials)
		g.Expect(err).To(MatchError(gitsource.ErrAuth), name)
		g.Expect(err).To(MatchError(ContainSubstring("tls.crt")), name)
	}

	got, err := resolve("/moved/fn.git", mine)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got.Commit).To(Equal(commit))
	g.Expect(elsewhereSaw.Load()).To(BeZero(), "another origin sees no certificate")

	_, err = resolve("/fn.git", gitsource.Credentials{ClientCertificate: certificate, ClientKey: strangersKey})
	g.Expect(err).To(MatchError(gitsource.ErrAuth))
}

// proxy is a forward proxy with names of its own.
type proxy struct {
	*httptest.Server
	table         map[string]string // host:port to where it really is
	authorization string            // wanted, if it is not empty

	mu   sync.Mutex
	seen []string
	told []http.Header
}

func newProxy(t testing.TB, secure bool, table map[string]string) (p *proxy, ca []byte) {
	t.Helper()
	p = &proxy{table: table}
	if secure {
		p.Server, ca = secured(t, p.serve, func(c *tls.Config) {
			c.ClientAuth = tls.RequestClientCert
			c.VerifyConnection = func(state tls.ConnectionState) error {
				if len(state.PeerCertificates) > 0 {
					return fmt.Errorf("a proxy was shown a client certificate")
				}
				return nil
			}
		})
		return p, ca
	}
	p.Server = httptest.NewServer(http.HandlerFunc(p.serve))
	t.Cleanup(p.Close)
	return p, nil
}

func (p *proxy) serve(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.seen, p.told = append(p.seen, r.Method+" "+r.Host), append(p.told, r.Header.Clone())
	p.mu.Unlock()
	if p.authorization != "" && r.Header.Get("Proxy-Authorization") != p.authorization {
		w.Header().Set("Proxy-Authenticate", "Basic")
		w.WriteHeader(http.StatusProxyAuthRequired)
		_, _ = io.WriteString(w, r.Header.Get("Proxy-Authorization"))
		return
	}
	host := r.Host
	if !strings.Contains(host, ":") {
		host += ":80"
	}
	at, found := p.table[host]
	if !found {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	if r.Method != http.MethodConnect {
		p.forward(w, r, at)
		return
	}
	server, err := net.Dial("tcp", at)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer server.Close()
	client, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	defer client.Close()
	_, _ = io.WriteString(client, "HTTP/1.1 200 Connected\r\n\r\n")
	go func() { _, _ = io.Copy(server, client); _ = server.Close() }()
	_, _ = io.Copy(client, server)
}

func (p *proxy) forward(w http.ResponseWriter, r *http.Request, at string) {
	r.RequestURI, r.URL.Host = "", at
	r.Header.Del("Proxy-Authorization")
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer resp.Body.Close()
	for name, values := range resp.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(w, resp.Body)
}

func (p *proxy) requests() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.seen)
}

func (p *proxy) withUser(user string) string { return strings.Replace(p.URL, "://", "://"+user+"@", 1) }

func TestProxies(t *testing.T) {
	t.Parallel()
	r, commit := monorepo(t, 1)
	plain := newGitServer(t, r, basicAuth("ci", "hunter2"))
	secure, ca := secured(t, plain.serve, nil)
	table := map[string]string{
		"git.example:80":      strings.TrimPrefix(plain.URL, "http://"),
		"example.com:443":     strings.TrimPrefix(secure.URL, "https://"), // a name that the certificate has
		"redirect.example:80": strings.TrimPrefix(redirecting(t, "http://git.example"), "http://"),
	}
	for _, secureProxy := range []bool{false, true} {
		for _, of := range []string{"the user's", "the administrator's"} {
			for _, at := range []struct{ url, want string }{
				{"http://git.example/fn.git", "POST git.example"},
				{"https://example.com/fn.git", "CONNECT example.com:443"},
				{"http://redirect.example/fn.git", "GET redirect.example"},
			} {
				t.Run(fmt.Sprintf("%s, secure %v, to %s", of, secureProxy, at.url), func(t *testing.T) {
					t.Parallel()
					g := NewWithT(t)
					p, proxyCA := newProxy(t, secureProxy, table)
					p.authorization = "Basic dTpwQHNz" // u:p@ss
					certificate, key := newCertificate(t)
					repo := gitsource.Repository{URL: at.url, Credentials: gitsource.Credentials{
						Username: "ci", Password: "hunter2", ClientCertificate: certificate, ClientKey: key, CABundle: append(slices.Clone(ca), proxyCA...),
					}}
					c := newClient(t, withNames(nil), func(o *gitsource.Options) {
						if of == "the administrator's" {
							// Its own address is not looked at, and its authority is the administrator's as well.
							o.Proxy, o.Allow, o.RootCAs = p.withUser("u:p%40ss"), nil, proxyCA
						} else {
							repo.Credentials.Proxy = p.withUser("u:p%40ss")
						}
					})
					got, err := c.Resolve(t.Context(), repo, gitsource.Selection{Reference: "main"}, 0)
					if strings.Contains(at.url, "redirect") {
						g.Expect(err).To(MatchError(gitsource.ErrAuth), "another origin sees no password")
						g.Expect(p.requests()).To(Equal([]string{at.want, "GET git.example"}))
						return
					}
					g.Expect(err).NotTo(HaveOccurred())
					g.Expect(got.Commit).To(Equal(commit))
					g.Expect(p.requests()).To(ContainElement(at.want))
					for _, header := range p.told {
						if header.Get("User-Agent") == "" || strings.HasPrefix(at.want, "CONNECT") {
							g.Expect(header).NotTo(HaveKey("Authorization"), "what is for the server does not go to the proxy")
						}
					}
					for _, request := range plain.all() {
						g.Expect(request.authorization).NotTo(ContainSubstring("dTpwQHNz"))
					}

					wrong := p.withUser("canary:canary")
					repo.Credentials.Proxy = wrong
					_, err = newClient(t, withNames(nil)).Resolve(t.Context(), repo, gitsource.Selection{Reference: "main"}, 0)
					g.Expect(err).To(MatchError(gitsource.ErrAuth))
					g.Expect(err).To(MatchError(ContainSubstring("the proxy refuses the user or the password (407)")))
					g.Expect(err.Error()).NotTo(Or(ContainSubstring("canary"), ContainSubstring("Y2FuYXJ5")))
				})
			}
		}
	}
}

// redirecting sends everybody to another server.
func redirecting(t testing.TB, to string) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, to+r.URL.RequestURI(), http.StatusFound)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestProxiesAreLeftOut(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r, commit := monorepo(t, 1)
	s := newGitServer(t, r, nil)
	p, _ := newProxy(t, false, nil)
	repo := gitsource.Repository{URL: strings.Replace(s.URL, "127.0.0.1", "git.example", 1) + "/fn.git"}
	table := withNames(map[string]string{"git.example": "127.0.0.1"})
	for name, modify := range map[string]func(*gitsource.Options){
		"of the administrator, for a host": func(o *gitsource.Options) { o.Proxy, o.NoProxy = p.URL, "git.example" },
		"of the administrator, for all":    func(o *gitsource.Options) { o.Proxy, o.NoProxy = p.URL, "*" },
		"of the user, for a domain": func(*gitsource.Options) {
			repo.Credentials.Proxy, repo.Credentials.NoProxy = p.URL, ".example,10.0.0.0/8"
		},
	} {
		c := newClient(t, table, modify)
		got, err := c.Resolve(t.Context(), repo, gitsource.Selection{Reference: "main"}, 0)
		g.Expect(err).NotTo(HaveOccurred(), name)
		g.Expect(got.Commit).To(Equal(commit))
	}
	g.Expect(p.requests()).To(BeEmpty())

	_, err := newClient(t, table).Resolve(t.Context(), gitsource.Repository{URL: repo.URL, Credentials: gitsource.Credentials{Proxy: p.URL}}, gitsource.Selection{Reference: "main"}, 0)
	g.Expect(err).To(MatchError(ContainSubstring("502")), "without the list it goes through the proxy")
}

// TestTheEnvironmentsProxyIsNotUsed cannot run beside others: the environment is theirs too.
func TestTheEnvironmentsProxyIsNotUsed(t *testing.T) {
	p, _ := newProxy(t, false, nil)
	for _, name := range []string{"http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"} {
		t.Setenv(name, p.URL)
	}
	g := NewWithT(t)
	r, _ := monorepo(t, 1)
	s := newGitServer(t, r, nil)
	c := newClient(t, withNames(map[string]string{"git.example": "127.0.0.1"}))
	_, err := c.Resolve(t.Context(), gitsource.Repository{URL: strings.Replace(s.URL, "127.0.0.1", "git.example", 1) + "/fn.git"}, gitsource.Selection{Reference: "main"}, 0)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(p.requests()).To(BeEmpty())
}

func TestProxiesLeadNowhereForbidden(t *testing.T) {
	t.Parallel()
	p, _ := newProxy(t, false, map[string]string{"redirect.example:80": strings.TrimPrefix(redirecting(t, "http://169.254.169.254"), "http://")})
	known := withNames(map[string]string{"inside.example": "10.96.0.1", "metadata.example": "169.254.169.254", "two.example": "10.96.0.1"})
	cluster := func(o *gitsource.Options) { o.Deny = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12")} }
	for _, row := range []struct{ name, url string }{
		{"the metadata address", "http://169.254.169.254"},
		{"the metadata address as a number", "http://2852039166"},
		{"the metadata address in hexadecimal", "http://0xa9fea9fe"},
		{"loopback in short", "https://127.1"},
		{"loopback by name", "http://localhost."},
		{"loopback by another name", "http://git.localhost"},
		{"link-local of IPv6", "http://[fe80::1]"},
		{"the cluster", "https://10.96.0.1"},
		{"the cluster mapped into IPv6", "https://[::ffff:10.96.0.1]:8443"},
		{"a name of the cluster", "https://inside.example"},
		{"a name of the cluster with a dot behind", "https://inside.example."},
		{"a name of the metadata address", "http://metadata.example"},
	} {
		for _, of := range []string{"the user's", "the administrator's"} {
			t.Run(row.name+", "+of+" proxy", func(t *testing.T) {
				t.Parallel()
				g := NewWithT(t)
				repo := gitsource.Repository{URL: row.url + "/fn.git"}
				c := newClient(t, known, cluster, func(o *gitsource.Options) {
					o.Allow = loopbackOne
					if of == "the administrator's" {
						o.Proxy, o.Allow = p.URL, nil
					} else {
						repo.Credentials.Proxy = p.URL
					}
					if strings.Contains(row.name, "loopback") {
						o.Allow = []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}
						o.Proxy, repo.Credentials.Proxy = p.URL, ""
					}
				})
				_, err := c.Resolve(t.Context(), repo, gitsource.Selection{Reference: "main"}, 0)
				g.Expect(err).To(MatchError(gitsource.ErrAddressRefused))
			})
		}
	}
	t.Run("a redirect", func(t *testing.T) {
		t.Parallel()
		g := NewWithT(t)
		_, err := newClient(t, known, func(o *gitsource.Options) { o.Proxy = p.URL }).Resolve(t.Context(),
			gitsource.Repository{URL: "http://redirect.example/fn.git"}, gitsource.Selection{Reference: "main"}, 0)
		g.Expect(err).To(MatchError(gitsource.ErrAddressRefused))
	})
	t.Run("a user's proxy in the cluster", func(t *testing.T) {
		t.Parallel()
		g := NewWithT(t)
		for _, proxy := range []string{p.URL, "http://10.96.0.1:3128", "https://inside.example", "http://169.254.169.254"} {
			_, err := newClient(t, known, cluster, func(o *gitsource.Options) { o.Allow = nil }).Resolve(t.Context(),
				gitsource.Repository{URL: "http://git.example/fn.git", Credentials: gitsource.Credentials{Proxy: proxy}}, gitsource.Selection{Reference: "main"}, 0)
			g.Expect(err).To(MatchError(gitsource.ErrAddressRefused), proxy)
		}
	})
	t.Cleanup(func() { NewWithT(t).Expect(p.requests()).To(HaveEach("GET redirect.example")) })
}
