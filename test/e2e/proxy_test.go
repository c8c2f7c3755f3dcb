package e2e

import (
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
)

// forwardProxy is a proxy that alone knows two names: one over HTTP, which it
// asks itself, and one that it connects to.
type forwardProxy struct {
	user, password string
	plain          string       // a name and port
	git            http.Handler // what is there
	tunnel         string       // a name and port
	address        string       // where that is

	mu   sync.Mutex
	seen []string
}

func (p *forwardProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Proxy-Authorization") != "Basic "+base64.StdEncoding.EncodeToString([]byte(p.user+":"+p.password)) {
		w.Header().Set("Proxy-Authenticate", `Basic realm="proxy"`)
		http.Error(w, "who are you?", http.StatusProxyAuthRequired)
		return
	}
	p.mu.Lock()
	p.seen = append(p.seen, r.Method+" "+r.Host)
	p.mu.Unlock()
	switch {
	case r.Method == http.MethodConnect && r.Host == p.tunnel:
		p.connect(w)
	case r.Method != http.MethodConnect && r.URL.Host == p.plain:
		p.git.ServeHTTP(w, r)
	default:
		http.Error(w, "this proxy does not know "+r.Host, http.StatusBadGateway)
	}
}

func (p *forwardProxy) connect(w http.ResponseWriter) {
	server, err := net.Dial("tcp", p.address)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer server.Close()
	w.WriteHeader(http.StatusOK)
	client, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer client.Close()
	go func() {
		_, _ = io.Copy(server, buffered)
		_ = server.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(client, server)
}

// asked says what the proxy was asked for.
func (p *forwardProxy) asked() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Compact(slices.Sorted(slices.Values(p.seen)))
}

// TestProxy reads repositories under names that only a proxy knows.
func TestProxy(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "proxy")
	logs := s.collectLogs()
	repo, commit := s.newRepository("fn", true, map[string]string{"handler.js": handler("by a proxy")})
	ca := newAuthority(s.g)
	const password, token = "proxy-canary-31d8c7", "token-canary-6be220"
	git := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, given, _ := r.BasicAuth(); user != "robot" || given != token {
			refuse(w)
			return
		}
		s.gitServer().ServeHTTP(w, r)
	})
	p := &forwardProxy{
		user: "through", password: password,
		plain: "plain.e2e.test", git: git,
		tunnel: "tunnel.e2e.test:443", address: s.serve(git, ca.server("tunnel.e2e.test")),
	}
	address := s.serve(p, nil)
	s.secret("git", map[string]string{"username": "robot", "password": token, "ca.crt": ca.pem, "proxy": "http://through:wrong@" + address})
	names := []string{"plain", "tunnel"}
	for name, url := range map[string]string{"plain": "http://plain.e2e.test", "tunnel": "https://tunnel.e2e.test"} {
		s.apply(newFunction(name, fromGit(url+repo.path, "/"), withAuth("git"), withInterval(time.Hour)))
	}
	s.eventually(func(g Gomega) {
		for _, name := range names {
			message := condition(s.function(name), functionv1.ConfigurationReady)
			g.Expect(message).To(HavePrefix("False SourceUpdateFailed: "))
			g.Expect(strings.ToLower(message)).To(ContainSubstring("proxy"))
		}
	}, "the proxy does not take the password")
	s.g.Expect(p.asked()).To(BeEmpty())

	s.secret("git", map[string]string{"username": "robot", "password": token, "ca.crt": ca.pem, "proxy": "http://through:" + password + "@" + address})
	for _, name := range names {
		s.ready(name, commit)
		s.answers(name, "by a proxy")
	}
	s.g.Expect(p.asked()).To(ContainElements("GET plain.e2e.test", "POST plain.e2e.test", "CONNECT tunnel.e2e.test:443"))
	s.hides(map[string]string{"the proxy's password": password, "the token": token}, logs)
}
