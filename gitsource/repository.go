package gitsource

import (
	"fmt"
	"io"
	"log/slog"
)

// Repository is a Git repository as one credential sees it.
type Repository struct {
	// URL is where the repository is, http or https, without user information. See CheckURL.
	URL string
	// Credentials read it. The zero value reads anonymously.
	Credentials Credentials
}

// Credentials is what a server is shown to be allowed to read. The zero value is anonymous.
//
// It never prints: every way in which fmt, encoding/json and log/slog look at a value says only whether
// there is something.
type Credentials struct {
	// Username and Password are sent as basic authentication to the origin of the repository's URL, and
	// nowhere else. A token is the password; the user name that goes with it is the forge's business.
	Username, Password string
	// CABundle holds PEM certificates that are trusted for this repository besides the system's.
	CABundle []byte
}

// anonymous says that there is nothing to authenticate with.
func (c Credentials) anonymous() bool { return c.Username == "" && c.Password == "" }

// String tells whether there are credentials, never which.
func (c Credentials) String() string {
	if c.anonymous() {
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
