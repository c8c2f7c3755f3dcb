package gitsource

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/storage/filesystem"
	. "github.com/onsi/gomega"
)

// packed is a pack whose header claims count objects.
func packed(count uint32, objects ...string) []byte {
	var b bytes.Buffer
	b.WriteString("PACK\x00\x00\x00\x02")
	_ = binary.Write(&b, binary.BigEndian, count)
	b.WriteString(strings.Join(objects, ""))
	sum := sha1.Sum(b.Bytes())
	b.Write(sum[:])
	return b.Bytes()
}

// packObject is an object of a pack that claims a size. The base is what stands between header and content of a delta.
func packObject(kind plumbing.ObjectType, claims int, base, content string) string {
	var b bytes.Buffer
	first := byte(kind)<<4 | byte(claims&0xf)
	for claims >>= 4; claims > 0; claims >>= 7 {
		b.WriteByte(first | 0x80)
		first = byte(claims & 0x7f)
	}
	b.WriteByte(first)
	b.WriteString(base)
	z := zlib.NewWriter(&b)
	_, _ = io.WriteString(z, content)
	_ = z.Close()
	return b.String()
}

// size is a number as a delta begins with two of them.
func size(n uint64) string { return string(binary.AppendUvarint(nil, n)) }

func TestPackBombs(t *testing.T) {
	t.Parallel()
	const limit = 1 << 20
	zeros := strings.Repeat("\x00", 64<<20)
	base := strings.Repeat("b", 1000)
	blob := packObject(plumbing.BlobObject, len(base), "", base)
	back := string([]byte{byte(len(blob))}) // the delta's base lies that far before it
	wholeBase := "\xb0\xe8\x03"             // copies 1000 bytes from the beginning
	delta := func(claims uint64, copies int) string {
		text := size(1000) + size(claims) + strings.Repeat(wholeBase, copies)
		return packObject(plumbing.OFSDeltaObject, len(text), back, text)
	}
	rows := []struct {
		name string
		pack []byte
		err  error // nil: it is fine
	}{
		{name: "a delta as it should be", pack: packed(2, blob, delta(3000, 3))},
		{name: "an object that says that it is large", pack: packed(1, packObject(plumbing.BlobObject, limit+1, "", "x")), err: ErrTooLarge},
		{name: "an object that says that it is larger than anything", pack: packed(1, packObject(plumbing.BlobObject, 1<<60, "", "x")), err: errProtocol},
		{name: "an object that says that it is a terabyte", pack: packed(1, packObject(plumbing.BlobObject, 1<<40, "", "x")), err: ErrTooLarge},
		{name: "an object that is larger than it says", pack: packed(1, packObject(plumbing.BlobObject, 10, "", zeros)), err: errProtocol},
		{name: "a tree that is larger than it says", pack: packed(1, packObject(plumbing.TreeObject, 10, "", zeros)), err: errProtocol},
		{name: "objects that are large together", pack: packed(100, strings.Repeat(packObject(plumbing.BlobObject, limit, "", zeros[:limit]), 100)), err: ErrTooLarge},
		{name: "a delta that says that it makes much", pack: packed(2, blob, delta(limit+1, 1)), err: ErrTooLarge},
		{name: "a delta that makes more than it says", pack: packed(2, blob, delta(10, 100_000)), err: io.ErrUnexpectedEOF},
		{name: "a delta that makes less than it says", pack: packed(2, blob, delta(limit, 1)), err: io.ErrUnexpectedEOF},
		{name: "more objects than may be", pack: packed(packObjects+1, blob), err: ErrTooLarge},
		{name: "fewer objects than it says", pack: packed(1000, blob), err: io.ErrUnexpectedEOF},
		{name: "bytes behind the end", pack: append(packed(1, blob), zeros[:10*limit]...), err: ErrTooLarge},
	}
	for _, row := range rows {
		for _, thin := range []bool{false, true} {
			t.Run(row.name+map[bool]string{true: ", thin"}[thin], func(t *testing.T) {
				t.Parallel()
				g := NewWithT(t)
				dir := t.TempDir()
				storage := filesystem.NewStorage(osfs.New(dir), cache.NewObjectLRUDefault())
				err := storePack(dir, bytes.NewReader(row.pack), thin, storage, Limits{PackBytes: 4 << 20, FileBytes: limit})
				if row.err == nil {
					g.Expect(err).NotTo(HaveOccurred())
					return
				}
				g.Expect(err).To(HaveOccurred())
				if row.err != io.ErrUnexpectedEOF { // go-git's own words
					g.Expect(err).To(MatchError(row.err))
				}
				g.Expect(filepath.Glob(filepath.Join(dir, "incoming-*"))).To(BeEmpty())
				g.Expect(filepath.Glob(filepath.Join(dir, "objects", "pack", "*"))).To(BeEmpty())
			})
		}
	}
}
