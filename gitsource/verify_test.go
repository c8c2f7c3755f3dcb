package gitsource_test

import (
	"bytes"
	"crypto"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	openpgp "github.com/ProtonMail/go-crypto/openpgp/v2"
	"github.com/hiddeco/sshsig"
	. "github.com/onsi/gomega"
	"golang.org/x/crypto/ssh"

	"github.com/gitfn/gitfn/gitsource"
)

// committed is when everything in these repositories was committed and signed, unless a test says otherwise.
var committed = time.Unix(1_700_000_000, 0)

func at(when time.Time) *packet.Config {
	return &packet.Config{Time: func() time.Time { return when }, Algorithm: packet.PubKeyAlgoEdDSA}
}

// newOpenPGP makes a key a month before the commits.
func newOpenPGP(t testing.TB, name string) *openpgp.Entity {
	t.Helper()
	entity, err := openpgp.NewEntity(name, "", strings.ToLower(name)+"@example.org", at(committed.AddDate(0, -1, 0)))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return entity
}

// publicKey is a key as others get it.
func publicKey(t testing.TB, entity *openpgp.Entity) []byte {
	t.Helper()
	g := NewWithT(t)
	var out bytes.Buffer
	w, err := armor.Encode(&out, openpgp.PublicKeyType, nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(entity.Serialize(w)).To(Succeed())
	g.Expect(w.Close()).To(Succeed())
	return append(out.Bytes(), '\n')
}

// changed is a copy of a key of which its owner said something else later.
func changed(t testing.TB, entity *openpgp.Entity, change func(*openpgp.Entity) error) []byte {
	t.Helper()
	g := NewWithT(t)
	var secret bytes.Buffer
	g.Expect(entity.SerializePrivateWithoutSigning(&secret, nil)).To(Succeed())
	entities, err := openpgp.ReadKeyRing(&secret)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(change(entities[0])).To(Succeed())
	return publicKey(t, entities[0])
}

// saysAgain lets a key say anew what it says about itself, in place of what it said, as GnuPG does.
func saysAgain(when time.Time, life time.Duration) func(*openpgp.Entity) error {
	return func(entity *openpgp.Entity) error {
		for _, identity := range entity.Identities {
			seconds := uint32(life / time.Second)
			said := identity.SelfCertifications[0].Packet
			said.CreationTime, said.KeyLifetimeSecs = when, &seconds
			if err := said.SignUserId(identity.UserId.Id, entity.PrimaryKey, entity.PrivateKey, at(when)); err != nil {
				return err
			}
		}
		return nil
	}
}

func revoke(reason packet.ReasonForRevocation, when time.Time) func(*openpgp.Entity) error {
	return func(entity *openpgp.Entity) error { return entity.Revoke(reason, "", at(when)) }
}

// sign is what makes a signature.
type sign func(t testing.TB, payload []byte) string

func withOpenPGP(entity *openpgp.Entity, modify ...func(*openpgp.SignParams)) sign {
	return func(t testing.TB, payload []byte) string {
		t.Helper()
		params := &openpgp.SignParams{Config: at(committed)}
		for _, m := range modify {
			m(params)
		}
		var out bytes.Buffer
		NewWithT(t).Expect(openpgp.ArmoredDetachSign(&out, []*openpgp.Entity{entity}, bytes.NewReader(payload), params)).To(Succeed())
		return out.String() + "\n"
	}
}

// withSHA1 signs as nobody does any more.
func withSHA1(entity *openpgp.Entity) sign {
	return func(t testing.TB, payload []byte) string {
		t.Helper()
		g := NewWithT(t)
		s := &packet.Signature{Version: 4, SigType: packet.SigTypeBinary, PubKeyAlgo: entity.PrimaryKey.PubKeyAlgo, Hash: crypto.SHA1,
			CreationTime: committed, IssuerKeyId: &entity.PrimaryKey.KeyId}
		h := crypto.SHA1.New()
		h.Write(payload)
		config := at(committed)
		config.NonDeterministicSignaturesViaNotation = packet.BoolPointer(false)
		g.Expect(s.Sign(h, entity.PrivateKey, config)).To(Succeed())
		var out bytes.Buffer
		w, err := armor.Encode(&out, openpgp.SignatureType, nil)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(s.Serialize(w)).To(Succeed())
		g.Expect(w.Close()).To(Succeed())
		return out.String() + "\n"
	}
}

// newSSH lets ssh-keygen make a key, and returns its file and its public line.
func newSSH(t testing.TB, kind, comment string) (file, line string) {
	t.Helper()
	g := NewWithT(t)
	file = filepath.Join(t.TempDir(), "id_"+kind)
	out, err := exec.Command("ssh-keygen", "-q", "-t", kind, "-N", "", "-C", comment, "-f", file).CombinedOutput()
	g.Expect(err).NotTo(HaveOccurred(), string(out))
	public, err := os.ReadFile(file + ".pub")
	g.Expect(err).NotTo(HaveOccurred())
	return file, strings.TrimSpace(string(public))
}

// withSSH signs as ssh-keygen does, in any namespace.
func withSSH(file, namespace string) sign {
	return func(t testing.TB, payload []byte) string {
		t.Helper()
		g := NewWithT(t)
		secret, err := os.ReadFile(file)
		g.Expect(err).NotTo(HaveOccurred())
		signer, err := ssh.ParsePrivateKey(secret)
		g.Expect(err).NotTo(HaveOccurred())
		signature, err := sshsig.Sign(bytes.NewReader(payload), signer, sshsig.HashSHA512, namespace)
		g.Expect(err).NotTo(HaveOccurred())
		return string(sshsig.Armor(signature))
	}
}

func fixed(text string) sign { return func(testing.TB, []byte) string { return text } }

// rawCommit is a commit of a tree, without a signature.
func rawCommit(tree string) string {
	const who = "Ada Lovelace <ada@example.org> 1700000000 +0000"
	return fmt.Sprintf("tree %s\nauthor %s\ncommitter %s\n\nsigned\n\nwith a body\n", tree, who, who)
}

// signedCommit is a commit with a signature where Git has it.
func signedCommit(t testing.TB, raw string, s sign) string {
	t.Helper()
	header := "gpgsig " + strings.ReplaceAll(strings.TrimSuffix(s(t, []byte(raw)), "\n"), "\n", "\n ") + "\n"
	before, after, _ := strings.Cut(raw, "\n\n")
	return before + "\n" + header + "\n" + after
}

// rawTag is a tag of an object, without a signature.
func rawTag(object, kind, name string) string {
	return fmt.Sprintf("object %s\ntype %s\ntag %s\ntagger Ada Lovelace <ada@example.org> 1700000000 +0000\n\nrelease\n", object, kind, name)
}

func signedTag(t testing.TB, raw string, s sign) string { return raw + s(t, []byte(raw)) }

// write stores an object as it is and points a ref to it.
func (r *repository) write(kind, raw, ref string) string {
	id := r.run(raw, "hash-object", "-w", "--literally", "-t", kind, "--stdin")
	r.run("", "update-ref", ref, id)
	return id
}

func TestCommitsAreVerified(t *testing.T) {
	t.Parallel()
	jane, mallory := newOpenPGP(t, "Jane"), newOpenPGP(t, "Mallory")
	withSubkey := newOpenPGP(t, "Sub")
	NewWithT(t).Expect(withSubkey.AddSigningSubkey(at(committed.AddDate(0, -1, 0)))).To(Succeed())
	subkey := withSubkey.Subkeys[len(withSubkey.Subkeys)-1].PublicKey.KeyIdString()
	janes := publicKey(t, jane)
	ed, edLine := newSSH(t, "ed25519", "jane@example")
	ec, ecLine := newSSH(t, "ecdsa", "")
	_, rsaLine := newSSH(t, "rsa", "rsa@example")
	rsa, _ := newSSH(t, "rsa", "")
	rsaPublic, err := os.ReadFile(rsa + ".pub")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	edFields := strings.Fields(edLine)
	edKey := edFields[0] + " " + edFields[1]
	print := func(line string) string {
		key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(line))
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		return ssh.FingerprintSHA256(key)
	}
	day := 24 * time.Hour
	id := jane.PrimaryKey.KeyIdString()
	text := func(p *openpgp.SignParams) { p.TextSig = true }
	lasting := func(d time.Duration) func(*openpgp.SignParams) {
		return func(p *openpgp.SignParams) { p.Config.SigLifetimeSecs = uint32(d / time.Second) }
	}
	forged := func(change func(string) string) func(t testing.TB, raw string, s sign) string {
		return func(t testing.TB, raw string, s sign) string { return change(signedCommit(t, raw, s)) }
	}
	none := func(_ testing.TB, raw string, _ sign) string { return raw }
	rows := []struct {
		name   string
		sign   sign
		commit func(t testing.TB, raw string, s sign) string // nil: signedCommit
		keys   []string
		signer string
		words  string // of the refusal
	}{
		{name: "an OpenPGP key signed", sign: withOpenPGP(jane), keys: []string{string(janes)}, signer: "OpenPGP " + id + " (Jane <jane@example.org>)"},
		{name: "one of several keys signed", sign: withOpenPGP(jane), keys: []string{edLine, string(publicKey(t, mallory)) + "# a remark\n\n" + string(janes)}, signer: "OpenPGP " + id + " (Jane <jane@example.org>)"},
		{name: "a subkey signed", sign: withOpenPGP(withSubkey), keys: []string{string(publicKey(t, withSubkey))}, signer: "OpenPGP " + subkey + " (Sub <sub@example.org>)"},
		{name: "an SSH key signed", sign: withSSH(ed, "git"), keys: []string{edLine}, signer: "SSH " + print(edLine) + " (jane@example)"},
		{name: "an ECDSA key without a comment signed", sign: withSSH(ec, "git"), keys: []string{ecLine}, signer: "SSH " + print(ecLine)},
		{name: "an RSA key signed", sign: withSSH(rsa, "git"), keys: []string{string(rsaPublic)}, signer: "SSH " + print(string(rsaPublic))},
		{name: "a line of allowed signers", sign: withSSH(ed, "git"), keys: []string{`jane@example.org,*@team.example namespaces="git,file",valid-after="20231101" ` + edKey}, signer: "SSH " + print(edLine) + " (jane@example.org,*@team.example)"},
		{name: "the key was valid when it signed and has expired since", sign: withOpenPGP(jane), keys: []string{string(changed(t, jane, saysAgain(committed.AddDate(0, -1, 0), 60*day)))}, signer: "OpenPGP " + id + " (Jane <jane@example.org>)"},
		{name: "the key was renewed after it signed", sign: withOpenPGP(jane), keys: []string{string(changed(t, jane, saysAgain(committed.AddDate(0, 2, 0), 900*day)))}, signer: "OpenPGP " + id + " (Jane <jane@example.org>)"},
		{name: "the key was retired after it signed", sign: withOpenPGP(jane), keys: []string{string(changed(t, jane, revoke(packet.KeyRetired, committed.AddDate(0, 1, 0))))}, signer: "OpenPGP " + id + " (Jane <jane@example.org>)"},

		{name: "nobody signed", commit: none, keys: []string{string(janes)}, words: "it is not signed"},
		{name: "another OpenPGP key signed", sign: withOpenPGP(mallory), keys: []string{string(janes)}, words: "OpenPGP key " + mallory.PrimaryKey.KeyIdString() + ", which is not among the trusted keys"},
		{name: "another SSH key signed", sign: withSSH(ed, "git"), keys: []string{rsaLine, string(janes)}, words: "SSH key " + print(edLine) + ", which is not among the trusted keys"},
		{name: "the key had expired when it signed", sign: withOpenPGP(jane), keys: []string{string(changed(t, jane, saysAgain(committed.AddDate(0, -1, 0), 7*day)))}, words: id + ": the key had expired on 2023-11-14"},
		{name: "the key had expired when it signed, and was renewed to a time before", sign: withOpenPGP(jane), keys: []string{string(changed(t, jane, saysAgain(committed.AddDate(0, 2, 0), 31*day)))}, words: id + ": the key had expired"},
		{name: "the key was retired before it signed", sign: withOpenPGP(jane), keys: []string{string(changed(t, jane, revoke(packet.KeyRetired, committed.AddDate(0, 0, -1))))}, words: id + ": the key is revoked"},
		{name: "the key was stolen, who knows when", sign: withOpenPGP(jane), keys: []string{string(changed(t, jane, revoke(packet.KeyCompromised, committed.AddDate(0, 1, 0))))}, words: id + ": the key is revoked"},
		{name: "the signature has expired", sign: withOpenPGP(jane, lasting(day)), keys: []string{string(janes)}, words: "has expired on 2023-11-15"},
		{name: "the signature is made with SHA-1", sign: withSHA1(jane), keys: []string{string(janes)}, words: "is made with SHA-1"},
		{name: "the signature is over text of any line ends", sign: withOpenPGP(jane, text), keys: []string{string(janes)}, words: "not one of exact bytes"},
		{name: "the signature was made for files", sign: withSSH(ed, "file"), keys: []string{edLine}, words: `in the namespace "file", not in "git"`},
		{name: "the SSH key is trusted from later on", sign: withSSH(ed, "git"), keys: []string{"jane valid-after=20240101 " + edKey}, words: "not trusted for 2023-11-14"},
		{name: "the SSH key is trusted until before", sign: withSSH(ed, "git"), keys: []string{`jane valid-before="20231101" ` + edKey}, words: "not trusted for 2023-11-14"},
		{name: "an X.509 certificate signed", sign: fixed("-----BEGIN SIGNED MESSAGE-----\nMIIC\n-----END SIGNED MESSAGE-----\n"), keys: []string{string(janes)}, words: "X.509 certificate"},
		{name: "the signature is none", sign: fixed("signed, Jane\n"), keys: []string{string(janes)}, words: "neither an OpenPGP nor an SSH signature"},
		{name: "the OpenPGP signature is garbage", sign: fixed("-----BEGIN PGP SIGNATURE-----\n\nAAAA\n-----END PGP SIGNATURE-----\n"), keys: []string{string(janes)}, words: "cannot be read"},
		{name: "the SSH signature is garbage", sign: fixed("-----BEGIN SSH SIGNATURE-----\nU1NIU0lH\n-----END SSH SIGNATURE-----\n"), keys: []string{edLine}, words: "cannot be read"},
		{name: "the message was changed", sign: withOpenPGP(jane), keys: []string{string(janes)}, words: id + ": the signature does not fit the content",
			commit: forged(func(raw string) string { return strings.Replace(raw, "with a body", "with another", 1) })},
		{name: "the message was changed after SSH signed", sign: withSSH(ed, "git"), keys: []string{edLine}, words: "the signature does not fit the content",
			commit: forged(func(raw string) string { return raw + "more\n" })},
		{name: "a second signature was added", sign: withOpenPGP(jane), keys: []string{string(janes)}, words: "more than one signature",
			commit: forged(func(raw string) string { return strings.Replace(raw, "\n\nsigned", "\ngpgsig x\n\nsigned", 1) })},
		{name: "a tree was hidden where git looks for a signature", sign: withOpenPGP(jane), keys: []string{string(janes)}, words: "more than one signature",
			commit: forged(func(raw string) string {
				return strings.Replace(raw, "\n\nsigned", "\ngpgsig-sha256 x\n tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n\nsigned", 1)
			})},
		{name: "something was added behind the signature", sign: withSSH(ed, "git"), keys: []string{edLine}, words: "cannot be read",
			commit: forged(func(raw string) string {
				return strings.Replace(raw, "\n\nsigned", "\n approved by everybody\n\nsigned", 1)
			})},
		{name: "two blocks of signatures", sign: func(t testing.TB, payload []byte) string {
			return withSSH(ec, "git")(t, payload) + withSSH(ed, "git")(t, payload)
		}, keys: []string{edLine}, words: "cannot be read"},

		{name: "there are no keys", sign: withOpenPGP(jane), words: "read trusted keys: there are none"},
		{name: "the keys are a remark", sign: withOpenPGP(jane), keys: []string{"# nothing yet\n"}, words: "read trusted keys: there are none"},
		{name: "a key is none", sign: withOpenPGP(jane), keys: []string{string(janes), "\nhello world\n"}, words: "file 2: line 2: it is neither an OpenPGP nor an SSH public key"},
		{name: "a key has no end", sign: withOpenPGP(jane), keys: []string{string(janes[:len(janes)/2])}, words: "has no end"},
		{name: "a key is garbage", sign: withOpenPGP(jane), keys: []string{"-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nAAAA\n-----END PGP PUBLIC KEY BLOCK-----\n"}, words: "no OpenPGP public key that can be read"},
		{name: "a key is private", sign: withSSH(ed, "git"), keys: []string{"-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n"}, words: "never put a private key"},
		{name: "an SSH key is garbage", sign: withSSH(ed, "git"), keys: []string{"ssh-ed25519 AAAA jane"}, words: "not of type ssh-ed25519"},
		{name: "an SSH key claims another type", sign: withSSH(ed, "git"), keys: []string{"ssh-rsa " + edFields[1]}, words: "not of type ssh-rsa"},
		{name: "an SSH key is of SHA-1 times", sign: withSSH(ed, "git"), keys: []string{"ssh-dss AAAA"}, words: "keys of type ssh-dss are not believed"},
		{name: "an SSH key is an authority", sign: withSSH(ed, "git"), keys: []string{"*@example.org cert-authority " + edKey}, words: "cert-authority is not supported"},
		{name: "an SSH key is an authority without principals", sign: withSSH(ed, "git"), keys: []string{"cert-authority " + edKey}, words: "options of an authorized_keys file"},
		{name: "an SSH key has options of a login", sign: withSSH(ed, "git"), keys: []string{`from="10.0.0.0/8" ` + edKey}, words: "options of an authorized_keys file"},
		{name: "an SSH key has an unknown option", sign: withSSH(ed, "git"), keys: []string{"jane verify-required " + edKey}, words: `the option "verify-required" is not understood`},
		{name: "an SSH key is for files", sign: withSSH(ed, "git"), keys: []string{`jane namespaces="file" ` + edKey}, words: `does not name "git"`},
		{name: "an SSH key is for all but git", sign: withSSH(ed, "git"), keys: []string{`jane namespaces="*,!git" ` + edKey}, words: `leaves out "git"`},
		{name: "an SSH key has a time that is none", sign: withSSH(ed, "git"), keys: []string{"jane valid-after=tomorrow " + edKey}, words: `the time "tomorrow" is not understood`},
	}
	r := newRepository(t)
	tree := r.files(map[string]string{"fn.js": "1"})
	s := newGitServer(t, r, nil)
	c := newClient(t)
	for i, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			g := NewWithT(t)
			build := row.commit
			if build == nil {
				build = signedCommit
			}
			branch := fmt.Sprintf("row-%d", i)
			commit := r.write("commit", build(t, rawCommit(tree), row.sign), "refs/heads/"+branch)
			var keys [][]byte
			for _, key := range row.keys {
				keys = append(keys, []byte(key))
			}
			got, err := c.Resolve(t.Context(), s.repo(), gitsource.Selection{Reference: branch, Verification: gitsource.Verification{Mode: gitsource.VerifyHEAD, Keys: keys}}, 0)
			if row.words != "" {
				g.Expect(err).To(MatchError(gitsource.ErrUnverified))
				g.Expect(err).To(MatchError(ContainSubstring(row.words)))
				g.Expect(got).To(BeZero())
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got.Commit).To(Equal(commit))
			g.Expect(got.Tree).To(Equal(tree))
			g.Expect(got.Signer).To(Equal(row.signer))
		})
	}
}

