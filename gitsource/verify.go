package gitsource

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
)

const (
	// signedMost bounds a commit or a tag that is verified: it is read into memory.
	signedMost = 1 << 20
	// tagsMost bounds how many tags lead from one to another.
	tagsMost = 8
	// verifiedMost is how many good signatures are remembered.
	verifiedMost = 16_384
)

// signers are words about who signed what a reference led to.
type signers struct {
	commit, tag string
	until       time.Time // the end of the first signature that ends; zero if none does
}

// String names each signer once.
func (s signers) String() string {
	switch {
	case s.commit == "" || s.commit == s.tag:
		return s.tag
	case s.tag == "":
		return s.commit
	}
	return "tag: " + s.tag + "; commit: " + s.commit
}

// verifiedKey is all that a good verification depends on. A failed one is not remembered.
type verifiedKey struct {
	source, ref, id, commit string
	mode                    VerificationMode
	keys                    [sha256.Size]byte
}

// wants tells whether a mode wants the commit and the tag to be signed.
func (m VerificationMode) wants() (commit, tag bool, err error) {
	switch m {
	case VerifyHEAD:
		return true, false, nil
	case VerifyTag:
		return false, true, nil
	case VerifyTagAndHEAD:
		return true, true, nil
	}
	return false, false, errorf(ErrUnverified, "verify: there is no mode %q; write HEAD, Tag or TagAndHEAD", oneLine(string(m), 40))
}

// keysSum names a set of keys.
func keysSum(files [][]byte) [sha256.Size]byte {
	sum := sha256.New()
	for _, file := range files {
		fmt.Fprintf(sum, "%d:%s", len(file), file)
	}
	return [sha256.Size]byte(sum.Sum(nil))
}

