package gitsource

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"
)

// The seeds of these are in testdata/fuzz, and so is what was ever found.

func FuzzPackets(f *testing.F) {
	f.Fuzz(func(t *testing.T, answer []byte) {
		packets := &packetReader{r: bytes.NewReader(answer)}
		for read := 0; ; {
			kind, data, err := packets.next()
			if err != nil {
				break
			}
			if read += 4 + len(data); read > len(answer) || len(data) > pktline.OversizePayloadMax || kind != packetData && len(data) > 0 {
				t.Fatalf("packet %d of %d bytes out of %d", kind, len(data), len(answer))
			}
		}
		pack, _ := io.ReadAll(&bandReader{packets: &packetReader{r: bytes.NewReader(answer)}})
		if len(pack) > len(answer) {
			t.Fatalf("%d bytes out of %d", len(pack), len(answer))
		}
		for _, able := range []abilities{{version: 2}, {words: map[string]string{"side-band-64k": ""}}, {}} {
			if r, err := packReader(bytes.NewReader(answer), able); err == nil {
				_, _ = io.Copy(io.Discard, r)
			}
		}
	})
}

func FuzzSSHSignature(f *testing.F) {
	f.Fuzz(func(t *testing.T, text []byte) {
		signature, err := readSSHSignature(text)
		if err == nil && (signature.PublicKey == nil || signature.Signature == nil) {
			t.Fatal("half a signature")
		}
		keys := &trust{}
		if err == nil {
			keys.ssh = []sshKey{{PublicKey: signature.PublicKey}}
		}
		if signer, err := keys.checkSSH(signed{what: "commit", payload: []byte("never signed"), signature: text}); err == nil {
			t.Fatalf("%s signed what nobody signed", signer)
		}
	})
}

func FuzzOpenPGPSignature(f *testing.F) {
	f.Fuzz(func(t *testing.T, text []byte) {
		signature, err := readOpenPGPSignature(text)
		if err == nil && signature.IssuerKeyId == nil {
			t.Fatal("a signature of nobody")
		}
		if signer, _, err := (&trust{}).checkOpenPGP(signed{what: "commit", signature: text}, time.Unix(0, 0)); err == nil {
			t.Fatalf("%s is not trusted", signer)
		}
	})
}

func FuzzTrustedKeys(f *testing.F) {
	f.Fuzz(func(t *testing.T, file []byte) {
		keys, err := readTrust([][]byte{file})
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\x00") {
				t.Fatalf("the sentence is %q", err)
			}
			return
		}
		if len(keys.openpgp)+len(keys.ssh) == 0 {
			t.Fatal("no keys")
		}
		for _, key := range keys.ssh {
			if !sshTypes[key.Type()] || strings.ContainsAny(key.signer(), "\n\x00") {
				t.Fatalf("trusts %s", key.signer())
			}
		}
		for _, key := range keys.openpgp {
			if key.PrivateKey != nil || strings.ContainsAny(key.signer(time.Now(), key.PrimaryKey.KeyId), "\n\x00") {
				t.Fatalf("trusts %s", key.signer(time.Now(), key.PrimaryKey.KeyId))
			}
		}
	})
}

func FuzzSignedObjects(f *testing.F) {
	f.Fuzz(func(t *testing.T, raw []byte) {
		if commit, err := readSignedCommit(raw, "commit"); err == nil {
			if len(commit.signature) == 0 && !bytes.Equal(commit.payload, raw) {
				t.Fatalf("%q is not what is signed of %q", commit.payload, raw)
			}
			header, _, _ := bytes.Cut(commit.payload, []byte("\n\n"))
			if len(commit.payload) > len(raw) || bytes.Contains(header, []byte("\ngpgsig")) {
				t.Fatalf("%q is signed of %q", commit.payload, raw)
			}
		}
		if tag, err := readTag(raw, "tag"); err == nil && !bytes.Equal(append(bytes.Clone(tag.payload), tag.signature...), raw) {
			t.Fatalf("%q and %q are not %q", tag.payload, tag.signature, raw)
		}
	})
}