func TestTagsAreVerified(t *testing.T) {
	t.Parallel()
	jane, mallory := newOpenPGP(t, "Jane"), newOpenPGP(t, "Mallory")
	ed, edLine := newSSH(t, "ed25519", "joe@example")
	keys := [][]byte{publicKey(t, jane), []byte(edLine)}
	janes, joes := "OpenPGP "+jane.PrimaryKey.KeyIdString()+" (Jane <jane@example.org>)", "SSH "+strings.Fields(fingerprint(t, ed))[1]+" (joe@example)"

	r := newRepository(t)
	tree := r.files(map[string]string{"fn.js": "1"})
	byJane := r.write("commit", signedCommit(t, rawCommit(tree), withOpenPGP(jane)), "refs/heads/main")
	unsigned := r.write("commit", rawCommit(tree), "refs/heads/unsigned")
	r.write("tag", signedTag(t, rawTag(byJane, "commit", "v1.0.0"), withOpenPGP(jane)), "refs/tags/v1.0.0")
	signedUnsigned := r.write("tag", signedTag(t, rawTag(unsigned, "commit", "v1.1.0"), withSSH(ed, "git")), "refs/tags/v1.1.0")
	byJoe := r.write("tag", signedTag(t, rawTag(byJane, "commit", "v1.2.0"), withSSH(ed, "git")), "refs/tags/v1.2.0")
	r.run("", "update-ref", "refs/tags/v2.0.0", byJoe)
	r.write("tag", rawTag(byJane, "commit", "v1.3.0"), "refs/tags/v1.3.0")
	r.run("", "update-ref", "refs/tags/light", byJane)
	r.write("tag", signedTag(t, rawTag(signedUnsigned, "tag", "outer"), withOpenPGP(jane)), "refs/tags/outer")
	r.write("tag", rawTag(byJoe, "tag", "unsigned-outer"), "refs/tags/unsigned-outer")
	r.write("tag", strings.Replace(signedTag(t, rawTag(byJane, "commit", "moved"), withOpenPGP(jane)), byJane, unsigned, 1), "refs/tags/moved")
	r.write("tag", signedTag(t, rawTag(byJane, "commit", "foreign"), withOpenPGP(mallory)), "refs/tags/foreign")
	r.write("tag", signedTag(t, rawTag(byJane, "commit", "main"), withOpenPGP(jane)), "refs/tags/main")
	r.write("tag", signedTag(t, rawTag(byJane, "commit", "more"), withOpenPGP(jane))+"and more\n", "refs/tags/more")
	r.write("tag", signedTag(t, rawTag(byJane, "commit", "team/v1"), withSSH(ed, "git")), "refs/tags/team/v1")
	rows := []struct {
		name, reference string
		mode            gitsource.VerificationMode
		commit, signer  string
		words           string
	}{
		{name: "the tag is signed", reference: "v1.0.0", mode: gitsource.VerifyTag, commit: byJane, signer: janes},
		{name: "the tag of an unsigned commit is signed", reference: "v1.1.0", mode: gitsource.VerifyTag, commit: unsigned, signer: joes},
		{name: "a tag with slashes is signed", reference: "team/v1", mode: gitsource.VerifyTag, commit: byJane, signer: joes},
		{name: "the tag of a tag is signed", reference: "outer", mode: gitsource.VerifyTag, commit: unsigned, signer: janes},
		{name: "the tag of a range is signed", reference: "semver:~1.2", mode: gitsource.VerifyTag, commit: byJane, signer: joes},
		{name: "one key signed both", reference: "v1.0.0", mode: gitsource.VerifyTagAndHEAD, commit: byJane, signer: janes},
		{name: "two keys signed", reference: "v1.2.0", mode: gitsource.VerifyTagAndHEAD, commit: byJane, signer: "tag: " + joes + "; commit: " + janes},
		{name: "the commit alone is wanted", reference: "v1.3.0", mode: gitsource.VerifyHEAD, commit: byJane, signer: janes},
		{name: "the commit is named by its id", reference: byJane, mode: gitsource.VerifyHEAD, commit: byJane, signer: janes},
		{name: "a full name leads past a branch", reference: "refs/tags/main", mode: gitsource.VerifyTag, commit: byJane, signer: janes},

		{name: "the commit below a signed tag is not signed", reference: "v1.1.0", mode: gitsource.VerifyTagAndHEAD, words: "verify commit " + unsigned + ": it is not signed"},
		{name: "the tag is not signed", reference: "v1.3.0", mode: gitsource.VerifyTag, words: "verify tag v1.3.0: it is not signed"},
		{name: "the tag of a signed tag is not signed", reference: "unsigned-outer", mode: gitsource.VerifyTag, words: "verify tag unsigned-outer: it is not signed"},
		{name: "the tag is light", reference: "light", mode: gitsource.VerifyTag, words: "verify tag light: it is not an annotated tag"},
		{name: "the tag is served under another name", reference: "v2.0.0", mode: gitsource.VerifyTag, words: "the tag that was signed is named v1.2.0"},
		{name: "the tag is served as the highest of a range", reference: "semver:^2", mode: gitsource.VerifyTagAndHEAD, words: "the tag that was signed is named v1.2.0"},
		{name: "the tag was moved", reference: "moved", mode: gitsource.VerifyTag, words: "the signature does not fit the content"},
		{name: "another key signed the tag", reference: "foreign", mode: gitsource.VerifyTag, words: mallory.PrimaryKey.KeyIdString() + ", which is not among the trusted keys"},
		{name: "something is behind the signature", reference: "more", mode: gitsource.VerifyTag, words: "cannot be read"},
		{name: "a branch is no tag", reference: "main", mode: gitsource.VerifyTag, words: "mode Tag wants a signed tag, and main is a branch"},
		{name: "a commit is no tag", reference: byJane, mode: gitsource.VerifyTagAndHEAD, words: "mode TagAndHEAD wants a signed tag, and the reference is none"},
		{name: "HEAD is no tag", reference: "HEAD", mode: gitsource.VerifyTag, words: "and the reference is none"},
		{name: "a mode is none", reference: "main", mode: "Everything", words: `no mode "Everything"`},
	}
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			r.config("uploadpack.allowFilter", "true")
			r.config("uploadpack.allowAnySHA1InWant", "false")
			for key, value := range way.config {
				r.config(key, value)
			}
			s := newGitServer(t, r, way.before)
			for _, row := range rows {
				g := NewWithT(t)
				c := newClient(t)
				got, err := c.Resolve(t.Context(), s.repo(), gitsource.Selection{Reference: row.reference, Verification: gitsource.Verification{Mode: row.mode, Keys: keys}}, time.Hour)
				if row.words != "" {
					g.Expect(err).To(MatchError(gitsource.ErrUnverified), row.name)
					g.Expect(err).To(MatchError(ContainSubstring(row.words)), row.name)
					continue
				}
				g.Expect(err).NotTo(HaveOccurred(), row.name)
				g.Expect(got.Commit).To(Equal(row.commit), row.name)
				g.Expect(got.Signer).To(Equal(row.signer), row.name)
			}
		})
	}
}

