package gitsource

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/idxfile"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/storer"
)

const (
	// packObjects bounds the objects of a pack: go-git keeps about 300 bytes for each while it reads the pack.
	packObjects = 500_000
	// packInflation bounds what a pack inflates to, as a multiple of Limits.PackBytes.
	packInflation = 8
)

// storePack writes a pack into a mirror's directory. A thin pack, whose deltas are of objects in objects, is
// taken apart into files; another is kept with an index.
func storePack(dir string, r io.Reader, thin bool, objects storer.EncodedObjectStorer, limits Limits) (err error) {
	defer func() {
		if p := recover(); p != nil { // go-git has met packs that made it panic
			err = fmt.Errorf("read pack: %w: %v", errProtocol, p)
		}
	}()
	file, err := os.CreateTemp(dir, "incoming-")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	defer file.Close()
	if _, err := io.Copy(file, &capReader{r: r, left: limits.PackBytes, what: "pack"}); err != nil {
		return err
	}
	count, err := inspectPack(file, limits)
	if err != nil || count == 0 {
		return err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if thin {
		// The storage's own lazy writer keeps a file open per object until the pack ends: hide it.
		plain := struct{ storer.EncodedObjectStorer }{objects}
		return malformed(parse(packfile.NewParserWithStorage(packfile.NewScanner(file), plain)))
	}
	return keepPack(dir, file)
}

func parse(parser *packfile.Parser, err error) (plumbing.Hash, error) {
	if err != nil {
		return plumbing.ZeroHash, err
	}
	return parser.Parse()
}

// malformed says of what go-git could not read that the server did not send it whole or right.
func malformed(_ plumbing.Hash, err error) error {
	if err != nil {
		return fmt.Errorf("read pack: %w", err)
	}
	return nil
}

// keepPack indexes a pack and puts both where Git has them, the index last: without it there is no pack.
func keepPack(dir string, file *os.File) error {
	index := &idxfile.Writer{}
	sum, err := parse(packfile.NewParser(packfile.NewScanner(file), index))
	if err != nil {
		return fmt.Errorf("read pack: %w", err)
	}
	entries, err := index.Index()
	if err != nil {
		return err
	}
	var encoded bytes.Buffer
	if _, err := idxfile.NewEncoder(&encoded).Encode(entries); err != nil {
		return err
	}
	packs := filepath.Join(dir, "objects", "pack")
	if err := os.MkdirAll(packs, 0o700); err != nil {
		return err
	}
	base := filepath.Join(packs, "pack-"+sum.String())
	if err := os.Rename(file.Name(), base+".pack"); err != nil {
		return err
	}
	return os.WriteFile(base+".idx", encoded.Bytes(), 0o600)
}

// inspectPack reads a pack once without keeping anything, before go-git does, which inflates each object into memory as
// large as it says it is.
func inspectPack(file *os.File, limits Limits) (count uint32, err error) {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return 0, err
	}
	scanner := packfile.NewScanner(file)
	_, count, err = scanner.Header()
	switch {
	case err != nil:
		return 0, incomplete(err)
	case count > packObjects:
		return 0, errorf(ErrTooLarge, "pack has %d objects, more than %d", count, packObjects)
	}
	var total int64
	for range count {
		size, err := inspectObject(scanner, limits.FileBytes)
		if err != nil {
			return 0, err
		}
		if total += size; total > packInflation*limits.PackBytes {
			return 0, errorf(ErrTooLarge, "pack inflates to more than %d bytes", packInflation*limits.PackBytes)
		}
	}
	return count, nil
}

// inspectObject returns how large the next object is once its deltas are applied.
func inspectObject(scanner *packfile.Scanner, limit int64) (int64, error) {
	header, err := scanner.NextObjectHeader()
	if err != nil {
		return 0, incomplete(err)
	}
	if header.Length > limit {
		return 0, errorf(ErrTooLarge, "an object of %d bytes is larger than the limit of %d for a file", header.Length, limit)
	}
	head := &headWriter{}
	if _, _, err := scanner.NextObject(head); err != nil {
		return 0, incomplete(err)
	}
	if !header.Type.IsDelta() {
		return header.Length, nil
	}
	_, n := binary.Uvarint(head.data) // of the base
	if n <= 0 {
		return 0, fmt.Errorf("read delta: %w", errProtocol)
	}
	size, m := binary.Uvarint(head.data[n:])
	if m <= 0 {
		return 0, fmt.Errorf("read delta: %w", errProtocol)
	}
	if size > uint64(limit) {
		return 0, errorf(ErrTooLarge, "an object of %d bytes is larger than the limit of %d for a file", size, limit)
	}
	return int64(size), nil
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
