package gitsource

import (
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net/url"
	"slices"
	"strings"

	"github.com/gitfn/gitfn/gitsource/dialer"
)

// AuthKind says how the keys of a Secret are read.
type AuthKind string

// The kinds of credentials that a Secret may hold.
const (
	// AuthBasic wants username and password; a token is the password. With a client certificate both may be missing.
	AuthBasic AuthKind = "basic"
	// AuthSSHKey wants a private key under key, or under ssh-privatekey as in Secrets of type
	// kubernetes.io/ssh-auth; password is its passphrase, if it has one.
	AuthSSHKey AuthKind = "key"
	// AuthGitHubApp wants githubAppID, githubAppInstallationID and githubAppPrivateKey, and githubAppBaseURL for
	// GitHub Enterprise Server. The names are those of Flux's Secrets.
	AuthGitHubApp AuthKind = "githubApp"
)

// Keys of a Secret.
const (
	keyUsername   = "username"
	keyPassword   = "password"
	keySSHKey     = "key"
	keySSHAuthKey = "ssh-privatekey"
	keyKnownHosts = "known_hosts"

	keyCABundle          = "ca.crt"
	keyClientCertificate = "tls.crt"
	keyClientKey         = "tls.key"
	keyProxy             = "proxy"
	keyNoProxy           = "noProxy"

	keyAppID           = "githubAppID"
	keyAppInstallation = "githubAppInstallationID"
	keyAppPrivateKey   = "githubAppPrivateKey"
	keyAppBaseURL      = "githubAppBaseURL"
)

// SecretKeys are the keys that ParseCredentials knows; what else a Secret holds does not matter.
func SecretKeys() []string {
	return []string{
		keyUsername, keyPassword, keySSHKey, keySSHAuthKey, keyKnownHosts,
		keyCABundle, keyClientCertificate, keyClientKey, keyProxy, keyNoProxy,
		keyAppID, keyAppInstallation, keyAppPrivateKey, keyAppBaseURL,
	}
}

// ParseCredentials reads credentials of a kind from the keys of a Secret. Besides those of the kind it takes
// known_hosts, ca.crt, a client certificate (tls.crt and tls.key), proxy and noProxy. Line ends behind a value are
// left out: editors and echo put them there.
//
// What is missing, does not fit together or cannot be read matches ErrAuth. The error names the key, never a value.
func ParseCredentials(kind AuthKind, keys map[string][]byte) (Credentials, error) {
	c := Credentials{
		KnownHosts: keys[keyKnownHosts], CABundle: keys[keyCABundle],
		ClientCertificate: keys[keyClientCertificate], ClientKey: keys[keyClientKey],
		Proxy: line(keys[keyProxy]), NoProxy: line(keys[keyNoProxy]),
	}
	if err := c.checkCommon(); err != nil {
		return Credentials{}, err
	}
	var err error
	switch kind {
	case AuthBasic:
		err = c.parseBasic(keys)
	case AuthSSHKey:
		err = c.parseSSHKey(keys)
	case AuthGitHubApp:
		err = c.parseApp(keys)
	default:
		err = errorf(ErrAuth, "read credentials: there is no kind %q", oneLine(string(kind), 20))
	}
	if err != nil {
		return Credentials{}, err
	}
	return c, nil
}

// line is a value without what surrounds it, for what never begins or ends with a space.
func line(value []byte) string { return strings.TrimSpace(string(value)) }

// word is a value without the line end behind it.
func word(value []byte) string { return strings.TrimRight(string(value), "\r\n") }

func noKey(key string) error {
	return errorf(ErrAuth, "read credentials: the Secret has no key %s", key)
}

// checkCommon looks at what does not depend on the kind.
func (c *Credentials) checkCommon() error {
	switch certificate, key := len(c.ClientCertificate) > 0, len(c.ClientKey) > 0; {
	case certificate && !key:
		return errorf(ErrAuth, "read credentials: the Secret has %s, but no key %s", keyClientCertificate, keyClientKey)
	case key && !certificate:
		return errorf(ErrAuth, "read credentials: the Secret has %s, but no key %s", keyClientKey, keyClientCertificate)
	}
	if _, err := c.clientCertificates(); err != nil {
		return err
	}
	if c.NoProxy != "" && c.Proxy == "" {
		return errorf(ErrAuth, "read credentials: the Secret has %s, but no key %s", keyNoProxy, keyProxy)
	}
	_, err := parseProxy(c.Proxy)
	return err
}

