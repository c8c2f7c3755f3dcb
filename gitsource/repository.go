package gitsource

import (
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"net/url"
)

// Repository is a Git repository as one credential sees it.
type Repository struct {
	// URL is where the repository is, by https, http, ssh (also as user@host:path) or git. See CheckURL.
	URL string
	// Credentials read it. The zero value reads anonymously.
	Credentials Credentials
}

// Credentials is what a server is shown to be allowed to read. The zero value is anonymous.
//
// It never prints: every way in which fmt, encoding/json and log/slog look at a value says only whether
// there is something. The one exception is fmt's verb p, which asks no value.
type Credentials struct {
	// Username and Password are sent as basic authentication to the origin of the repository's URL, and
	// nowhere else. A token is the password; the user name that goes with it is the forge's business.
	Username, Password string
	// ClientCertificate and ClientKey, both PEM, are shown to an https server that asks for a certificate.
	ClientCertificate, ClientKey []byte
	// SSHKey is a private key in PEM or OpenSSH form (ed25519, ECDSA, or RSA of 2048 bits or more), and
	// SSHPassphrase what it is encrypted with, if it is. It is shown to the server of an ssh URL only.
	SSHKey        []byte
	SSHPassphrase string
	// KnownHosts is a known_hosts file as of sshd(8) with the keys of SSH servers. What it says of a host
	// counts before the keys that are built in. A server that neither knows is ErrHostKey.
	KnownHosts []byte
	// GitHubApp makes tokens that are shown instead of Username and Password.
	GitHubApp *GitHubApp
	// Proxy is the http or https URL of a proxy that connections to the repository go through, which may hold
	// a user and a password. NoProxy lists the hosts that are reached without it, as in the environment
	// variable NO_PROXY.
	Proxy, NoProxy string
	// CABundle holds PEM certificates that are trusted for this repository besides the system's.
	CABundle []byte
}

// GitHubApp is an installation of a GitHub App.
type GitHubApp struct {
	// ID is the App's ID or client ID, and Installation the number of its installation.
	ID, Installation string
	// PrivateKey is the App's RSA key in PEM form.
	PrivateKey []byte
	// BaseURL is where the API is, for GitHub Enterprise Server, such as https://ghe.example/api/v3. Empty
	// means https://api.github.com.
	BaseURL string
}

// anonymous says that there is nothing to authenticate with.
func (c Credentials) anonymous() bool {
	return c.Username == "" && c.Password == "" && len(c.ClientCertificate) == 0 && len(c.SSHKey) == 0 && c.GitHubApp == nil
}

// String tells whether there are credentials, never which.
func (c Credentials) String() string {
	if c.anonymous() && c.Proxy == "" {
		return "anonymous"
	}
	return "redacted"
}

// GoString is String, for %#v.
func (c Credentials) GoString() string { return c.String() }

// Format is String, whatever the verb.
func (c Credentials) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, c.String()) }

// MarshalJSON is String as a JSON string.
func (c Credentials) MarshalJSON() ([]byte, error) { return []byte(`"` + c.String() + `"`), nil }

// MarshalText is String, for YAML and the like.
func (c Credentials) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// LogValue is String, for log/slog.
func (c Credentials) LogValue() slog.Value { return slog.StringValue(c.String()) }

// parts is every field, for a key under which something of the credentials is kept.
func (c Credentials) parts() []string {
	app := c.GitHubApp
	if app == nil {
		app = &GitHubApp{}
	}
	return []string{
		c.Username, c.Password, string(c.ClientCertificate), string(c.ClientKey),
		string(c.SSHKey), c.SSHPassphrase, string(c.KnownHosts),
		app.ID, app.Installation, string(app.PrivateKey), app.BaseURL,
		c.Proxy, c.NoProxy, string(c.CABundle),
	}
}

// secrets are what a server or a proxy is shown, in every form in which it may come back.
func (c Credentials) secrets() []string {
	var secrets []string
	add := func(username, password string) {
		secret := password
		if password == "" && username != appUsername {
			secret = username // a token may stand in its place
		}
		if secret != "" {
			secrets = append(secrets, base64.StdEncoding.EncodeToString([]byte(username+":"+password)), secret, url.QueryEscape(secret), url.PathEscape(secret))
		}
	}
	add(c.Username, c.Password)
	if proxy, err := url.Parse(c.Proxy); err == nil && proxy.User != nil {
		password, _ := proxy.User.Password()
		add(proxy.User.Username(), password)
		secrets = append(secrets, proxy.User.String())
	}
	return secrets
}

// String never tells anything.
func (a GitHubApp) String() string { return "redacted" }

// GoString is String, for %#v.
func (a GitHubApp) GoString() string { return a.String() }

// Format is String, whatever the verb.
func (a GitHubApp) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, a.String()) }

// MarshalJSON is String as a JSON string.
func (a GitHubApp) MarshalJSON() ([]byte, error) { return []byte(`"` + a.String() + `"`), nil }

// MarshalText is String, for YAML and the like.
func (a GitHubApp) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// LogValue is String, for log/slog.
func (a GitHubApp) LogValue() slog.Value { return slog.StringValue(a.String()) }
