package cache

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gitfn/gitfn/gitsource"
)

// ErrUnsafe means that a tar of dependencies holds what no layer may hold.
var ErrUnsafe = errors.New("what install wrote is refused")

// epoch is the time of everything in a layer.
var epoch = time.Unix(0, 0).UTC()

// header makes the header of an entry with all that could vary taken out.
func header(name string, kind byte, executable bool) *tar.Header {
	mode := int64(0o644)
	if kind == tar.TypeDir || executable {
		mode = 0o755
	}
	if kind == tar.TypeSymlink {
		mode = 0o777
	}
	if kind == tar.TypeDir {
		name += "/"
	}
	return &tar.Header{Typeflag: kind, Name: name, Mode: mode, ModTime: epoch, Format: tar.FormatPAX}
}

// WriteSource writes the files of a tree below dir as a layer.
func WriteSource(w io.Writer, tree *gitsource.Tree, dir string) error {
	out := tar.NewWriter(w)
	made := map[string]bool{}
	dir = strings.TrimPrefix(path.Clean(dir), "/")
	if err := out.WriteHeader(header(dir, tar.TypeDir, false)); err != nil {
		return err
	}
	for _, file := range tree.Files {
		for _, parent := range parents(file.Path) {
			if made[parent] {
				continue
			}
			made[parent] = true
			if err := out.WriteHeader(header(path.Join(dir, parent), tar.TypeDir, false)); err != nil {
				return err
			}
		}
		if err := writeFile(out, tree, file, path.Join(dir, file.Path)); err != nil {
			return fmt.Errorf("write layer: %s: %w", file.Path, err)
		}
	}
	return out.Close()
}

// parents lists the directories above a path, outermost first.
func parents(file string) []string {
	var all []string
	for dir := path.Dir(file); dir != "."; dir = path.Dir(dir) {
		all = append(all, dir)
	}
	slices.Reverse(all)
	return all
}

func writeFile(out *tar.Writer, tree *gitsource.Tree, file gitsource.File, name string) error {
	if file.Symlink != "" {
		h := header(name, tar.TypeSymlink, false)
		h.Linkname = file.Symlink
		return out.WriteHeader(h)
	}
	h := header(name, tar.TypeReg, file.Executable)
	h.Size = file.Size
	if err := out.WriteHeader(h); err != nil {
		return err
	}
	content, err := tree.Open(file.Path)
	if err != nil {
		return err
	}
	defer content.Close()
	_, err = io.Copy(out, content)
	return err
}

// WriteInstalled writes the directory installed, for example node_modules, of
// the folder work as a tar below dir. It follows no link, and leaves out what is
// neither file, directory nor link.
func WriteInstalled(w io.Writer, work, installed, dir string) error {
	out := tar.NewWriter(w)
	dir = strings.TrimPrefix(path.Clean(dir), "/")
	root := filepath.Join(work, installed)
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && file == root {
			return filepath.SkipAll
		}
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(work, file)
		if err != nil {
			return err
		}
		return writeEntry(out, file, path.Join(dir, filepath.ToSlash(relative)), entry)
	})
	if err != nil {
		return fmt.Errorf("pack %s: %w", installed, err)
	}
	return out.Close()
}

func writeEntry(out *tar.Writer, file, name string, entry fs.DirEntry) error {
	info, err := entry.Info()
	if err != nil {
		return err
	}
	switch {
	case entry.IsDir():
		return out.WriteHeader(header(name, tar.TypeDir, false))
	case info.Mode()&fs.ModeSymlink != 0:
		h := header(name, tar.TypeSymlink, false)
		if h.Linkname, err = os.Readlink(file); err != nil {
			return err
		}
		return out.WriteHeader(h)
	case info.Mode().IsRegular():
		content, err := os.Open(file)
		if err != nil {
			return err
		}
		defer content.Close()
		h := header(name, tar.TypeReg, info.Mode()&0o111 != 0)
		h.Size = info.Size()
		if err := out.WriteHeader(h); err != nil {
			return err
		}
		_, err = io.Copy(out, content)
		return err
	}
	return nil
}

// Limits bound a tar of dependencies.
type Limits struct {
	// Bytes of all files together, and the number of entries.
	Bytes   int64
	Entries int
}

// DefaultLimits hold the dependencies of large Functions.
var DefaultLimits = Limits{Bytes: 4 << 30, Entries: 500_000}

// CopyInstalled reads a tar that code of users may have written and writes it as
// a layer: every entry below dir/installed, in order, made of directories, files
// and links that stay below dir; with normalised headers. Anything else is
// ErrUnsafe. It reads its input once, from the beginning to the end.
func CopyInstalled(w io.Writer, r io.Reader, dir, installed string, limits Limits) (entries int, err error) {
	in, out := tar.NewReader(r), tar.NewWriter(w)
	dir = strings.TrimPrefix(path.Clean(dir), "/")
	root, last, total := path.Join(dir, installed), "", int64(0)
	for {
		h, err := in.Next()
		if err == io.EOF {
			return entries, out.Close()
		}
		if err != nil {
			return entries, fmt.Errorf("%w: it is no tar: %w", ErrUnsafe, err)
		}
		name := strings.TrimSuffix(h.Name, "/")
		if err := checkEntry(h, name, last, dir, root); err != nil {
			return entries, err
		}
		last = name
		if entries++; entries > limits.Entries {
			return entries, fmt.Errorf("%w: it has more than %d entries", ErrUnsafe, limits.Entries)
		}
		if total += h.Size; total > limits.Bytes {
			return entries, fmt.Errorf("%w: it has more than %d bytes", ErrUnsafe, limits.Bytes)
		}
		clean := header(name, h.Typeflag, h.Mode&0o111 != 0)
		clean.Size, clean.Linkname = h.Size, h.Linkname
		if err := out.WriteHeader(clean); err != nil {
			return entries, fmt.Errorf("%w: %q: %w", ErrUnsafe, name, err)
		}
		if _, err := io.Copy(out, in); err != nil {
			return entries, fmt.Errorf("copy %q: %w", name, err)
		}
	}
}

func checkEntry(h *tar.Header, name, last, dir, root string) error {
	refuse := func(why string) error { return fmt.Errorf("%w: %q %s", ErrUnsafe, h.Name, why) }
	switch {
	case name != path.Clean(name) || strings.ContainsFunc(name, isControl) || len(name) > 4096:
		return refuse("is no clean path")
	case name != root && !strings.HasPrefix(name, root+"/"):
		return refuse("is outside of " + root)
	case slices.Compare(strings.Split(last, "/"), strings.Split(name, "/")) >= 0:
		return refuse("is out of order")
	case h.Size < 0 || h.Typeflag != tar.TypeReg && h.Size != 0:
		return refuse("has a wrong size")
	}
	// Whiteouts would take files out of lower layers.
	if strings.HasPrefix(path.Base(name), ".wh.") {
		return refuse("is a whiteout")
	}
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeDir:
		return nil
	case tar.TypeSymlink:
		target := path.Join(path.Dir(name), h.Linkname)
		if path.IsAbs(h.Linkname) || target != dir && !strings.HasPrefix(target, dir+"/") || strings.ContainsFunc(h.Linkname, isControl) {
			return refuse("links to the outside")
		}
		return nil
	}
	return refuse("is neither a file, a directory nor a symbolic link")
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f || r == '\ufffd' }
