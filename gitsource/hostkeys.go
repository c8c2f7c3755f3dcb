package gitsource

import (
	"bytes"
	"errors"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"
	xknownhosts "golang.org/x/crypto/ssh/knownhosts"
)

// hostKeys is what is known of the key of one SSH server.
type hostKeys struct {
	address string // host:port
	known   *knownhosts.HostKeyDB
	own     bool // known from the credentials, not built in
}

// knowHost reads a known_hosts file for one server. The keys that are built in count for a server that the file says
// nothing of, unless it revokes them. The directory is for a moment: the parser reads files only.
func knowHost(dir, address string, file []byte) (*hostKeys, error) {
	if err := checkPatterns(file); err != nil {
		return nil, err
	}
	own, err := readKnownHosts(dir, file)
	if err != nil {
		return nil, err
	}
	if len(own.HostKeys(address)) > 0 {
		return &hostKeys{address: address, known: own, own: true}, nil
	}
	all, err := readKnownHosts(dir, slices.Concat(file, []byte(pinnedHosts)))
	if err != nil {
		return nil, err
	}
	return &hostKeys{address: address, known: all}, nil
}

func readKnownHosts(dir string, content []byte) (*knownhosts.HostKeyDB, error) {
	file, err := os.CreateTemp(dir, "known-hosts-")
	if err != nil {
		return nil, err
	}
	defer os.Remove(file.Name())
	defer file.Close()
	if _, err := file.Write(content); err != nil {
		return nil, err
	}
	db, err := knownhosts.NewDB(file.Name())
	if err != nil {
		said := strings.ReplaceAll(err.Error(), file.Name(), "line") // the name means nothing to anybody
		return nil, errorf(ErrHostKey, "read known_hosts of the Secret: %s", oneLine(strings.TrimPrefix(said, "knownhosts: "), 200))
	}
	return db, nil
}

// starsMost is how many * a pattern may have: the parser tries every way in which they may match.
const starsMost = 2

// checkPatterns refuses what would cost the parser more time than it is worth.
func checkPatterns(file []byte) error {
	for line := range bytes.Lines(file) {
		for _, pattern := range bytes.Split(line, []byte(",")) {
			if !bytes.HasPrefix(bytes.TrimSpace(pattern), []byte("#")) && bytes.Count(pattern, []byte("*")) > starsMost {
				return errorf(ErrHostKey, "read known_hosts of the Secret: a pattern has more than %d *", starsMost)
			}
		}
	}
	return nil
}

// usual are the algorithms to ask a server for that nothing is known of, to tell its key: the shortest comes first. What
// is missing is not believed, whatever known_hosts says: SHA-1 signatures, and DSA.
var usual = []string{
	ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256,
}

// certified are those of certificates. The key of an authority says nothing about the keys that it signed.
var certified = []string{
	ssh.CertAlgoED25519v01, ssh.CertAlgoECDSA256v01, ssh.CertAlgoECDSA384v01, ssh.CertAlgoECDSA521v01, ssh.CertAlgoRSASHA512v01, ssh.CertAlgoRSASHA256v01,
}

// algorithms is what the server is asked to prove itself with. A server has several keys, and shows the first that
// both sides can read: it must be one that is known.
func (h *hostKeys) algorithms() ([]string, error) {
	keys := h.known.HostKeys(h.address)
	if len(keys) == 0 {
		return usual, nil
	}
	var algorithms []string
	if slices.ContainsFunc(keys, func(key knownhosts.PublicKey) bool { return key.Cert }) {
		algorithms = append(algorithms, certified...)
	}
	for _, algorithm := range usual {
		format := strings.NewReplacer("rsa-sha2-512", ssh.KeyAlgoRSA, "rsa-sha2-256", ssh.KeyAlgoRSA).Replace(algorithm)
		if slices.ContainsFunc(keys, func(key knownhosts.PublicKey) bool { return !key.Cert && key.Type() == format }) {
			algorithms = append(algorithms, algorithm)
		}
	}
	if len(algorithms) == 0 {
		return nil, errorf(ErrHostKey, "check host key: %s has only keys in known_hosts that nobody believes any more, such as DSA; add another", h.host())
	}
	return algorithms, nil
}

// check is a ssh.HostKeyCallback.
func (h *hostKeys) check(address string, remote net.Addr, key ssh.PublicKey) error {
	err := h.known.HostKeyCallback()(address, remote, key)
	var unknown *xknownhosts.KeyError
	var revoked *xknownhosts.RevokedError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &revoked):
		return errorf(ErrHostKey, "check host key: the key of %s is marked @revoked in the Secret's key known_hosts (%s)", h.host(), ssh.FingerprintSHA256(key))
	case !errors.As(err, &unknown):
		return errorf(ErrHostKey, "check host key: the certificate of %s is refused: %s", h.host(), oneLine(strings.TrimPrefix(err.Error(), "ssh: "), 200))
	case len(unknown.Want) > 0:
		return h.changed("shows " + ssh.FingerprintSHA256(key))
	}
	return errorf(ErrHostKey, "check host key: %s is not known; compare %s with what its owner publishes, then add this line to the Secret's key known_hosts: %s",
		h.host(), ssh.FingerprintSHA256(key), knownhosts.Line([]string{address}, key))
}

// changed warns of a server that is known and does not show the key that is.
func (h *hostKeys) changed(how string) error {
	cure := "replace its lines in the Secret's key known_hosts"
	if !h.own {
		cure = "put it into the Secret's key known_hosts, which counts before the keys that are built in"
	}
	return errorf(ErrHostKey, "WARNING: %s is not the server that is known by that name, or its key changed: it %s. Somebody may be listening. Only if its owner published a new key, %s",
		h.host(), how, cure)
}

// negotiated makes an error of a server that has no key of the kinds that are known.
func (h *hostKeys) negotiated(err *ssh.AlgorithmNegotiationError) error {
	offered := oneLine(strings.Join(err.RequestedAlgorithms, ", "), 200)
	if len(h.known.HostKeys(h.address)) == 0 {
		return errorf(ErrHostKey, "check host key: %s offers no key that can be believed, only %s", h.host(), offered)
	}
	return h.changed("offers " + offered + ", and is known by " + strings.Join(err.SupportedAlgorithms, ", "))
}

// host is the server as known_hosts writes it.
func (h *hostKeys) host() string { return knownhosts.Normalize(h.address) }
