package gitsource

import (
	"fmt"
	"io"
	"io/fs"
	"sync"

	"github.com/go-git/go-git/v5/plumbing"
)

// Tree is the content of a base directory: what a build sees. It is safe for concurrent use until Close.
type Tree struct {
	// ID is the id of the Git tree, 40 hexadecimal digits.
	ID string
	// Files is every file and symbolic link, sorted by path. Directories are implied.
	Files []File

	mu      sync.Mutex // go-git's storage is not made for two readers
	blobs   map[string]blob
	release func()
}

// blob is where the content of a file is.
type blob struct {
	from objectReader
	id   plumbing.Hash
}

// File is one file of a Tree.
type File struct {
	// Path is below the base directory, with slashes. It is clean: no "..", no empty part, never absolute.
	Path string
	// Size is how many bytes Open gives.
	Size int64
	// Executable is Git's one permission bit.
	Executable bool
	// Symlink is what a symbolic link points to, relative to its directory and inside the tree. Empty for a regular file.
	Symlink string
}

// Open returns the content of a file, which is in memory until the reader is dropped. For a symbolic link it is
// the target's name. A path that is not in Files gives an error that matches fs.ErrNotExist, and so does every
// path after Close.
func (t *Tree) Open(path string) (io.ReadCloser, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at, ok := t.blobs[path]
	if !ok {
		return nil, fmt.Errorf("open file %q: %w", path, fs.ErrNotExist)
	}
	object, err := read(at.from, plumbing.BlobObject, at.id)
	if err != nil {
		return nil, fmt.Errorf("open file %q: %w", path, err)
	}
	return object.Reader()
}

// Close releases what the Tree holds on disk. Closing twice is closing once.
func (t *Tree) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	release := t.release
	t.blobs, t.release = nil, nil
	if release != nil {
		release()
	}
	return nil
}
