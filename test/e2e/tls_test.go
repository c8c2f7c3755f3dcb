package e2e

import (
	"crypto/tls"
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
)

// TestHTTPS reads a repository from a server with a certificate of a private
// authority: with a token, and with a client certificate.
func TestHTTPS(t *testing.T) {
	t.Parallel()
	const token = "token-canary-90aa31e7"
	s := newSpace(t, "https")
	logs := s.collectLogs()
	repo, commit := s.newRepository("fn", true, map[string]string{"handler.js": handler("over https")})
	ca, stranger := newAuthority(s.g), newAuthority(s.g)
	git, settings := s.gitServer(), ca.server()
	settings.ClientAuth, settings.ClientCAs = tls.VerifyClientCertIfGiven, ca.pool()
	url := "https://" + s.serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		byToken := user == "robot" && password == token
		byCertificate := len(r.TLS.VerifiedChains) > 0 && r.TLS.PeerCertificates[0].Subject.CommonName == "robot"
		if !byToken && !byCertificate {
			refuse(w)
			return
		}
		git.ServeHTTP(w, r)
	}), settings) + repo.path

	cert, key := ca.client("robot")
	otherCert, otherKey := ca.client("somebody")
	s.secret("token", map[string]string{"username": "robot", "password": token})
	s.secret("certificate", map[string]string{"tls.crt": otherCert, "tls.key": otherKey, "ca.crt": ca.pem})
	for _, name := range []string{"token", "certificate"} {
		s.apply(newFunction(name, fromGit(url, "/"), withAuth(name), withInterval(time.Hour)))
	}
	s.eventually(func(g Gomega) {
		g.Expect(condition(s.function("token"), functionv1.ConfigurationReady)).To(And(HavePrefix("False SourceUpdateFailed: "), ContainSubstring("certificate")))
		g.Expect(condition(s.function("certificate"), functionv1.ConfigurationReady)).To(And(HavePrefix("False SourceUpdateFailed: GitAuth: "), ContainSubstring("Secret certificate")))
	}, "an authority that is not trusted, a certificate that is not let in")
	s.secret("token", map[string]string{"username": "robot", "password": token, "ca.crt": stranger.pem})
	s.g.Expect(s.jobsSeen("token") + s.jobsSeen("certificate")).To(BeZero())

	s.secret("token", map[string]string{"username": "robot", "password": token, "ca.crt": ca.pem})
	s.secret("certificate", map[string]string{"tls.crt": cert, "tls.key": key, "ca.crt": ca.pem})
	for _, name := range []string{"token", "certificate"} {
		s.ready(name, commit)
		s.answers(name, "over https")
	}
	s.hides(map[string]string{
		"the token": token, "the key of the certificate": key, "the key of the other certificate": otherKey,
	}, logs)
}
