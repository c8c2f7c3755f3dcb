package gitsource

import (
	"bytes"
	"crypto"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp/armor"
	pgperrors "github.com/ProtonMail/go-crypto/openpgp/errors"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	openpgp "github.com/ProtonMail/go-crypto/openpgp/v2"
)

// openpgpKey is a trusted OpenPGP key with its subkeys. It is not safe for concurrent use.
type openpgpKey struct{ *openpgp.Entity }

// openpgpConfig refuses what is weak: the defaults of the library, and every RSA key below 2048 bits.
var openpgpConfig = &packet.Config{}

// readOpenPGP reads one armored block of public keys.
func readOpenPGP(block string) (keys []openpgpKey, err error) {
	defer func() {
		if p := recover(); p != nil {
			keys, err = nil, errors.New("it is no OpenPGP public key")
		}
	}()
	if !strings.HasPrefix(block, "-----BEGIN PGP PUBLIC KEY BLOCK-----") {
		return nil, errors.New("it is no OpenPGP public key block; never put a private key among the trusted keys")
	}
	entities, err := openpgp.ReadArmoredKeyRing(strings.NewReader(block))
	if err != nil || len(entities) == 0 {
		return nil, errors.New("it is no OpenPGP public key that can be read")
	}
	for _, entity := range entities {
		if entity.PrivateKey != nil {
			return nil, errors.New("it holds a private key, and only public keys belong among the trusted keys")
		}
		keys = append(keys, openpgpKey{entity})
	}
	return keys, nil
}

// checkOpenPGP finds the key of an OpenPGP signature, and until when the signature counts, if it has an end.
func (t *trust) checkOpenPGP(s signed, now time.Time) (signer string, until time.Time, err error) {
	defer func() {
		if p := recover(); p != nil {
			signer, err = "", errorf(ErrUnverified, "verify %s: its OpenPGP signature cannot be read", s.what)
		}
	}()
	signature, err := readOpenPGPSignature(s.signature)
	if err != nil {
		return "", until, errorf(ErrUnverified, "verify %s: its OpenPGP signature cannot be read: %s", s.what, oneLine(err.Error(), 100))
	}
	id := issuer(signature)
	refuse := func(format string, args ...any) error {
		return errorf(ErrUnverified, "verify %s: "+format, append([]any{s.what}, args...)...)
	}
	if !strongHash[signature.Hash] {
		return "", until, refuse("its signature by OpenPGP key %s is made with %s, which is not believed", id, signature.Hash)
	}
	for _, notation := range signature.Notations {
		if notation.IsCritical {
			return "", until, refuse("its signature by OpenPGP key %s says something critical that is not understood", id)
		}
	}
	if life := signature.SigLifetimeSecs; life != nil && *life > 0 {
		until = signature.CreationTime.Add(time.Duration(*life) * time.Second)
		if !now.Before(until) {
			return "", until, refuse("its signature by OpenPGP key %s has expired on %s", id, until.UTC().Format(time.DateOnly))
		}
	}
	reason := refuse("it is signed by OpenPGP key %s, which is not among the trusted keys", id)
	for _, key := range t.openpgp {
		switch signer, err := key.check(signature, s.payload); {
		case err == nil:
			return signer, until, nil
		case !errors.Is(err, pgperrors.ErrUnknownIssuer):
			reason = refuse("it is signed by OpenPGP key %s: %v", id, err)
		}
	}
	return "", until, reason
}

// strongHash is the hashes that a signature may be made with.
var strongHash = map[crypto.Hash]bool{
	crypto.SHA224: true, crypto.SHA256: true, crypto.SHA384: true, crypto.SHA512: true, crypto.SHA3_256: true, crypto.SHA3_512: true,
}

