package gitsource

import (
	"bytes"
	"crypto/rsa"
	"encoding/base64"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"
)

// sshNamespace is what git signs in, so that nobody can show a signature of something else.
const sshNamespace = "git"

// sshKey is a trusted SSH key.
type sshKey struct {
	ssh.PublicKey
	name          string    // whose it is, as the line says
	after, before time.Time // when it counts; zero is always
}

// checkSSH finds the key of an SSH signature.
func (t *trust) checkSSH(s signed) (string, error) {
	refuse := func(format string, args ...any) error {
		return errorf(ErrUnverified, "verify %s: "+format, append([]any{s.what}, args...)...)
	}
	signature, err := readSSHSignature(s.signature)
	if err != nil {
		return "", refuse("its SSH signature cannot be read: %s", oneLine(err.Error(), 100))
	}
	print := ssh.FingerprintSHA256(signature.PublicKey)
	switch _, certificate := signature.PublicKey.(*ssh.Certificate); {
	case certificate:
		return "", refuse("it is signed with an SSH certificate, which is not supported; trust and use the key itself")
	case signature.Namespace != sshNamespace:
		return "", refuse("its signature by SSH key %s was made in the namespace %q, not in %q", print, oneLine(signature.Namespace, 40), sshNamespace)
	}
	reason := refuse("it is signed by SSH key %s, which is not among the trusted keys", print)
	for _, key := range t.ssh {
		if !bytes.Equal(key.Marshal(), signature.PublicKey.Marshal()) {
			continue
		}
		switch {
		case !key.after.IsZero() && s.at.Before(key.after), !key.before.IsZero() && s.at.After(key.before):
			reason = refuse("it is signed by SSH key %s, which is not trusted for %s", print, s.at.UTC().Format(time.DateTime))
		case sshsig.Verify(bytes.NewReader(s.payload), signature, key.PublicKey, signature.HashAlgorithm, sshNamespace) != nil:
			return "", refuse("it is signed by SSH key %s: the signature does not fit the content, or only claims to be by this key", print)
		default:
			return key.signer(), nil
		}
	}
	return "", reason
}

// signer names the key, and whose it claims to be.
func (k sshKey) signer() string {
	name := "SSH " + ssh.FingerprintSHA256(k)
	if k.name != "" {
		name += " (" + oneLine(k.name, 120) + ")"
	}
	return name
}

// readSSHSignature reads an armored SSH signature: see PROTOCOL.sshsig of OpenSSH.
func readSSHSignature(text []byte) (*sshsig.Signature, error) {
	if !oneBlock(text, sshsig.PEMType) {
		return nil, errors.New("it is not one block")
	}
	signature, err := sshsig.Unarmor(text)
	if err != nil {
		return nil, err
	}
	if signature.PublicKey.Type() == ssh.InsecureKeyAlgoDSA {
		return nil, errors.New("DSA is made with SHA-1, which is not believed")
	}
	return signature, nil
}

// sshTypes is the types of keys, and whether their signatures are believed.
var sshTypes = map[string]bool{
	ssh.KeyAlgoED25519: true, ssh.KeyAlgoRSA: true, ssh.KeyAlgoECDSA256: true, ssh.KeyAlgoECDSA384: true, ssh.KeyAlgoECDSA521: true,
	ssh.KeyAlgoSKED25519: true, ssh.KeyAlgoSKECDSA256: true, ssh.InsecureKeyAlgoDSA: false,
	ssh.CertAlgoED25519v01: false, ssh.CertAlgoRSAv01: false, ssh.CertAlgoECDSA256v01: false, ssh.CertAlgoECDSA384v01: false,
	ssh.CertAlgoECDSA521v01: false, ssh.CertAlgoSKED25519v01: false, ssh.CertAlgoSKECDSA256v01: false, ssh.InsecureCertAlgoDSAv01: false,
}

// readSSHLine reads a key: "type base64 comment" as in an authorized_keys file, or "principals options type base64" as
// in an allowed_signers file, where options may be left out.
func readSSHLine(line string) (sshKey, error) {
	var before []string
	rest := line
	for range 3 {
		var field string
		if field, rest = cutField(rest); field == "" {
			break
		}
		if good, isType := sshTypes[field]; isType {
			if !good {
				return sshKey{}, fmt.Errorf("keys of type %s are not believed", field)
			}
			return readSSHKey(field, rest, before)
		}
		before = append(before, field)
	}
	return sshKey{}, errors.New("it is neither an OpenPGP nor an SSH public key; write the type of the key, the key in base64, and whose it is")
}