func (c *Credentials) parseBasic(keys map[string][]byte) error {
	_, hasUsername := keys[keyUsername]
	_, hasPassword := keys[keyPassword]
	c.Username, c.Password = word(keys[keyUsername]), word(keys[keyPassword])
	switch {
	case !hasUsername && !hasPassword && len(c.ClientCertificate) > 0:
		return nil
	case !hasUsername:
		return noKey(keyUsername)
	case !hasPassword:
		return noKey(keyPassword)
	case c.Username == "" && c.Password == "":
		return errorf(ErrAuth, "read credentials: %s and %s are empty", keyUsername, keyPassword)
	case strings.Contains(c.Username, ":"):
		return errorf(ErrAuth, "read credentials: %s has a colon in it, which basic authentication cannot send", keyUsername)
	}
	return nil
}

func (c *Credentials) parseSSHKey(keys map[string][]byte) error {
	key, other := keys[keySSHKey], keys[keySSHAuthKey]
	switch {
	case len(key) > 0 && len(other) > 0 && !slices.Equal(key, other):
		return errorf(ErrAuth, "read credentials: the Secret has %s and %s, and they differ", keySSHKey, keySSHAuthKey)
	case len(key) > 0:
		c.SSHKey = key
	case len(other) > 0:
		c.SSHKey = other
	default:
		return errorf(ErrAuth, "read credentials: the Secret has no key %s, and no %s either", keySSHKey, keySSHAuthKey)
	}
	c.SSHPassphrase = word(keys[keyPassword])
	return nil
}

func (c *Credentials) parseApp(keys map[string][]byte) error {
	app := &GitHubApp{
		ID: line(keys[keyAppID]), Installation: line(keys[keyAppInstallation]),
		PrivateKey: keys[keyAppPrivateKey], BaseURL: line(keys[keyAppBaseURL]),
	}
	for _, key := range []string{keyAppID, keyAppInstallation, keyAppPrivateKey} {
		if line(keys[key]) == "" {
			return noKey(key)
		}
	}
	if _, err := app.installation(); err != nil {
		return err
	}
	if _, err := app.key(); err != nil {
		return err
	}
	if _, err := app.base(); err != nil {
		return err
	}
	c.GitHubApp = app
	return nil
}

// clientCertificates is what a server is shown that asks for a certificate.
func (c Credentials) clientCertificates() ([]tls.Certificate, error) {
	if len(c.ClientCertificate) == 0 {
		return nil, nil
	}
	certificate, err := tls.X509KeyPair(c.ClientCertificate, c.ClientKey)
	if err != nil {
		return nil, errorf(ErrAuth, "read credentials: %s and %s are no certificate and its key, both PEM", keyClientCertificate, keyClientKey)
	}
	return []tls.Certificate{certificate}, nil
}

// parseProxy reads the URL of a proxy; "" is none.
func parseProxy(raw string) (*url.URL, error) {
	if raw == "" {
		return nil, nil
	}
	u, err := dialer.ParseProxy(raw)
	if err != nil {
		return nil, errorf(ErrAuth, "read credentials: %s cannot be used: %v", keyProxy, err)
	}
	return u, nil
}

// installation is the number of the installation, which becomes a part of a path.
func (a *GitHubApp) installation() (string, error) {
	if a.Installation == "" || strings.Trim(a.Installation, "0123456789") != "" {
		return "", errorf(ErrAuth, "read credentials: %s is no number", keyAppInstallation)
	}
	return a.Installation, nil
}

// key is the App's private key.
func (a *GitHubApp) key() (*rsa.PrivateKey, error) {
	refused := errorf(ErrAuth, "read credentials: %s is no RSA private key in PEM form", keyAppPrivateKey)
	block, _ := pem.Decode(a.PrivateKey)
	if block == nil {
		return nil, refused
	}
	if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if rsaKey, ok := key.(*rsa.PrivateKey); ok && err == nil {
		return rsaKey, nil
	}
	return nil, refused
}

// publicAPI is the API of github.com.
const publicAPI = "https://api.github.com"

// base is the URL of the API, without a slash behind.
func (a *GitHubApp) base() (*url.URL, error) {
	raw := a.BaseURL
	if raw == "" {
		raw = publicAPI
	}
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errorf(ErrAuth, "read credentials: %s is no http or https URL, such as https://ghe.example/api/v3", keyAppBaseURL)
	}
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), ""
	return u, nil
}