// readOpenPGPSignature reads an armored block with exactly one signature of bytes.
func readOpenPGPSignature(text []byte) (*packet.Signature, error) {
	if !oneBlock(text, openpgp.SignatureType) {
		return nil, errors.New("it is not one block")
	}
	block, err := armor.Decode(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	packets := packet.NewReader(io.LimitReader(block.Body, signedMost))
	first, err := packets.Next()
	if err != nil {
		return nil, err
	}
	signature, ok := first.(*packet.Signature)
	switch _, err := packets.Next(); {
	case !ok || signature.IssuerKeyId == nil:
		return nil, errors.New("it names no key")
	case err == nil:
		return nil, errors.New("there is more than one")
	case !errors.Is(err, io.EOF):
		return nil, err
	case signature.SigType != packet.SigTypeBinary:
		return nil, errors.New("it is not one of exact bytes")
	}
	return signature, nil
}

// issuer is the id of the key that made a signature, as it says itself.
func issuer(signature *packet.Signature) string {
	return fmt.Sprintf("%016X", *signature.IssuerKeyId)
}

// check tells whether a signature is of this key, or why not. It is ErrUnknownIssuer of go-crypto when another key made it.
//
// The key must have been good when the signature was made. GnuPG replaces what a key says about itself when its owner
// changes the day on which it ends; then it must have been good when that was said.
func (k openpgpKey) check(signature *packet.Signature, payload []byte) (signer string, err error) {
	id := *signature.IssuerKeyId
	if !k.has(id) {
		return "", pgperrors.ErrUnknownIssuer
	}
	made := signature.CreationTime
	key, ok := k.SigningKeyById(made, id, openpgpConfig)
	if renewed := k.renewed(id); !ok && renewed.After(made) {
		key, ok = k.SigningKeyById(renewed, id, openpgpConfig)
		made = renewed
	}
	if !ok {
		return "", k.why(made, id)
	}
	if signature.CreationTime.Before(key.PublicKey.CreationTime) {
		return "", errors.New("the signature is older than the key")
	}
	hash, err := signature.PrepareVerify()
	if err != nil {
		return "", errors.New("the signature cannot be read")
	}
	_, _ = hash.Write(payload) // a hash does not fail
	if key.PublicKey.VerifySignature(hash, signature) != nil {
		return "", errors.New("the signature does not fit the content, or only claims to be by this key")
	}
	return k.signer(made, id), nil
}

// has tells whether the key or one of its subkeys has an id.
func (k openpgpKey) has(id uint64) bool {
	if k.PrimaryKey.KeyId == id {
		return true
	}
	for _, subkey := range k.Subkeys {
		if subkey.PublicKey.KeyId == id {
			return true
		}
	}
	return false
}

// renewed is the first time at which all that makes a key good had been said, as far as it is still there.
func (k openpgpKey) renewed(id uint64) (at time.Time) {
	oldest := func(signatures []*packet.VerifiableSignature) (first time.Time) {
		for _, s := range signatures {
			if first.IsZero() || s.Packet.CreationTime.Before(first) {
				first = s.Packet.CreationTime
			}
		}
		return first
	}
	for _, identity := range k.Identities {
		if said := oldest(identity.SelfCertifications); !said.IsZero() && (at.IsZero() || said.Before(at)) {
			at = said
		}
	}
	if said := oldest(k.DirectSignatures); k.PrimaryKey.Version == 6 && said.After(at) {
		at = said
	}
	for _, subkey := range k.Subkeys {
		if said := oldest(subkey.Bindings); subkey.PublicKey.KeyId == id && said.After(at) {
			at = said
		}
	}
	return at
}

// why says why a key was not good.
func (k openpgpKey) why(at time.Time, id uint64) error {
	_, err := k.VerifyPrimaryKey(at, openpgpConfig)
	for _, subkey := range k.Subkeys {
		if err == nil && subkey.PublicKey.KeyId == id {
			_, err = subkey.Verify(at, openpgpConfig)
		}
	}
	switch {
	case errors.Is(err, pgperrors.ErrKeyRevoked):
		return errors.New("the key is revoked")
	case errors.Is(err, pgperrors.ErrKeyExpired):
		return fmt.Errorf("the key had expired on %s, when it signed", at.UTC().Format(time.DateOnly))
	}
	return errors.New("the key is too weak, or not made for signing")
}

// signer names the key, and whose it claims to be.
func (k openpgpKey) signer(at time.Time, id uint64) string {
	var raw [8]byte
	binary.BigEndian.PutUint64(raw[:], id)
	name := "OpenPGP " + hexID(raw[:])
	if _, identity := k.PrimaryIdentity(at, openpgpConfig); identity != nil {
		name += " (" + oneLine(identity.Name, 120) + ")"
	}
	return name
}
