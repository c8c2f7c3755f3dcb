package gitsource

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
)

// NewTree makes a Tree of files that were never in Git, from path to content. It has the ID that Git would
// give the same files, none of them executable. The rules for names are those of Fetch: what breaks them is
// ErrUnsafeTree.
func NewTree(files map[string]string) (*Tree, error) {
	objects := memoryObjects{}
	t := &Tree{blobs: make(map[string]blob, len(files))}
	root := directory{}
	for at, content := range files {
		if strings.HasPrefix(content, lfsPointer) {
			return nil, lfsError(at)
		}
		id := objects.add(plumbing.BlobObject, []byte(content))
		if err := root.add(strings.Split(at, "/"), id); err != nil {
			return nil, errorf(ErrUnsafeTree, "read tree: file %q: %v", oneLine(at, 200), err)
		}
		t.blobs[at] = blob{objects, id}
		t.Files = append(t.Files, File{Path: at, Size: int64(len(content))})
	}
	slices.SortFunc(t.Files, byPath)
	id, err := root.write(objects)
	if err != nil {
		return nil, err
	}
	t.ID = id.String()
	return t, nil
}

func byPath(a, b File) int { return strings.Compare(a.Path, b.Path) }

// memoryObjects is objects that were never on disk.
type memoryObjects map[plumbing.Hash]*plumbing.MemoryObject

func (m memoryObjects) add(kind plumbing.ObjectType, content []byte) plumbing.Hash {
	object := &plumbing.MemoryObject{}
	object.SetType(kind)
	_, _ = object.Write(content) // memory does not fail
	m[object.Hash()] = object
	return object.Hash()
}

// EncodedObject returns an object by its id.
func (m memoryObjects) EncodedObject(_ plumbing.ObjectType, id plumbing.Hash) (plumbing.EncodedObject, error) {
	if object, ok := m[id]; ok {
		return object, nil
	}
	return nil, plumbing.ErrObjectNotFound
}

// directory is a directory on its way into objects: names to files and further directories.
type directory map[string]node

type node struct {
	file plumbing.Hash
	dir  directory // nil for a file
}

func (d directory) add(parts []string, file plumbing.Hash) error {
	name, rest := parts[0], parts[1:]
	if err := checkName(name); err != nil {
		return err
	}
	there, taken := d[name]
	switch {
	case len(rest) == 0 && taken, len(rest) > 0 && taken && there.dir == nil:
		return fmt.Errorf("%q is a file and a directory", name)
	case len(rest) == 0:
		d[name] = node{file: file}
		return nil
	case !taken:
		there.dir = directory{}
		d[name] = there
	}
	return there.dir.add(rest, file)
}

// write makes the Git tree of a directory and returns its id.
func (d directory) write(objects memoryObjects) (plumbing.Hash, error) {
	entries := make([]entry, 0, len(d))
	names := make([]string, 0, len(d))
	for name, there := range d {
		e := entry{mode: filemode.Regular, id: there.file, name: name}
		if there.dir != nil {
			var err error
			if e.id, err = there.dir.write(objects); err != nil {
				return plumbing.ZeroHash, err
			}
			e.mode = filemode.Dir
		}
		entries = append(entries, e)
		names = append(names, name)
	}
	slices.Sort(names)
	if err := checkCollisions(names); err != nil {
		return plumbing.ZeroHash, err
	}
	return writeEntries(objects, entries), nil
}
