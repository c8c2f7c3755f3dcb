package gitsource

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/storer"
)

const (
	// packObjects bounds the objects of a pack: about 100 bytes are kept for each while the pack is read.
	packObjects = 500_000
	// packInflation bounds what a pack inflates to, as a multiple of Limits.PackBytes.
	packInflation = 8
	// metaBytes bounds commits, tags and single directories, which are read into memory: such a directory has more than
	// a hundred thousand entries.
	metaBytes = 8 << 20
)

// storePack writes a pack into a mirror's directory. A thin pack, whose deltas are of objects in objects, is
// taken apart into files; another is kept with an index.
func storePack(dir string, r io.Reader, thin bool, objects storer.EncodedObjectStorer, limits Limits) (err error) {
	defer func() {
		if p := recover(); p != nil { // go-git has met packs that made it panic
			err = fmt.Errorf("read pack: %w: %v", errProtocol, p)
		}
		err = diskError(err)
	}()
	file, err := os.CreateTemp(dir, "incoming-")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	defer file.Close()
	if _, err := io.Copy(file, &capReader{r: r, left: limits.PackBytes, what: fmt.Sprintf("a pack of more than %d bytes", limits.PackBytes)}); err != nil {
		return err
	}
	p, err := scanPack(file, limits)
	if err != nil || len(p.objects) == 0 {
		return err
	}
	if !thin {
		if err := p.resolve(nil, nil); err != nil {
			return err
		}
		return keepPack(dir, file, p)
	}
	return p.resolve(objects, func(kind plumbing.ObjectType, content []byte) error {
		object := &plumbing.MemoryObject{}
		object.SetType(kind)
		if _, err := object.Write(content); err != nil {
			return err
		}
		_, err := objects.SetEncodedObject(object)
		return err
	})
}

// diskError makes a failure of the disk one that passes, without the names of files. Where the mirror was removed, a new
// one cures it.
func diskError(err error) error {
	var failed *os.PathError
	var renamed *os.LinkError
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return &UnavailableError{Err: errDiskFull}
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("keep objects: %w: its directory is gone", errBroken)
	case errors.As(err, &failed):
		return &UnavailableError{Err: fmt.Errorf("keep objects: %w", failed.Err)}
	case errors.As(err, &renamed):
		return &UnavailableError{Err: fmt.Errorf("keep objects: %w", renamed.Err)}
	}
	return err
}

var errDiskFull = errors.New("keep objects: the disk that holds the mirrors is full")

// keepPack puts a pack and its index where Git has them, the index last: without it there is no pack.
func keepPack(dir string, file *os.File, p *pack) (err error) {
	packs := filepath.Join(dir, "objects", "pack")
	if err := os.MkdirAll(packs, 0o700); err != nil {
		return err
	}
	index, err := os.CreateTemp(dir, "incoming-")
	if err != nil {
		return err
	}
	defer os.Remove(index.Name())
	err = p.writeIndex(index)
	if closed := index.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	base := filepath.Join(packs, "pack-"+p.sum.String())
	if err := os.Rename(file.Name(), base+".pack"); err != nil {
		return err
	}
	return os.Rename(index.Name(), base+".idx")
}

// pack is what is learned of a pack: nothing that grows with the size of its objects.
type pack struct {
	scanner *packfile.Scanner
	limits  Limits
	objects []packedObject // in the order of the pack
	sum     plumbing.Hash
	// byOffset and byID are the deltas, sorted by the base that they name in one or the other way.
	byOffset, byID []delta
}

// packedObject is one object of a pack. A delta has no id until it is resolved.
type packedObject struct {
	id     plumbing.Hash
	crc    uint32
	offset int64
	kind   plumbing.ObjectType
}

