package gitsource

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"encoding/binary"
	"io"
	"math"
	"slices"
)

// writeIndex writes the index of a resolved pack, version 2 of gitformat-pack(5): how often each first byte of an id
// comes, then ids, checksums and offsets in the order of the ids, and large offsets apart.
func (p *pack) writeIndex(to io.Writer) error {
	objects := slices.SortedFunc(slices.Values(p.objects), func(a, b packedObject) int { return bytes.Compare(a.id[:], b.id[:]) })
	objects = slices.CompactFunc(objects, func(a, b packedObject) bool { return a.id == b.id })
	sum := sha1.New()
	buffered := bufio.NewWriter(to)
	w := &indexWriter{to: io.MultiWriter(buffered, sum)}
	w.write([]byte{0xff, 't', 'O', 'c', 0, 0, 0, 2})
	var upTo [256]uint32
	for _, o := range objects {
		upTo[o.id[0]]++
	}
	var total uint32
	for _, n := range upTo {
		total += n
		w.number(total)
	}
	for _, o := range objects {
		w.write(o.id[:])
	}
	for _, o := range objects {
		w.number(o.crc)
	}
	var large []byte
	for _, o := range objects {
		if o.offset <= math.MaxInt32 {
			w.number(uint32(o.offset))
			continue
		}
		w.number(1<<31 | uint32(len(large)/8))
		large = binary.BigEndian.AppendUint64(large, uint64(o.offset))
	}
	w.write(large)
	w.write(p.sum[:])
	w.write(sum.Sum(nil))
	if w.err != nil {
		return w.err
	}
	return buffered.Flush()
}

// indexWriter keeps the first error.
type indexWriter struct {
	to  io.Writer
	err error
}

func (w *indexWriter) write(p []byte) {
	if w.err == nil {
		_, w.err = w.to.Write(p)
	}
}

func (w *indexWriter) number(n uint32) {
	var encoded [4]byte
	binary.BigEndian.PutUint32(encoded[:], n)
	w.write(encoded[:])
}