// verify finds out who signed a commit and the tag that led to it. What it reads is named by the ids that the caller
// goes on with, and is held against them.
func (c *Client) verify(ctx context.Context, repo Repository, src *source, at ref, commit string, v Verification) (string, error) {
	wantsCommit, wantsTag, err := v.Mode.wants()
	if err != nil {
		return "", err
	}
	if wantsTag && !strings.HasPrefix(at.name, tagPrefix) {
		return "", src.remote.explain(notATag(at.name, v.Mode))
	}
	key := verifiedKey{src.key, at.name, at.id, commit, v.Mode, keysSum(v.Keys)}
	now := c.options.Now()
	if known, ok := c.verified.get(key); ok && (known.until.IsZero() || now.Before(known.until)) {
		return known.String(), nil
	}
	keys, err := readTrust(v.Keys) // never shared: go-crypto writes into keys when it verifies with them
	if err != nil {
		return "", err
	}
	var found signers
	a := c.assemble(repo, src, commit, layout{})
	defer a.close()
	top := a.order[0]
	err = a.use(ctx, top, func() error {
		found = signers{}
		m := top.mirror
		if wantsTag {
			if err := m.fetchTag(ctx, src.remote, at.id); err != nil {
				return err
			}
			if err := m.verifyTag(&found, keys, at, commit, now); err != nil {
				return err
			}
		}
		if wantsCommit {
			return m.verifyCommit(&found, keys, commit, now)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	c.verified.put(key, found)
	return found.String(), nil
}

func notATag(name string, mode VerificationMode) error {
	if branch, ok := strings.CutPrefix(name, branchPrefix); ok {
		branch = oneLine(branch, 80)
		return errorf(ErrUnverified, "verify: mode %s wants a signed tag, and %s is a branch; follow a tag, as in %s%s or semver:*, or verify mode HEAD", mode, branch, tagPrefix, branch)
	}
	return errorf(ErrUnverified, "verify: mode %s wants a signed tag, and the reference is none; follow a tag or a range of them, or verify mode HEAD", mode)
}

// fetchTag makes sure that a tag object and those that it leads to are there.
func (m *mirror) fetchTag(ctx context.Context, from remote, id string) error {
	if m.storage().HasEncodedObject(plumbing.NewHash(id)) == nil {
		return nil
	}
	able, err := from.abilities(ctx)
	if err != nil {
		return err
	}
	return m.fetch(ctx, from, m.wantShallow(able, id))
}

// verifyTag checks the tag that a ref names: its own name and signature, and that it leads to the commit.
func (m *mirror) verifyTag(found *signers, keys *trust, at ref, commit string, now time.Time) error {
	name := strings.TrimPrefix(at.name, tagPrefix)
	what := "tag " + oneLine(name, 80)
	kind, raw, err := m.signedObject(at.id, what)
	if err != nil {
		return err
	}
	if kind != plumbing.TagObject {
		return errorf(ErrUnverified, "verify %s: it is not an annotated tag and cannot be signed; make it with git tag -s", what)
	}
	outer, err := readTag(raw, what)
	if err != nil {
		return err
	}
	if outer.name != name {
		return errorf(ErrUnverified, "verify %s: the tag that was signed is named %s: a signed tag cannot be given another name", what, oneLine(outer.name, 80))
	}
	if found.tag, err = keys.check(found, outer.signed, now); err != nil {
		return err
	}
	inner := outer
	for range tagsMost {
		if inner.kind != plumbing.TagObject {
			break
		}
		if kind, raw, err = m.signedObject(inner.target, what); err != nil {
			return err
		}
		if kind != plumbing.TagObject {
			return errorf(ErrUnverified, "verify %s: it says that it leads to a tag, which is a %s", what, kind)
		}
		if inner, err = readTag(raw, what); err != nil {
			return err
		}
	}
	if inner.kind != plumbing.CommitObject || inner.target != commit {
		return errorf(ErrUnverified, "verify %s: it leads to %s %s, and the server says commit %s", what, inner.kind, inner.target, commit)
	}
	return nil
}

// verifyCommit checks the signature of a commit.
func (m *mirror) verifyCommit(found *signers, keys *trust, commit string, now time.Time) error {
	what := "commit " + commit
	kind, raw, err := m.signedObject(commit, what)
	if err != nil {
		return err
	}
	if kind != plumbing.CommitObject {
		return errorf(ErrUnverified, "verify %s: it is a %s", what, kind)
	}
	signed, err := readSignedCommit(raw, what)
	if err == nil {
		found.commit, err = keys.check(found, signed, now)
	}
	return err
}

// signedObject reads a commit or a tag exactly as it is, and holds it against its id once more.
func (m *mirror) signedObject(id, what string) (plumbing.ObjectType, []byte, error) {
	encoded, err := read(m.storage(), plumbing.AnyObject, plumbing.NewHash(id))
	if err != nil {
		return 0, nil, err
	}
	kind := encoded.Type()
	if kind != plumbing.CommitObject && kind != plumbing.TagObject {
		return kind, nil, nil
	}
	if encoded.Size() > signedMost {
		return 0, nil, errorf(ErrTooLarge, "verify %s: it has %d bytes, more than %d", what, encoded.Size(), signedMost)
	}
	r, err := encoded.Reader()
	if err != nil {
		return 0, nil, fmt.Errorf("read object %s: %w: %v", id, errBroken, err)
	}
	defer r.Close()
	raw, err := io.ReadAll(io.LimitReader(r, signedMost+1))
	if err != nil || plumbing.ComputeHash(kind, raw).String() != id {
		return 0, nil, fmt.Errorf("read object %s: %w: its content has another id: %v", id, errBroken, err)
	}
	return kind, raw, nil
}

// signed is what a signature is over, and the signature.
type signed struct {
	what               string
	payload, signature []byte
	at                 time.Time // as the committer or tagger claims
}

// readSignedCommit parts a commit from its signature: that is a header of the commit, and signed is the rest.
func readSignedCommit(raw []byte, what string) (signed, error) {
	malformed := errorf(ErrUnverified, "verify %s: it is malformed", what)
	out := signed{what: what}
	header, message, whole := bytes.Cut(raw, []byte("\n\n"))
	if !whole || bytes.IndexByte(header, 0) >= 0 {
		return signed{}, malformed
	}
	inSignature := false
	for line := range bytes.Lines(append(header[:len(header):len(header)], '\n')) {
		name, value, _ := bytes.Cut(line, []byte(" "))
		switch {
		case inSignature && len(name) == 0:
			out.signature = append(out.signature, value...)
			continue
		case string(name) == "gpgsig" && out.signature == nil:
			inSignature = true
			out.signature = append(out.signature, value...)
			continue
		case bytes.HasPrefix(name, []byte("gpgsig")): // of git's other ways to part a commit none must give another answer
			return signed{}, errorf(ErrUnverified, "verify %s: it has more than one signature", what)
		}
		inSignature = false
		out.payload = append(out.payload, line...)
	}
	out.payload = append(append(out.payload, '\n'), message...)

	var decoded object.Commit
	if err := decode(&decoded, plumbing.CommitObject, raw); err != nil || !bytes.HasPrefix(out.payload, []byte("tree "+decoded.TreeHash.String()+"\n")) {
		return signed{}, malformed
	}
	out.at = decoded.Committer.When
	return out, nil
}

// taggedObject is an annotated tag.
type taggedObject struct {
	signed
	name   string
	kind   plumbing.ObjectType
	target string
}

// readTag parts a tag from its signature, which is at its end.
func readTag(raw []byte, what string) (taggedObject, error) {
	var decoded object.Tag
	err := decode(&decoded, plumbing.TagObject, raw)
	begin := fmt.Sprintf("object %s\ntype %s\ntag %s\n", decoded.Target, decoded.TargetType, decoded.Name)
	if err != nil || !bytes.HasPrefix(raw, []byte(begin)) {
		return taggedObject{}, errorf(ErrUnverified, "verify %s: it is malformed", what)
	}
	at := len(raw)
	for offset := 0; offset < len(raw); {
		if signatureFormat(raw[offset:]) != "" {
			at = offset
		}
		end := bytes.IndexByte(raw[offset:], '\n')
		if end < 0 {
			break
		}
		offset += end + 1
	}
	return taggedObject{
		signed: signed{what: what, payload: raw[:at], signature: raw[at:], at: decoded.Tagger.When},
		name:   decoded.Name, kind: decoded.TargetType, target: decoded.Target.String(),
	}, nil
}

// decode lets go-git read an object.
func decode(into interface {
	Decode(plumbing.EncodedObject) error
}, kind plumbing.ObjectType, raw []byte) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("read %s: %v", kind, p)
		}
	}()
	memory := &plumbing.MemoryObject{}
	memory.SetType(kind)
	if _, err := memory.Write(raw); err != nil {
		return err
	}
	return into.Decode(memory)
}

