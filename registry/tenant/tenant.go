// Package tenant says who may do what in the internal registry.
//
// In goes one key of the installation; out come a credential for each
// namespace, derived and never stored, and the check of a credential that a
// client brings. It is arithmetic: it never reads a file, a Secret or a
// registry, and never issues tokens, see registry/gateway.
package tenant

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Access is what a credential is for. It stands in the user name.
type Access string

const (
	// Pull reads the images of one namespace: kubelet and the first stage of a build have it.
	Pull Access = "pull"
	// Push reads and writes the images of one namespace: the last stage of a build has it.
	Push Access = "push"
	// Manage reads, lists and deletes in the whole registry. Only the system namespace has it, for the manager.
	Manage Access = "manage"
)

// ErrBadCredential means that the user name or the password is not one that the key gives.
var ErrBadCredential = errors.New("user name or password refused")

// Credential is a user name and its password.
type Credential struct{ Username, Password string }

// Grant is what a verified credential stands for. Policy says what it allows.
type Grant struct {
	Namespace string
	Access    Access
}

// keySize is the size of a Key in bytes.
const keySize = 32

// Key is the only secret of the internal registry. Who has it can derive every
// credential. It prints as a word, so that no log can hold it.
type Key [keySize]byte

// NewKey makes a random key.
func NewKey() Key {
	var k Key
	rand.Read(k[:]) // never fails, see crypto/rand
	return k
}

// ParseKey reads what Encode wrote; white space around it is ignored.
func ParseKey(text []byte) (Key, error) {
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(raw) != keySize {
		return Key{}, fmt.Errorf("read registry key: want the base64 of %d bytes", keySize)
	}
	return Key(raw), nil
}

// Encode is the key as text, as its Secret holds it.
func (k Key) Encode() []byte { return []byte(base64.StdEncoding.EncodeToString(k[:])) }

// String hides the key.
func (k Key) String() string { return "registry key" }

// GoString hides the key.
func (k Key) GoString() string { return k.String() }

// Derive makes 32 secret bytes that serve one purpose and tell nothing about
// the key or those of other purposes.
func (k Key) Derive(purpose string) []byte {
	mac := hmac.New(sha256.New, k[:])
	mac.Write([]byte("gitfn registry " + purpose))
	return mac.Sum(nil)
}

// Credential is the credential of a namespace. The same key, namespace and
// access give the same credential for ever. No namespace has a dot in its name,
// so that no two user names are equal.
func (k Key) Credential(namespace string, access Access) Credential {
	username := namespace + "." + string(access)
	return Credential{username, base64.RawURLEncoding.EncodeToString(k.Derive("credential|" + username))}
}

// namespaceName is the DNS-1123 label that every namespace is named by.
var namespaceName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// Verify tells what a credential stands for. The error is ErrBadCredential,
// and takes as long whichever part was wrong.
func (k Key) Verify(username, password string) (Grant, error) {
	namespace, word, _ := strings.Cut(username, ".")
	access := Access(word)
	want := k.Credential(namespace, access)
	genuine := hmac.Equal([]byte(want.Password), []byte(password))
	known := access == Pull || access == Push || access == Manage
	if !genuine || !known || !namespaceName.MatchString(namespace) {
		return Grant{}, ErrBadCredential
	}
	return Grant{Namespace: namespace, Access: access}, nil
}

// DockerConfig writes the credentials of registry hosts ("host:port") as the
// content of a Secret's .dockerconfigjson. Equal entries give equal bytes.
func DockerConfig(entries map[string]Credential) []byte {
	type entry struct {
		Username string `json:"username"`
		Password string `json:"password"`
		Auth     string `json:"auth"`
	}
	auths := make(map[string]entry, len(entries))
	for host, c := range entries {
		auth := base64.StdEncoding.EncodeToString([]byte(c.Username + ":" + c.Password))
		auths[host] = entry{c.Username, c.Password, auth}
	}
	text, _ := json.Marshal(map[string]any{"auths": auths}) // maps of strings: cannot fail
	return text
}
