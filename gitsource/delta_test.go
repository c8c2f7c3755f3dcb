package gitsource

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/storage/filesystem"
	. "github.com/onsi/gomega"
)

// packOf writes a pack by hand: what git would not write is what matters here.
type packOf struct {
	objects [][]byte
	offsets []int64
	size    int64
}

func (p *packOf) add(kind plumbing.ObjectType, length int, between, content []byte) int64 {
	if p.size == 0 {
		p.size = 12
	}
	var raw bytes.Buffer
	first := byte(kind)<<4 | byte(length&15)
	for length >>= 4; length > 0; length >>= 7 {
		raw.WriteByte(first | 0x80)
		first = byte(length & 0x7f)
	}
	raw.WriteByte(first)
	raw.Write(between)
	deflate := zlib.NewWriter(&raw)
	_, _ = deflate.Write(content)
	_ = deflate.Close()
	at := p.size
	p.objects, p.offsets, p.size = append(p.objects, raw.Bytes()), append(p.offsets, at), p.size+int64(raw.Len())
	return at
}

// object adds a whole object and returns its id.
func (p *packOf) object(kind plumbing.ObjectType, content []byte) plumbing.Hash {
	p.add(kind, len(content), nil, content)
	return plumbing.ComputeHash(kind, content)
}

// delta adds one of an object with an id.
func (p *packOf) delta(of plumbing.Hash, script []byte) int64 {
	return p.add(plumbing.REFDeltaObject, len(script), of[:], script)
}

func (p *packOf) bytes() []byte {
	raw := binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), uint32(len(p.objects)))
	for _, object := range p.objects {
		raw = append(raw, object...)
	}
	sum := sha1.Sum(raw)
	return append(raw, sum[:]...)
}

// appending is a delta that repeats its base and adds text.
func appending(base int, text string) []byte {
	script := binary.AppendUvarint(binary.AppendUvarint(nil, uint64(base)), uint64(base+len(text)))
	script = append(script, 0x80|0x01|0x02|0x04|0x08|0x10|0x20|0x40, 0, 0, 0, 0, byte(base), byte(base>>8), byte(base>>16))
	for len(text) > 0 {
		n := min(len(text), 127)
		script = append(append(script, byte(n)), text[:n]...)
		text = text[n:]
	}
	return script
}

// repeating is a delta that writes the first bytes of its base many times over.
func repeating(base, size, times int) []byte {
	script := binary.AppendUvarint(binary.AppendUvarint(nil, uint64(base)), uint64(size*times))
	for range times {
		script = append(script, 0x80|0x10|0x20|0x40, byte(size), byte(size>>8), byte(size>>16))
	}
	return script
}

func newStorage(dir string) *filesystem.Storage {
	return filesystem.NewStorage(osfs.New(dir), cache.NewObjectLRU(cache.MiByte))
}

func gitIn(t *testing.T, dir, input string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(input)
	cmd.Env = append(os.Environ(), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git %v: %v", args, err)
	}
	return string(out)
}

