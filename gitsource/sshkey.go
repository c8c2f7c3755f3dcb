package gitsource

import (
	"bytes"
	"crypto/rsa"
	"crypto/x509"
	"errors"

	"golang.org/x/crypto/ssh"
)

const (
	// sshKeyBytes is more than any private key takes.
	sshKeyBytes = 64 << 10
	// rsaBits is the least that an RSA key must have.
	rsaBits = 2048
)

// readPrivateKey reads a private key. Its errors match ErrAuth, say what to do, and tell nothing of the key.
func readPrivateKey(file []byte, passphrase string) (ssh.Signer, error) {
	if len(file) > sshKeyBytes {
		return nil, errorf(ErrAuth, "read SSH key: it is larger than %d bytes", sshKeyBytes)
	}
	key, err := ssh.ParseRawPrivateKey(file)
	var encrypted *ssh.PassphraseMissingError
	if errors.As(err, &encrypted) {
		if passphrase == "" {
			return nil, errorf(ErrAuth, "read SSH key: it is encrypted; put its passphrase into the Secret's key password")
		}
		key, err = ssh.ParseRawPrivateKeyWithPassphrase(file, []byte(passphrase))
		if errors.Is(err, x509.IncorrectPasswordError) {
			return nil, errorf(ErrAuth, "read SSH key: the passphrase in the Secret's key password is wrong")
		}
	}
	if err != nil {
		return nil, errorf(ErrAuth, "read SSH key: %s", notAKey(file))
	}
	if r, ok := key.(*rsa.PrivateKey); ok && r.N.BitLen() < rsaBits {
		return nil, errorf(ErrAuth, "read SSH key: an RSA key of %d bits is too weak; make one with ssh-keygen -t ed25519", r.N.BitLen())
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil || signer.PublicKey().Type() == ssh.InsecureKeyAlgoDSA {
		return nil, errorf(ErrAuth, "read SSH key: it is neither an ed25519, ECDSA nor RSA key; make one with ssh-keygen -t ed25519")
	}
	if signer.PublicKey().Type() != ssh.KeyAlgoRSA {
		return signer, nil
	}
	// Signatures with SHA-1, which is what the name ssh-rsa means, are never made.
	return ssh.NewSignerWithAlgorithms(signer.(ssh.AlgorithmSigner), []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256})
}

// notAKey says what people take for a private key.
func notAKey(file []byte) string {
	begins := func(words string) bool { return bytes.HasPrefix(bytes.TrimSpace(file), []byte(words)) }
	switch {
	case begins("-----BEGIN ENCRYPTED PRIVATE KEY"):
		return "it is encrypted in the form of PKCS #8, which is not read; write it anew with ssh-keygen -p"
	case begins("ssh-"), begins("ecdsa-"), begins("-----BEGIN PUBLIC KEY"), begins("---- BEGIN SSH2 PUBLIC KEY"):
		return "it is the public key; the Secret needs the private one"
	case begins("PuTTY-User-Key-File"):
		return "it is in PuTTY's form; export it as an OpenSSH key"
	}
	return "it is no private key in PEM or OpenSSH form, or is damaged; check that the Secret holds the whole file"
}
