package registry

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
)

// single is a keychain with the credential of one host.
type single struct {
	host   string
	config authn.AuthConfig
}

// Credential is a keychain with the credential of one host, and none for any other.
func Credential(host, username, password string) authn.Keychain {
	return single{host, authn.AuthConfig{Username: username, Password: password}}
}

// Resolve returns the credential for its host, and none for any other.
func (s single) Resolve(resource authn.Resource) (authn.Authenticator, error) {
	if resource.RegistryStr() == s.host && s.config.Username != "" {
		return authn.FromConfig(s.config), nil
	}
	return authn.Anonymous, nil
}

// DockerConfig reads the credentials of a Docker config.json. Keys are hosts or
// the beginnings of repositories, with or without scheme; the longest that fits
// wins. Helpers are not run. Errors never show what was read.
func DockerConfig(text []byte) (authn.Keychain, error) {
	var file struct {
		Auths map[string]struct {
			Auth          string `json:"auth"`
			Username      string `json:"username"`
			Password      string `json:"password"`
			IdentityToken string `json:"identitytoken"`
			RegistryToken string `json:"registrytoken"`
		} `json:"auths"`
	}
	if json.Unmarshal(text, &file) != nil {
		return nil, errors.New("read Docker config: it is no JSON of that shape")
	}
	keys := keychain{}
	for key, entry := range file.Auths {
		config := authn.AuthConfig{Username: entry.Username, Password: entry.Password, IdentityToken: entry.IdentityToken, RegistryToken: entry.RegistryToken}
		if entry.Auth != "" && config.Username == "" {
			pair, err := base64.StdEncoding.DecodeString(entry.Auth)
			username, password, found := strings.Cut(strings.TrimRight(string(pair), "\x00\n"), ":")
			if err != nil || !found {
				return nil, fmt.Errorf("read Docker config: auth of %s is not base64 of user:password", host(key))
			}
			config.Username, config.Password = username, password
		}
		keys[host(key)] = config
	}
	return keys, nil
}

// keychain maps hosts, or hosts and the beginning of a repository, to credentials.
type keychain map[string]authn.AuthConfig

// host is a key without what does not tell registries apart.
func host(key string) string {
	if _, rest, found := strings.Cut(key, "://"); found {
		key = rest
	}
	key = strings.TrimSuffix(key, "/")
	return strings.TrimSuffix(strings.TrimSuffix(key, "/v1"), "/v2")
}

// Resolve returns the credential of the longest key that fits, or none.
func (k keychain) Resolve(resource authn.Resource) (authn.Authenticator, error) {
	for key := resource.String(); ; {
		if config, found := k[key]; found {
			return authn.FromConfig(config), nil
		}
		cut := strings.LastIndex(key, "/")
		if cut < 0 {
			return authn.Anonymous, nil
		}
		key = key[:cut]
	}
}
