package gitsource_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"reflect"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/gitfn/gitfn/gitsource"
)

// rsaKey is a key for tests; making one takes its time.
var rsaKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

func pemOf(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func appKey() []byte { return pemOf("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(rsaKey())) }

// newCertificate is a certificate that signed itself, and its key, both PEM.
func newCertificate(t testing.TB) (certificate, key []byte) {
	t.Helper()
	g := NewWithT(t)
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	g.Expect(err).NotTo(HaveOccurred())
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	g.Expect(err).NotTo(HaveOccurred())
	privateDER, err := x509.MarshalPKCS8PrivateKey(private)
	g.Expect(err).NotTo(HaveOccurred())
	return pemOf("CERTIFICATE", der), pemOf("PRIVATE KEY", privateDER)
}

func TestParseCredentialsReadsEveryLayout(t *testing.T) {
	t.Parallel()
	certificate, key := newCertificate(t)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(rsaKey())
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	rows := []struct {
		name string
		kind gitsource.AuthKind
		keys map[string]string
		want gitsource.Credentials
	}{
		{name: "username and password", kind: gitsource.AuthBasic,
			keys: map[string]string{"username": "ci", "password": " pa:ss "},
			want: gitsource.Credentials{Username: "ci", Password: " pa:ss "}},
		{name: "what an editor puts behind a value is left out", kind: gitsource.AuthBasic,
			keys: map[string]string{"username": "ci\n", "password": "token\r\n"},
			want: gitsource.Credentials{Username: "ci", Password: "token"}},
		{name: "a token as the user name", kind: gitsource.AuthBasic,
			keys: map[string]string{"username": "token", "password": ""},
			want: gitsource.Credentials{Username: "token"}},
		{name: "with a client certificate nothing else is needed", kind: gitsource.AuthBasic,
			keys: map[string]string{"tls.crt": string(certificate), "tls.key": string(key), "ca.crt": "CA"},
			want: gitsource.Credentials{ClientCertificate: certificate, ClientKey: key, CABundle: []byte("CA")}},
		{name: "a client certificate beside a password", kind: gitsource.AuthBasic,
			keys: map[string]string{"username": "ci", "password": "token", "tls.crt": string(certificate), "tls.key": string(key)},
			want: gitsource.Credentials{Username: "ci", Password: "token", ClientCertificate: certificate, ClientKey: key}},
		{name: "a proxy", kind: gitsource.AuthBasic,
			keys: map[string]string{"username": "ci", "password": "token", "proxy": "http://me:pw@proxy.example:3128\n", "noProxy": ".example,10.0.0.0/8"},
			want: gitsource.Credentials{Username: "ci", Password: "token", Proxy: "http://me:pw@proxy.example:3128", NoProxy: ".example,10.0.0.0/8"}},
		{name: "an SSH key", kind: gitsource.AuthSSHKey,
			keys: map[string]string{"key": "KEY\n", "known_hosts": "HOSTS"},
			want: gitsource.Credentials{SSHKey: []byte("KEY\n"), KnownHosts: []byte("HOSTS")}},
		{name: "an SSH key with a passphrase", kind: gitsource.AuthSSHKey,
			keys: map[string]string{"key": "KEY", "password": "phrase\n"},
			want: gitsource.Credentials{SSHKey: []byte("KEY"), SSHPassphrase: "phrase"}},
		{name: "the key of kubernetes.io/ssh-auth", kind: gitsource.AuthSSHKey,
			keys: map[string]string{"ssh-privatekey": "KEY", "username": "git"},
			want: gitsource.Credentials{SSHKey: []byte("KEY")}},
		{name: "one key under both names", kind: gitsource.AuthSSHKey,
			keys: map[string]string{"ssh-privatekey": "KEY", "key": "KEY"},
			want: gitsource.Credentials{SSHKey: []byte("KEY")}},
		{name: "a GitHub App", kind: gitsource.AuthGitHubApp,
			keys: map[string]string{"githubAppID": "12\n", "githubAppInstallationID": "34\n", "githubAppPrivateKey": string(appKey())},
			want: gitsource.Credentials{GitHubApp: &gitsource.GitHubApp{ID: "12", Installation: "34", PrivateKey: appKey()}}},
		{name: "a GitHub App of an Enterprise Server, by its client ID, with a key of PKCS 8", kind: gitsource.AuthGitHubApp,
			keys: map[string]string{"githubAppID": "Iv1.ab", "githubAppInstallationID": "34", "githubAppPrivateKey": string(pemOf("PRIVATE KEY", pkcs8)), "githubAppBaseURL": "https://ghe.example/api/v3"},
			want: gitsource.Credentials{GitHubApp: &gitsource.GitHubApp{ID: "Iv1.ab", Installation: "34", PrivateKey: pemOf("PRIVATE KEY", pkcs8), BaseURL: "https://ghe.example/api/v3"}}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			got, err := gitsource.ParseCredentials(row.kind, bytesOf(row.keys))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(reflect.DeepEqual(got, row.want)).To(BeTrue()) // what does not print cannot be shown
		})
	}
}

func bytesOf(keys map[string]string) map[string][]byte {
	all := map[string][]byte{}
	for key, value := range keys {
		all[key] = []byte(value)
	}
	return all
}

func TestParseCredentialsNamesTheKeyThatIsWrong(t *testing.T) {
	t.Parallel()
	certificate, key := newCertificate(t)
	_, otherKey := newCertificate(t)
	app := func(change ...string) map[string]string {
		keys := map[string]string{"githubAppID": "12", "githubAppInstallationID": "34", "githubAppPrivateKey": string(appKey())}
		for i := 0; i < len(change); i += 2 {
			keys[change[i]] = change[i+1]
		}
		return keys
	}
	rows := []struct {
		name string
		kind gitsource.AuthKind
		keys map[string]string
		says string
	}{
		{"no username", gitsource.AuthBasic, map[string]string{"password": "canary"}, "the Secret has no key username"},
		{"no password", gitsource.AuthBasic, map[string]string{"username": "canary"}, "the Secret has no key password"},
		{"nothing at all", gitsource.AuthBasic, nil, "the Secret has no key username"},
		{"username and password are empty", gitsource.AuthBasic, map[string]string{"username": "", "password": "\n"}, "username and password are empty"},
		{"a colon in the user name", gitsource.AuthBasic, map[string]string{"username": "canary:x", "password": "canary"}, "username has a colon"},
		{"a certificate without its key", gitsource.AuthBasic, map[string]string{"tls.crt": string(certificate)}, "has tls.crt, but no key tls.key"},
		{"a key without its certificate", gitsource.AuthBasic, map[string]string{"tls.key": string(key)}, "has tls.key, but no key tls.crt"},
		{"a certificate with another key", gitsource.AuthBasic, map[string]string{"tls.crt": string(certificate), "tls.key": string(otherKey)}, "tls.crt and tls.key are no certificate and its key"},
		{"a certificate that is none", gitsource.AuthBasic, map[string]string{"tls.crt": "canary", "tls.key": "canary"}, "tls.crt and tls.key are no certificate and its key"},
		{"no SSH key", gitsource.AuthSSHKey, map[string]string{"password": "canary"}, "no key key, and no ssh-privatekey either"},
		{"two SSH keys", gitsource.AuthSSHKey, map[string]string{"key": "canary", "ssh-privatekey": "canary2"}, "has key and ssh-privatekey, and they differ"},
		{"no App ID", gitsource.AuthGitHubApp, app("githubAppID", ""), "the Secret has no key githubAppID"},
		{"no installation", gitsource.AuthGitHubApp, app("githubAppInstallationID", " "), "the Secret has no key githubAppInstallationID"},
		{"an installation that is no number", gitsource.AuthGitHubApp, app("githubAppInstallationID", "1/canary"), "githubAppInstallationID is no number"},
		{"no key of the App", gitsource.AuthGitHubApp, app("githubAppPrivateKey", ""), "the Secret has no key githubAppPrivateKey"},
		{"a key of the App that is none", gitsource.AuthGitHubApp, app("githubAppPrivateKey", "canary"), "githubAppPrivateKey is no RSA private key"},
		{"a key of the App of another kind", gitsource.AuthGitHubApp, app("githubAppPrivateKey", string(key)), "githubAppPrivateKey is no RSA private key"},
		{"an API that is no URL", gitsource.AuthGitHubApp, app("githubAppBaseURL", "canary"), "githubAppBaseURL is no http or https URL"},
		{"an API with user information", gitsource.AuthGitHubApp, app("githubAppBaseURL", "https://canary@ghe.example"), "githubAppBaseURL is no http or https URL"},
		{"a proxy without a scheme", gitsource.AuthBasic, map[string]string{"username": "u", "password": "p", "proxy": "canary:3128"}, "proxy cannot be used: it is no http or https URL"},
		{"a proxy of another kind", gitsource.AuthBasic, map[string]string{"username": "u", "password": "p", "proxy": "socks5://canary:3128"}, "proxy cannot be used: it is no http or https URL"},
		{"a proxy that does not parse", gitsource.AuthBasic, map[string]string{"username": "u", "password": "p", "proxy": "http://u:canary@h:x/"}, "proxy cannot be used: it is no http or https URL"},
		{"noProxy without a proxy", gitsource.AuthBasic, map[string]string{"username": "u", "password": "p", "noProxy": "canary"}, "has noProxy, but no key proxy"},
		{"an unknown kind", "magic", map[string]string{"username": "u", "password": "p"}, `there is no kind "magic"`},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			got, err := gitsource.ParseCredentials(row.kind, bytesOf(row.keys))
			g.Expect(err).To(MatchError(gitsource.ErrAuth))
			g.Expect(err).To(MatchError(ContainSubstring(row.says)))
			g.Expect(err.Error()).NotTo(Or(ContainSubstring("canary"), ContainSubstring("\n"), ContainSubstring("PRIVATE")))
			g.Expect(got.String()).To(Equal("anonymous"), "half a credential is none")
		})
	}
}

func TestSecretKeysAreAllThatAreRead(t *testing.T) {
	t.Parallel()
	NewWithT(t).Expect(gitsource.SecretKeys()).To(ConsistOf(
		"username", "password", "key", "ssh-privatekey", "known_hosts", "ca.crt", "tls.crt", "tls.key", "proxy", "noProxy",
		"githubAppID", "githubAppInstallationID", "githubAppPrivateKey", "githubAppBaseURL"))
}