// The formats of signatures, by how they begin.
const (
	formatOpenPGP = "OpenPGP"
	formatSSH     = "SSH"
	formatX509    = "X.509"
	formatOther   = "unknown"
)

// signatureFormat is the format of the signature that text begins with, or empty.
func signatureFormat(text []byte) string {
	for _, f := range []struct{ begin, format string }{
		{"-----BEGIN PGP SIGNATURE-----", formatOpenPGP},
		{"-----BEGIN SSH SIGNATURE-----", formatSSH},
		{"-----BEGIN SIGNED MESSAGE-----", formatX509},
		{"-----BEGIN PGP MESSAGE-----", formatOther},
	} {
		if bytes.HasPrefix(text, []byte(f.begin)) {
			return f.format
		}
	}
	return ""
}

// oneBlock says that a text is one armored block, and nothing around it that nobody signed.
func oneBlock(text []byte, kind string) bool {
	begin, end := "-----BEGIN "+kind+"-----", "-----END "+kind+"-----"
	trimmed := strings.TrimSpace(string(text))
	return strings.HasPrefix(trimmed, begin) && strings.HasSuffix(trimmed, "\n"+end) && strings.Count(trimmed, "-----BEGIN ") == 1
}

// check finds out who signed something, among the trusted keys.
func (t *trust) check(found *signers, s signed, now time.Time) (signer string, err error) {
	switch signatureFormat(s.signature) {
	case formatOpenPGP:
		var until time.Time
		if signer, until, err = t.checkOpenPGP(s, now); err == nil && !until.IsZero() && (found.until.IsZero() || until.Before(found.until)) {
			found.until = until
		}
		return signer, err
	case formatSSH:
		return t.checkSSH(s)
	case formatX509:
		return "", errorf(ErrUnverified, "verify %s: it is signed with an X.509 certificate, as gitsign and smimesign do; only OpenPGP and SSH signatures are verified", s.what)
	}
	if len(s.signature) > 0 {
		return "", errorf(ErrUnverified, "verify %s: its signature is neither an OpenPGP nor an SSH signature", s.what)
	}
	return "", errorf(ErrUnverified, "verify %s: it is not signed", s.what)
}

// trust is keys whose signatures are believed.
type trust struct {
	openpgp []openpgpKey
	ssh     []sshKey
}

// readTrust reads files of keys: armored OpenPGP blocks and lines of SSH keys, in any order.
func readTrust(files [][]byte) (*trust, error) {
	t := &trust{}
	for i, file := range files {
		if err := t.read(string(file)); err != nil {
			return nil, errorf(ErrUnverified, "read trusted keys: file %d: %v", i+1, err)
		}
	}
	if len(t.openpgp) == 0 && len(t.ssh) == 0 {
		return nil, errorf(ErrUnverified, "read trusted keys: there are none")
	}
	return t, nil
}

func (t *trust) read(file string) error {
	const begin, end = "-----BEGIN ", "-----END "
	var block strings.Builder
	first, n := 0, 0
	for line := range strings.Lines(file) {
		n++
		text := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(text, begin) && first == 0:
			first = n
			fallthrough
		case first > 0:
			block.WriteString(text + "\n")
			if !strings.HasPrefix(text, end) {
				continue
			}
			keys, err := readOpenPGP(block.String())
			if err != nil {
				return fmt.Errorf("line %d: %w", first, err)
			}
			t.openpgp = append(t.openpgp, keys...)
			block.Reset()
			first = 0
		case text == "" || strings.HasPrefix(text, "#"):
		default:
			key, err := readSSHLine(text)
			if err != nil {
				return fmt.Errorf("line %d: %w", n, err)
			}
			t.ssh = append(t.ssh, key)
		}
	}
	if first > 0 {
		return fmt.Errorf("line %d: a block of OpenPGP keys has no end", first)
	}
	return nil
}

// hexID writes the id of an OpenPGP key as gpg does.
func hexID(id []byte) string { return strings.ToUpper(hex.EncodeToString(id)) }