// scanPack reads a pack once, checks its limits and its checksum, and learns the ids of what is no delta. No object
// is in memory meanwhile, however large it says it is.
func scanPack(file *os.File, limits Limits) (*pack, error) {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	p := &pack{scanner: packfile.NewScanner(file), limits: limits}
	_, count, err := p.scanner.Header()
	switch {
	case err != nil:
		return nil, incomplete(err)
	case count > packObjects:
		return nil, errorf(ErrTooLarge, "pack has %d objects, more than %d", count, packObjects)
	}
	var total int64
	for range count {
		size, err := p.scanObject()
		if err != nil {
			return nil, err
		}
		if total += size; total > packInflation*limits.PackBytes {
			return nil, errorf(ErrTooLarge, "pack inflates to more than %d bytes", packInflation*limits.PackBytes)
		}
	}
	if p.sum, err = p.scanner.Checksum(); err != nil {
		return nil, incomplete(err)
	}
	return p, nil
}

// scanObject returns how large the next object is once its deltas are applied.
func (p *pack) scanObject() (int64, error) {
	header, err := p.scanner.NextObjectHeader()
	if err != nil {
		return 0, incomplete(err)
	}
	object := packedObject{offset: header.Offset, kind: header.Type}
	limit := p.limit(header.Type)
	if header.Length > limit {
		return 0, errorf(ErrTooLarge, "%s of %d bytes is larger than the limit of %d", what(header.Type), header.Length, limit)
	}
	size := header.Length
	if header.Type.IsDelta() {
		if object.crc, size, err = p.scanDelta(limit); err != nil {
			return 0, err
		}
		at := delta{at: len(p.objects), base: header.OffsetReference, id: header.Reference}
		if header.Type == plumbing.OFSDeltaObject {
			p.byOffset = append(p.byOffset, at)
		} else {
			p.byID = append(p.byID, at)
		}
	} else {
		hasher := plumbing.NewHasher(header.Type, header.Length)
		var n int64
		if n, object.crc, err = p.scanner.NextObject(hasher); err != nil {
			return 0, incomplete(err)
		}
		if n != header.Length {
			return 0, fmt.Errorf("read object: %w", errProtocol)
		}
		object.id = hasher.Sum()
	}
	p.objects = append(p.objects, object)
	return size, nil
}

// scanDelta reads a delta without keeping it, and returns how large what it makes is.
func (p *pack) scanDelta(limit int64) (crc uint32, size int64, err error) {
	head := &headWriter{}
	if _, crc, err = p.scanner.NextObject(head); err != nil {
		return 0, 0, incomplete(err)
	}
	_, n := binary.Uvarint(head.data) // of the base
	if n <= 0 {
		return 0, 0, fmt.Errorf("read delta: %w", errProtocol)
	}
	target, m := binary.Uvarint(head.data[n:])
	if m <= 0 {
		return 0, 0, fmt.Errorf("read delta: %w", errProtocol)
	}
	if target > uint64(limit) {
		return 0, 0, errorf(ErrTooLarge, "an object of %d bytes is larger than the limit of %d", target, limit)
	}
	return crc, int64(target), nil
}

// limit is how large an object of a kind may be. What a delta makes is only known later.
func (p *pack) limit(kind plumbing.ObjectType) int64 {
	switch kind {
	case plumbing.CommitObject, plumbing.TreeObject, plumbing.TagObject:
		return min(metaBytes, p.limits.FileBytes)
	case plumbing.OFSDeltaObject, plumbing.REFDeltaObject:
		return p.limits.delta()
	}
	return p.limits.FileBytes
}

// what names a kind of object for a person.
func what(kind plumbing.ObjectType) string {
	switch kind {
	case plumbing.TreeObject:
		return "a directory"
	case plumbing.CommitObject, plumbing.TagObject:
		return "a " + kind.String()
	}
	return "a file"
}

// incomplete keeps an end of input apart from bytes that are wrong.
func incomplete(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, packfile.ErrEmptyPackfile) {
		return fmt.Errorf("read pack: %w", io.ErrUnexpectedEOF)
	}
	return fmt.Errorf("read pack: %w: %v", errProtocol, err)
}

// headWriter keeps the first bytes: a delta begins with two sizes.
type headWriter struct{ data []byte }

func (h *headWriter) Write(p []byte) (int, error) {
	if room := 2*binary.MaxVarintLen64 - len(h.data); room > 0 {
		h.data = append(h.data, p[:min(room, len(p))]...)
	}
	return len(p), nil
}