// TestTheIndexIsTheOneThatGitWrites compares byte by byte, for packs with deltas of either kind.
func TestTheIndexIsTheOneThatGitWrites(t *testing.T) {
	t.Parallel()
	for _, way := range [][]string{{"--delta-base-offset"}, {"--no-reuse-delta"}, {"--depth=0"}} {
		t.Run(way[0], func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			dir := t.TempDir()
			gitIn(t, dir, "", "init", "--quiet", "--bare", ".")
			random := rand.New(rand.NewPCG(1, 2))
			var text, stream strings.Builder
			for i := range 60 {
				for range 30 {
					fmt.Fprintf(&text, "%x\n", random.Uint64())
				}
				fmt.Fprintf(&stream, "commit refs/heads/main\ncommitter A <a@b> %d +0000\ndata 1\nx\nM 100644 inline f%d\ndata %d\n%s\n", i, i%7, text.Len(), &text)
			}
			gitIn(t, dir, stream.String(), "fast-import", "--quiet")
			ids := gitIn(t, dir, "", "rev-list", "--objects", "main")
			content := gitIn(t, dir, ids, append([]string{"pack-objects", "--stdout", "--quiet", "--window=50"}, way...)...)

			ours, theirs := t.TempDir(), filepath.Join(t.TempDir(), "git.pack")
			g.Expect(storePack(ours, strings.NewReader(content), false, nil, Limits{}.withDefaults())).To(Succeed())
			g.Expect(os.WriteFile(theirs, []byte(content), 0o600)).To(Succeed())
			gitIn(t, dir, "", "index-pack", theirs)
			want, err := os.ReadFile(strings.TrimSuffix(theirs, ".pack") + ".idx")
			g.Expect(err).NotTo(HaveOccurred())
			indexes, err := filepath.Glob(filepath.Join(ours, "objects", "pack", "*.idx"))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(indexes).To(HaveLen(1))
			got, err := os.ReadFile(indexes[0])
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(bytes.Equal(got, want)).To(BeTrue())
			left, err := filepath.Glob(filepath.Join(ours, "incoming-*"))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(left).To(BeEmpty())
			storage := newStorage(ours)
			for line := range strings.Lines(ids) {
				id := plumbing.NewHash(line[:40])
				object, err := storage.EncodedObject(plumbing.AnyObject, id)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(object.Hash()).To(Equal(id))
			}
		})
	}
}

// TestDeltasInAnyOrder has every delta before its base, twice each, as git never writes them.
func TestDeltasInAnyOrder(t *testing.T) {
	t.Parallel()
	for _, thin := range []bool{false, true} {
		t.Run(fmt.Sprint("thin ", thin), func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			const length = 60
			versions := []string{"begin"}
			for i := range length {
				versions = append(versions, versions[i]+fmt.Sprintf(" %d", i))
			}
			dir := t.TempDir()
			storage := newStorage(dir)
			p := &packOf{}
			id := func(i int) plumbing.Hash { return plumbing.ComputeHash(plumbing.BlobObject, []byte(versions[i])) }
			for i := length; i > 0; i-- {
				for range 2 {
					p.delta(id(i-1), appending(len(versions[i-1]), versions[i][len(versions[i-1]):]))
				}
			}
			if thin {
				base := &plumbing.MemoryObject{}
				base.SetType(plumbing.BlobObject)
				_, _ = base.Write([]byte(versions[0]))
				_, err := storage.SetEncodedObject(base)
				g.Expect(err).NotTo(HaveOccurred())
			} else {
				p.object(plumbing.BlobObject, []byte(versions[0]))
			}
			g.Expect(storePack(dir, bytes.NewReader(p.bytes()), thin, storage, Limits{}.withDefaults())).To(Succeed())
			storage = newStorage(dir)
			for i := range versions {
				object, err := storage.EncodedObject(plumbing.BlobObject, id(i))
				g.Expect(err).NotTo(HaveOccurred(), "version %d", i)
				g.Expect(object.Hash()).To(Equal(id(i)))
			}
		})
	}
}

