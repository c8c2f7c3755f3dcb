package executor

import (
	"github.com/google/go-containerregistry/pkg/authn"
)

// keysOf has the credential that stores want.
type keysOf string

// Resolve returns it for its host.
func (k keysOf) Resolve(resource authn.Resource) (authn.Authenticator, error) {
	if resource.RegistryStr() != string(k) {
		return authn.Anonymous, nil
	}
	return &authn.Basic{Username: username, Password: password}, nil
}
