package gitsource

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
)

// entry is one row of a Git tree. Its mode is one of the five that Git writes today.
type entry struct {
	mode filemode.FileMode
	id   plumbing.Hash
	name string
}

// sortName is what Git sorts a directory by: as if the names of directories ended in a slash.
func (e entry) sortName() string {
	if e.mode == filemode.Dir {
		return e.name + "/"
	}
	return e.name
}

// eachEntry reads one directory row by row, until visit wants no more. It never holds more than one row, and refuses
// what Git would not write: go-git's own decoder takes every mode that it does not know for a submodule, and any order.
func eachEntry(from objectReader, id plumbing.Hash, visit func(entry) (more bool, err error)) error {
	encoded, err := read(from, plumbing.TreeObject, id)
	if err != nil {
		return err
	}
	if encoded.Type() != plumbing.TreeObject {
		return errorf(ErrUnsafeTree, "read tree %s: it is a %s", id, encoded.Type())
	}
	content, err := encoded.Reader()
	if err != nil {
		return fmt.Errorf("read tree %s: %w: %v", id, errBroken, err)
	}
	defer content.Close()
	rows, last := bufio.NewReader(content), ""
	for {
		e, err := readEntry(rows)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return errorf(ErrUnsafeTree, "read tree %s: %v", id, err)
		}
		if last > e.sortName() {
			return errorf(ErrUnsafeTree, "read tree %s: it is malformed: %q is not in Git's order", id, oneLine(e.name, 100))
		}
		last = e.sortName()
		if more, err := visit(e); err != nil || !more {
			return err
		}
	}
}

// rowMost is longer than any row whose name may be used.
const rowMost = 4096

var errRow = errors.New("it is malformed")

// readEntry reads one row: a mode in octal, a space, a name, a zero byte and the 20 bytes of an id. io.EOF is the end.
func readEntry(rows *bufio.Reader) (e entry, err error) {
	mode, err := readWord(rows, ' ')
	if errors.Is(err, io.EOF) && mode == "" {
		return e, io.EOF
	}
	if err != nil {
		return e, errRow
	}
	if e.name, err = readWord(rows, 0); err != nil {
		return e, errRow
	}
	if _, err := io.ReadFull(rows, e.id[:]); err != nil {
		return e, errRow
	}
	bits, err := strconv.ParseUint(mode, 8, 32)
	if err != nil || bits > 0o177777 {
		return e, errRow
	}
	if e.mode = canonicalMode(uint32(bits)); e.mode == filemode.Empty {
		return e, fmt.Errorf("%q has the unknown mode %o", oneLine(e.name, 100), bits)
	}
	return e, nil
}

// readWord reads up to a byte that ends it.
func readWord(rows *bufio.Reader, end byte) (string, error) {
	var word []byte
	for len(word) <= rowMost {
		b, err := rows.ReadByte()
		if err != nil {
			return string(word), err
		}
		if b == end {
			return string(word), nil
		}
		word = append(word, b)
	}
	return "", errRow
}

// canonicalMode is what Git makes of a mode when it checks a file out: of the permissions only whether it is
// executable counts. Empty is a kind that Git does not have.
func canonicalMode(bits uint32) filemode.FileMode {
	switch bits & 0o170000 {
	case 0o040000:
		return filemode.Dir
	case 0o120000:
		return filemode.Symlink
	case 0o160000:
		return filemode.Submodule
	case 0o100000:
		if bits&0o100 != 0 {
			return filemode.Executable
		}
		return filemode.Regular
	}
	return filemode.Empty
}

// readEntries reads a directory of at most so many rows.
func readEntries(from objectReader, id plumbing.Hash, most int) (entries []entry, err error) {
	err = eachEntry(from, id, func(e entry) (bool, error) {
		if len(entries) >= most {
			return false, errorf(ErrTooLarge, "read tree: there are more than %d files and directories", most)
		}
		entries = append(entries, e)
		return true, nil
	})
	return entries, err
}

// findEntry looks for a name in a directory, however large it is.
func findEntry(from objectReader, id plumbing.Hash, name string) (found entry, ok bool, err error) {
	err = eachEntry(from, id, func(e entry) (bool, error) {
		if e.name == name {
			found, ok = e, true
		}
		return !ok, nil
	})
	return found, ok, err
}

// writeEntries makes the Git tree of some rows and returns its id.
func writeEntries(objects memoryObjects, entries []entry) plumbing.Hash {
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.sortName(), b.sortName()) })
	var content bytes.Buffer
	for _, e := range entries {
		fmt.Fprintf(&content, "%o %s\x00", uint32(e.mode), e.name)
		content.Write(e.id[:])
	}
	return objects.add(plumbing.TreeObject, content.Bytes())
}