func TestPacksThatAreRefused(t *testing.T) {
	t.Parallel()
	limits := Limits{}.withDefaults()
	zeros := make([]byte, 1<<20)
	rows := []struct {
		name  string
		write func(p *packOf)
		after func(raw []byte) []byte
		err   error
	}{
		{name: "a delta without a base", write: func(p *packOf) { p.delta(plumbing.ComputeHash(plumbing.BlobObject, nil), appending(0, "x")) }, err: errProtocol},
		{name: "a delta of what is not at that offset", write: func(p *packOf) {
			p.object(plumbing.BlobObject, []byte("base"))
			p.add(plumbing.OFSDeltaObject, len(appending(4, "x")), []byte{3}, appending(4, "x"))
		}, err: errProtocol},
		{name: "a delta that does not fit its base", write: func(p *packOf) {
			p.delta(p.object(plumbing.BlobObject, []byte("base")), appending(5, "x"))
		}, err: errProtocol},
		{name: "a wrong checksum", write: func(p *packOf) { p.object(plumbing.BlobObject, []byte("base")) }, after: func(raw []byte) []byte {
			raw[len(raw)-1] ^= 1
			return raw
		}, err: errProtocol},
		{name: "an object shorter than it says", write: func(p *packOf) { p.add(plumbing.BlobObject, 9, nil, []byte("base")) }, err: errProtocol},
		{name: "an object longer than it says", write: func(p *packOf) { p.add(plumbing.BlobObject, 3, nil, []byte("base")) }, err: errProtocol},
		{name: "a directory that is too large", write: func(p *packOf) { p.object(plumbing.TreeObject, make([]byte, metaBytes+1)) }, err: ErrTooLarge},
		{name: "a commit that deltas make too large", write: func(p *packOf) {
			p.delta(p.object(plumbing.CommitObject, zeros), repeating(len(zeros), len(zeros), 9))
		}, err: ErrTooLarge},
		{name: "a file that deltas make too large", write: func(p *packOf) {
			p.delta(p.object(plumbing.BlobObject, zeros), repeating(len(zeros), len(zeros), 65))
		}, err: ErrTooLarge},
		{name: "bases that are all needed at once", write: func(p *packOf) {
			at := p.object(plumbing.BlobObject, zeros)
			content := zeros
			for i := range 40 { // each has a leaf, so that it must stay
				next := bytes.Repeat(zeros, 8)
				script := append(repeating(len(content), len(zeros), 8), 1, byte(i))
				script = append(binary.AppendUvarint(binary.AppendUvarint(nil, uint64(len(content))), uint64(len(next)+1)), script[len(binary.AppendUvarint(binary.AppendUvarint(nil, uint64(len(content))), uint64(len(next)))):]...)
				next = append(next, byte(i))
				p.delta(at, script)
				p.delta(at, appending(len(content), "leaf"))
				at, content = plumbing.ComputeHash(plumbing.BlobObject, next), next
			}
		}, err: ErrTooLarge},
		{name: "deltas that are large together", write: func(p *packOf) {
			at, content := p.object(plumbing.BlobObject, zeros), zeros
			text := strings.Repeat("x", 6<<20)
			for range 14 { // each throws away what the last one wrote
				script := binary.AppendUvarint(binary.AppendUvarint(nil, uint64(len(content))), uint64(len(text)+1))
				for rest := text + "y"; len(rest) > 0; {
					n := min(len(rest), 127)
					script, rest = append(append(script, byte(n)), rest[:n]...), rest[n:]
				}
				p.delta(at, script)
				content = []byte(text + "y")
				at = plumbing.ComputeHash(plumbing.BlobObject, content)
				text += "z"
			}
		}, err: ErrTooLarge},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			p := &packOf{}
			row.write(p)
			raw := p.bytes()
			if row.after != nil {
				raw = row.after(raw)
			}
			dir := t.TempDir()
			err := storePack(dir, bytes.NewReader(raw), false, nil, limits)
			g.Expect(err).To(MatchError(row.err))
			t.Log(err)
			left, err := filepath.Glob(filepath.Join(dir, "*"))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(left).To(BeEmpty(), "nothing half is left")
		})
	}
}

func FuzzStorePack(f *testing.F) {
	p := &packOf{}
	base := p.object(plumbing.BlobObject, []byte("base"))
	p.delta(base, appending(4, "more"))
	p.add(plumbing.OFSDeltaObject, len(appending(4, "x")), []byte{byte(p.size - p.offsets[0])}, appending(4, "x"))
	f.Add(p.bytes())
	f.Add([]byte("PACK"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		limits := Limits{PackBytes: 1 << 20, FileBytes: 1 << 20}.withDefaults()
		dir := t.TempDir()
		// With a right checksum more is read.
		if len(raw) > 20 {
			sum := sha1.Sum(raw[:len(raw)-20])
			copy(raw[len(raw)-20:], sum[:])
		}
		if storePack(dir, bytes.NewReader(raw), false, nil, limits) != nil {
			return
		}
		packs, err := filepath.Glob(filepath.Join(dir, "objects", "pack", "*.pack"))
		if err != nil || len(packs) == 0 {
			return
		}
		iter, err := newStorage(dir).IterEncodedObjects(plumbing.AnyObject)
		if err != nil {
			t.Fatal(err)
		}
		if err := iter.ForEach(func(o plumbing.EncodedObject) error { return nil }); err != nil {
			t.Fatalf("a pack that was kept cannot be read: %v", err)
		}
	})
}
