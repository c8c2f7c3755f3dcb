package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"

	. "github.com/onsi/gomega"
)

// authority signs certificates of one test.
type authority struct {
	g    *WithT
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	// pem is its certificate, as a Secret holds it.
	pem string
}

func newAuthority(g *WithT) *authority {
	a := &authority{g: g}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "authority of a test"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign,
	}
	a.key, a.cert, a.pem, _ = a.sign(template)
	return a
}

// sign makes a key, and a certificate of it; the authority's own for the first.
func (a *authority) sign(template *x509.Certificate) (key *ecdsa.PrivateKey, cert *x509.Certificate, certPEM, keyPEM string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	a.g.Expect(err).NotTo(HaveOccurred())
	template.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62))
	a.g.Expect(err).NotTo(HaveOccurred())
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, parentKey := a.cert, a.key
	if parent == nil {
		parent, parentKey = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
	a.g.Expect(err).NotTo(HaveOccurred())
	cert, err = x509.ParseCertificate(der)
	a.g.Expect(err).NotTo(HaveOccurred())
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	a.g.Expect(err).NotTo(HaveOccurred())
	return key, cert, encodePEM("CERTIFICATE", der), encodePEM("PRIVATE KEY", pkcs8)
}

func encodePEM(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// server is what a server on this machine shows; it goes by further names too.
func (a *authority) server(names ...string) *tls.Config {
	_, _, certPEM, keyPEM := a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "server of a test"}, IPAddresses: []net.IP{net.ParseIP(facts.HostIP)}, DNSNames: names,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	pair, err := tls.X509KeyPair([]byte(certPEM), []byte(keyPEM))
	a.g.Expect(err).NotTo(HaveOccurred())
	return &tls.Config{Certificates: []tls.Certificate{pair}}
}

// client is a certificate for a client, and its key.
func (a *authority) client(name string) (certPEM, keyPEM string) {
	_, _, certPEM, keyPEM = a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	return certPEM, keyPEM
}

// pool trusts the authority.
func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// serve starts a server on the address of this machine that Pods reach, and
// returns that address. Without settings for TLS it speaks plain HTTP.
func (s *space) serve(handler http.Handler, settings *tls.Config) string {
	s.t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(facts.HostIP, "0"))
	s.g.Expect(err).NotTo(HaveOccurred())
	address := listener.Addr().String()
	if settings != nil {
		listener = tls.NewListener(listener, settings)
	}
	server := &http.Server{Handler: handler, ErrorLog: log.New(io.Discard, "", 0)}
	go func() { _ = server.Serve(listener) }()
	s.t.Cleanup(func() { _ = server.Close() })
	return address
}

// gitServer hands requests on to the Git server, with the password that it wants.
func (s *space) gitServer() http.Handler {
	s.t.Helper()
	target, err := url.Parse(facts.GitHTTP)
	s.g.Expect(err).NotTo(HaveOccurred())
	return &httputil.ReverseProxy{
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0),
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.SetBasicAuth(facts.GitUser, facts.GitPassword)
		},
	}
}

// refuse answers that credentials are missing or wrong.
func refuse(w http.ResponseWriter) {
	w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
	http.Error(w, "who are you?", http.StatusUnauthorized)
}
