package gitsource

import (
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
)

// facts is what a commit says, and the tree below a base directory.
type facts struct {
	tree            plumbing.Hash
	author, subject string
	committed       time.Time
}

// readFacts reads a commit and goes down to the base directory.
func readFacts(from objectReader, commit, baseDir string) (facts, error) {
	encoded, err := read(from, plumbing.AnyObject, plumbing.NewHash(commit))
	if err != nil {
		return facts{}, err
	}
	var c object.Commit
	if encoded.Type() != plumbing.CommitObject {
		return facts{}, errorf(ErrRefNotFound, "read commit %s: it is a %s", commit, encoded.Type())
	}
	if err := c.Decode(encoded); err != nil {
		return facts{}, errorf(ErrUnsafeTree, "read commit %s: it is malformed", commit)
	}
	subject, _, _ := strings.Cut(strings.TrimLeft(c.Message, "\n"), "\n")
	f := facts{tree: c.TreeHash, author: oneLine(c.Author.Name, 100), subject: oneLine(subject, 200), committed: c.Committer.When}
	if baseDir == "" {
		return f, nil
	}
	for _, name := range strings.Split(baseDir, "/") {
		entries, err := readEntries(from, f.tree)
		if err != nil {
			return facts{}, err
		}
		at := slices.IndexFunc(entries, func(e object.TreeEntry) bool { return e.Name == name })
		if at < 0 {
			return facts{}, errorf(ErrBaseDirNotFound, "find base directory %q: commit %s has no such directory", baseDir, commit)
		}
		if entries[at].Mode != filemode.Dir {
			return facts{}, errorf(ErrBaseDirNotFound, "find base directory %q: in commit %s %q is no directory", baseDir, commit, name)
		}
		f.tree = entries[at].Hash
	}
	return f, nil
}

// readEntries reads one directory.
func readEntries(from objectReader, id plumbing.Hash) ([]object.TreeEntry, error) {
	encoded, err := read(from, plumbing.TreeObject, id)
	if err != nil {
		return nil, err
	}
	var tree object.Tree
	if err := tree.Decode(encoded); err != nil {
		return nil, errorf(ErrUnsafeTree, "read tree %s: it is malformed", id)
	}
	return tree.Entries, nil
}

// walk lists the files below a tree, refusing what must not be unpacked.
type walk struct {
	from    objectReader
	limits  Limits
	entries int
	files   []File
	ids     []plumbing.Hash // of the files, in the same order
}

func (w *walk) directory(id plumbing.Hash, dir string, depth int) error {
	if depth > w.limits.Depth {
		return errorf(ErrTooLarge, "read tree: directories are more than %d deep", w.limits.Depth)
	}
	entries, err := readEntries(w.from, id)
	if err != nil {
		return err
	}
	if w.entries += len(entries); w.entries > w.limits.Files {
		return errorf(ErrTooLarge, "read tree: there are more than %d files and directories", w.limits.Files)
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name)
		if err := checkName(e.Name); err != nil {
			return errorf(ErrUnsafeTree, "read tree: in directory %q: %v", oneLine(dir, 200), err)
		}
	}
	if err := checkCollisions(names); err != nil {
		return err
	}
	for _, e := range entries {
		if err := w.entry(e, path.Join(dir, e.Name), depth); err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) entry(e object.TreeEntry, at string, depth int) error {
	switch e.Mode {
	case filemode.Dir:
		return w.directory(e.Hash, at, depth+1)
	case filemode.Regular, filemode.Deprecated, filemode.Executable, filemode.Symlink:
		w.files = append(w.files, File{Path: at, Executable: e.Mode == filemode.Executable, Symlink: linkMark(e.Mode)})
		w.ids = append(w.ids, e.Hash)
		return nil
	case filemode.Submodule:
		return errorf(ErrUnsafeTree, "read tree: %q is a submodule; submodules are not supported yet", at)
	}
	return errorf(ErrUnsafeTree, "read tree: %q has the unknown mode %s", at, e.Mode)
}

// linkMark stands for the target of a link until its blob is there.
func linkMark(mode filemode.FileMode) string {
	if mode == filemode.Symlink {
		return "?"
	}
	return ""
}

// fill learns sizes and link targets, once the blobs are there, and refuses what only content can tell.
func (w *walk) fill(size func(plumbing.Hash) (int64, error)) error {
	var total int64
	for i := range w.files {
		f, id := &w.files[i], w.ids[i]
		var err error
		if f.Size, err = size(id); err != nil {
			return fmt.Errorf("read size of %s: %w: %v", id, errBroken, err)
		}
		if f.Size > w.limits.FileBytes {
			return errorf(ErrTooLarge, "read tree: file %q has %d bytes, more than %d", f.Path, f.Size, w.limits.FileBytes)
		}
		if total += f.Size; total > w.limits.TotalBytes {
			return errorf(ErrTooLarge, "read tree: its files have more than %d bytes", w.limits.TotalBytes)
		}
		if err := w.content(f, id); err != nil {
			return err
		}
	}
	return nil
}

// content reads what is small enough to be a link or a pointer.
func (w *walk) content(f *File, id plumbing.Hash) error {
	isLink := f.Symlink != ""
	if f.Size > smallBlob {
		if isLink {
			return errorf(ErrUnsafeTree, "read tree: symbolic link %q has a target of %d bytes", f.Path, f.Size)
		}
		return nil
	}
	text, err := readBlob(w.from, id)
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

func readBlob(from objectReader, id plumbing.Hash) (string, error) {
	blob, err := read(from, plumbing.BlobObject, id)
	if err != nil {
		return "", err
	}
	r, err := blob.Reader()
	if err != nil {
		return "", fmt.Errorf("read blob %s: %w: %v", id, errBroken, err)
	}
	defer r.Close()
	text, err := io.ReadAll(io.LimitReader(r, smallBlob))
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

// checkCollisions refuses names in one directory that are one name to a disk that ignores case. Names of
// directories may end in a slash.
func checkCollisions(names []string) error {
	seen := make(map[string]string, len(names))
	for _, name := range names {
		name = strings.TrimSuffix(name, "/")
		folded := strings.ToLower(strings.ToUpper(name))
		if other, taken := seen[folded]; taken {
			return errorf(ErrUnsafeTree, "read tree: %q and %q are the same name where case does not count", other, name)
		}
		seen[folded] = name
	}
	return nil
}