func readSSHKey(kind, rest string, before []string) (k sshKey, err error) {
	encoded, comment := cutField(rest)
	blob, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return sshKey{}, errors.New("the SSH key is not base64")
	}
	if k.PublicKey, err = ssh.ParsePublicKey(blob); err != nil || k.Type() != kind {
		return sshKey{}, fmt.Errorf("the SSH key is not of type %s", kind)
	}
	if holder, ok := k.PublicKey.(ssh.CryptoPublicKey); ok {
		if key, isRSA := holder.CryptoPublicKey().(*rsa.PublicKey); isRSA && key.N.BitLen() < 2048 {
			return sshKey{}, errors.New("the RSA key has less than 2048 bits")
		}
	}
	k.name = strings.TrimSpace(comment)
	if len(before) == 0 {
		return k, nil
	}
	if k.name = strings.Trim(before[0], `"`); strings.ContainsAny(k.name, `"=`) || strings.EqualFold(k.name, "cert-authority") {
		return sshKey{}, errors.New("options of an authorized_keys file are not understood here; write whose key it is before them, as in an allowed_signers file")
	}
	if len(before) == 2 {
		err = k.options(before[1])
	}
	return k, err
}

// cutField returns what is before the first space or tab that is not quoted, and what is behind.
func cutField(line string) (field, rest string) {
	line = strings.TrimLeft(line, " \t")
	quoted := false
	end := strings.IndexFunc(line, func(r rune) bool {
		if r == '"' {
			quoted = !quoted
		}
		return !quoted && (r == ' ' || r == '\t')
	})
	if end < 0 {
		return line, ""
	}
	return line[:end], line[end+1:]
}

// options reads the options of an allowed_signers line.
func (k *sshKey) options(text string) error {
	for text != "" {
		var option string
		option, text = cutOption(text)
		name, value, _ := strings.Cut(option, "=")
		value = strings.Trim(value, `"`)
		var err error
		switch strings.ToLower(name) {
		case "namespaces":
			err = checkNamespaces(value)
		case "valid-after":
			k.after, err = readSSHTime(value)
		case "valid-before":
			k.before, err = readSSHTime(value)
		case "cert-authority":
			err = errors.New("the option cert-authority is not supported; list the keys themselves")
		default:
			err = fmt.Errorf("the option %q is not understood", oneLine(name, 40))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func cutOption(text string) (option, rest string) {
	quoted := false
	end := strings.IndexFunc(text, func(r rune) bool {
		if r == '"' {
			quoted = !quoted
		}
		return !quoted && r == ','
	})
	if end < 0 {
		return text, ""
	}
	return text[:end], text[end+1:]
}

// checkNamespaces refuses a key that is not meant for git.
func checkNamespaces(list string) error {
	fits := false
	for _, pattern := range strings.Split(list, ",") {
		plain, negated := strings.CutPrefix(strings.TrimSpace(pattern), "!")
		matches, err := path.Match(plain, sshNamespace)
		switch {
		case err != nil || strings.ContainsAny(plain, `[]\`):
			return fmt.Errorf("the namespace %q is not understood", oneLine(pattern, 40))
		case matches && negated:
			return fmt.Errorf("the option namespaces leaves out %q, so that the key verifies nothing here", sshNamespace)
		}
		fits = fits || matches
	}
	if !fits {
		return fmt.Errorf("the option namespaces does not name %q, so that the key verifies nothing here", sshNamespace)
	}
	return nil
}

// readSSHTime reads a date or a time. Where OpenSSH would take local time it is UTC: that is the local time of a Pod.
func readSSHTime(text string) (time.Time, error) {
	digits := strings.TrimSuffix(strings.ToUpper(text), "Z")
	for _, layout := range []string{"20060102", "200601021504", "20060102150405"} {
		if at, err := time.Parse(layout, digits); err == nil && len(digits) == len(layout) {
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("the time %q is not understood; write YYYYMMDD or YYYYMMDDHHMMSS", oneLine(text, 40))
}
