package gitsource

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/storage/filesystem"
)

// listed is a file and where its content is.
type listed struct {
	File
	part *part
	id   plumbing.Hash
}

// step is an entry that waits to be walked, because it is in another part than the one in use.
type step struct {
	spot
	at string // in the tree that is put together
}

// mark is how far a walk came.
type mark struct{ entries, files, steps int }

func (a *assembly) mark() mark { return mark{a.entries, len(a.files), len(a.steps)} }

// rewind forgets what a walk found since.
func (a *assembly) rewind(to mark) {
	a.entries, a.files, a.steps = to.entries, a.files[:to.files], a.steps[:to.steps]
}

// place lists what is at a spot, for a place of the tree that is put together.
func (a *assembly) place(ctx context.Context, inUse *part, from spot, at string) error {
	mode := from.entry.mode
	switch {
	case mode != filemode.Dir && mode != filemode.Submodule:
		file := File{Path: at, Executable: mode == filemode.Executable, Symlink: linkMark(mode)}
		a.files = append(a.files, listed{file, from.part, from.entry.id})
		return nil
	case from.part != inUse:
		a.steps = append(a.steps, step{from, at})
		return nil
	case mode == filemode.Dir:
		return a.directory(ctx, from, at)
	}
	inner, err := a.submodule(ctx, inUse, from.path, from.entry.id)
	if err == nil {
		a.steps = append(a.steps, step{spot{part: inner, entry: entry{mode: filemode.Dir}}, at})
	}
	return err
}

// directory lists what is in a directory of the part in use, and refuses what must not be unpacked.
func (a *assembly) directory(ctx context.Context, from spot, at string) error {
	if at != "" && strings.Count(at, "/")+1 > a.limits.Depth {
		return errorf(ErrTooLarge, "read tree: directories are more than %d deep", a.limits.Depth)
	}
	id := from.entry.id
	if id.IsZero() { // the root of a submodule, which was not known before its commit was there
		id = from.part.root
	}
	entries, err := readEntries(from.part.from, id, a.limits.Files)
	if err != nil {
		return err
	}
	if a.entries += len(entries); a.entries > a.limits.Files {
		return errorf(ErrTooLarge, "read tree: there are more than %d files and directories", a.limits.Files)
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.name)
		if err := checkName(e.name); err != nil {
			return errorf(ErrUnsafeTree, "read tree: in directory %q: %v", oneLine(at, 200), err)
		}
	}
	if err := checkCollisions(names); err != nil {
		return err
	}
	for _, e := range entries {
		to, below := path.Join(at, e.name), spot{part: from.part, path: path.Join(from.path, e.name), entry: e}
		if joined, ok := a.joined[to]; ok {
			below = joined
		}
		if err := a.place(ctx, from.part, below, to); err != nil {
			return err
		}
	}
	return nil
}

// linkMark stands for the target of a link until its blob is there.
func linkMark(mode filemode.FileMode) string {
	if mode == filemode.Symlink {
		return "?"
	}
	return ""
}

// fill fetches the content of the files, learns sizes and link targets, and refuses what only content can tell.
func (a *assembly) fill(ctx context.Context) error {
	for _, p := range a.order {
		var files []*listed
		var ids []plumbing.Hash
		for i := range a.files {
			if a.files[i].part == p {
				files, ids = append(files, &a.files[i]), append(ids, a.files[i].id)
			}
		}
		if len(files) == 0 {
			continue
		}
		err := a.use(ctx, p, func() error {
			if err := p.mirror.fetchBlobs(ctx, p.src.remote, p.commit, ids); err != nil {
				return err
			}
			storage := p.mirror.storage()
			p.blobs = storage
			for _, f := range files {
				if err := a.content(f, storage); err != nil {
					return err
				}
			}
			return a.total()
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// total bounds the sizes that are known.
func (a *assembly) total() error {
	var total int64
	for i := range a.files {
		if total += a.files[i].Size; total > a.limits.TotalBytes {
			return errorf(ErrTooLarge, "read tree: its files have more than %d bytes", a.limits.TotalBytes)
		}
	}
	return nil
}

// content learns the size of a file, and reads what is small enough to be a link or a pointer.
func (a *assembly) content(f *listed, from *filesystem.Storage) error {
	size, err := from.EncodedObjectSize(f.id)
	if err != nil {
		return fmt.Errorf("read size of %s: %w: %v", f.id, errBroken, err)
	}
	f.Size = size
	if size > a.limits.FileBytes {
		return errorf(ErrTooLarge, "read tree: file %q has %d bytes, more than %d", f.Path, size, a.limits.FileBytes)
	}
	isLink := f.Symlink != ""
	if size > smallBlob {
		if isLink {
			return errorf(ErrUnsafeTree, "read tree: symbolic link %q has a target of %d bytes", f.Path, size)
		}
		return nil
	}
	text, err := readBlob(from, f.id, smallBlob)
	if err != nil {
		return err
	}
	if !isLink {
		if strings.HasPrefix(text, lfsPointer) {
			return lfsError(f.Path)
		}
		return nil
	}
	if err := checkLink(f.Path, text); err != nil {
		return errorf(ErrUnsafeTree, "read tree: symbolic link %q: %v", f.Path, err)
	}
	f.Symlink = text
	return nil
}

// smallBlob is the size up to which a blob is looked into. Git LFS keeps its pointers below 1024 bytes.
const smallBlob = 1024

// lfsPointer is how a pointer file of Git LFS begins.
const lfsPointer = "version https://git-lfs.github.com/spec/"

func lfsError(at string) error {
	return errorf(ErrUnsafeTree, "read tree: file %q is a Git LFS pointer, not the file: LFS is not supported; commit the file itself", at)
}

// readBlob reads the beginning of a blob.
func readBlob(from objectReader, id plumbing.Hash, most int64) (string, error) {
	blob, err := read(from, plumbing.BlobObject, id)
	if err != nil {
		return "", err
	}
	r, err := blob.Reader()
	if err != nil {
		return "", fmt.Errorf("read blob %s: %w: %v", id, errBroken, err)
	}
	defer r.Close()
	text, err := io.ReadAll(io.LimitReader(r, most))
	if err != nil {
		return "", fmt.Errorf("read blob %s: %w: %v", id, errBroken, err)
	}
	return string(text), nil
}

// checkLink refuses a target outside of the tree. Dots may only lead up at its beginning, and not past the
// root: a ".." behind a name may start from wherever a link of that name leads, which a look at the text cannot tell.
func checkLink(at, target string) error {
	if target == "" || strings.HasPrefix(target, "/") || strings.ContainsAny(target, "\\\x00") {
		return errors.New("its target is empty, absolute or no path")
	}
	depth, named := strings.Count(at, "/"), false
	for _, part := range strings.Split(target, "/") {
		switch {
		case part == "" || part == ".":
		case part == ".." && (named || depth == 0):
			return errors.New("its target is outside of the base directory, or not plainly inside")
		case part == "..":
			depth--
		default:
			if err := checkName(part); err != nil {
				return err
			}
			named = true
		}
	}
	return nil
}

// checkCollisions refuses names in one directory that are one name to some disk: see foldName.
func checkCollisions(names []string) error {
	seen := make(map[string]string, len(names))
	for _, name := range names {
		folded := foldName(name)
		if other, taken := seen[folded]; taken {
			return errorf(ErrUnsafeTree, "read tree: %q and %q are one name to disks that ignore case and the ways to write a character", other, name)
		}
		seen[folded] = name
	}
	return nil
}