// fingerprint is what ssh-keygen says of a key.
func fingerprint(t testing.TB, file string) string {
	t.Helper()
	out, err := exec.Command("ssh-keygen", "-l", "-f", file+".pub").Output()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return string(out)
}

func TestWhatGitSignsIsVerified(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"ed25519", "ecdsa", "rsa"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			file, line := newSSH(t, kind, kind+"@example")
			r := newRepository(t)
			r.config("gpg.format", "ssh")
			r.config("user.signingkey", file)
			commit := r.run("", "commit-tree", "-S", r.files(map[string]string{"fn.js": "1"}), "-m", "signed by git")
			r.run("", "update-ref", "refs/heads/main", commit)
			r.run("", "tag", "-s", "v1", "-m", "signed by git", commit)
			s := newGitServer(t, r, nil)
			got, err := newClient(t).Resolve(t.Context(), s.repo(), gitsource.Selection{Reference: "v1",
				Verification: gitsource.Verification{Mode: gitsource.VerifyTagAndHEAD, Keys: [][]byte{[]byte(line)}}}, 0)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got.Commit).To(Equal(commit))
			g.Expect(got.Signer).To(Equal("SSH " + strings.Fields(fingerprint(t, file))[1] + " (" + kind + "@example)"))
		})
	}
}

