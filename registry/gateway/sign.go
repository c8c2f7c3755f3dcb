package gateway

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"time"

	"github.com/gitfn/gitfn/registry/tenant"
)

// tokenLife is how long a token is believed. The registry adds a minute for
// clocks that differ.
const tokenLife = 5 * time.Minute

// signer makes JSON Web Tokens. Its key comes from the installation's, so that
// no file holds it and a restart spoils no token.
type signer struct {
	key ed25519.PrivateKey
	id  string
}

func newSigner(k tenant.Key) signer {
	key := ed25519.NewKeyFromSeed(k.Derive("token signing"))
	sum := sha256.Sum256(public(key))
	return signer{key: key, id: base64.RawURLEncoding.EncodeToString(sum[:])}
}

func public(key ed25519.PrivateKey) ed25519.PublicKey { return key.Public().(ed25519.PublicKey) }

// JWKS is the public key set that the registry must be given to believe the
// tokens of a gateway with this key.
func JWKS(k tenant.Key) []byte {
	s := newSigner(k)
	return encode(map[string]any{"keys": []map[string]string{{
		"kty": "OKP", "crv": "Ed25519", "use": "sig", "alg": "EdDSA", "kid": s.id,
		"x": base64.RawURLEncoding.EncodeToString(public(s.key)),
	}}})
}

// claims are those of distribution's token specification.
type claims struct {
	Issuer    string  `json:"iss"`
	Subject   string  `json:"sub"`
	Audience  string  `json:"aud"`
	Expires   int64   `json:"exp"`
	NotBefore int64   `json:"nbf"`
	IssuedAt  int64   `json:"iat"`
	ID        string  `json:"jti"`
	Access    []scope `json:"access"`
}

func (s signer) token(subject string, access []scope, now time.Time) string {
	header := map[string]string{"alg": "EdDSA", "typ": "JWT", "kid": s.id}
	body := claims{
		Issuer: Issuer, Subject: subject, Audience: Service,
		Expires: now.Add(tokenLife).Unix(), NotBefore: now.Unix(), IssuedAt: now.Unix(),
		ID: rand.Text(), Access: access,
	}
	signed := base64.RawURLEncoding.EncodeToString(encode(header)) + "." + base64.RawURLEncoding.EncodeToString(encode(body))
	return signed + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(s.key, []byte(signed)))
}

func encode(plain any) []byte {
	text, _ := json.Marshal(plain) // strings and numbers: cannot fail
	return text
}