func TestGoodSignaturesAreRemembered(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	jane, mallory := newOpenPGP(t, "Jane"), newOpenPGP(t, "Mallory")
	r := newRepository(t)
	tree := r.files(map[string]string{"fn.js": "1"})
	r.write("commit", signedCommit(t, rawCommit(tree), withOpenPGP(jane, func(p *openpgp.SignParams) {
		p.Config.SigLifetimeSecs = uint32(4 * 365 * 24 * 3600)
	})), "refs/heads/main")
	s := newGitServer(t, r, nil)
	now := newClock()
	now.now = committed
	c := newClient(t, withClock(now), func(o *gitsource.Options) { o.CacheBytes = 1 }) // no mirror stays
	resolve := func(keys ...[]byte) error {
		_, err := c.Resolve(t.Context(), s.repo(), gitsource.Selection{Reference: "main", Verification: gitsource.Verification{Mode: gitsource.VerifyHEAD, Keys: keys}}, time.Minute)
		return err
	}
	g.Expect(resolve(publicKey(t, jane))).To(Succeed())
	packs := s.count("want ")
	g.Expect(resolve(publicKey(t, jane))).To(Succeed())
	g.Expect(s.count("want ")).To(Equal(packs), "what was verified with these keys is not fetched again")
	g.Expect(resolve(publicKey(t, mallory))).To(MatchError(gitsource.ErrUnverified), "other keys are another question")
	g.Expect(resolve(changed(t, jane, revoke(packet.KeyCompromised, committed)))).To(MatchError(gitsource.ErrUnverified), "a revoked key is another key")
	g.Expect(resolve(publicKey(t, jane))).To(Succeed(), "a failure stands for nothing")
	now.move(5 * 365 * 24 * time.Hour)
	g.Expect(resolve(publicKey(t, jane))).To(MatchError(ContainSubstring("has expired")), "a signature with an end is not remembered past it")
}
