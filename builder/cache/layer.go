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
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/gitfn/gitfn/gitsource"
	"github.com/gitfn/gitfn/runtimes"
)

// ErrUnsafe means that a tar of dependencies holds what no layer may hold.
var ErrUnsafe = errors.New("what install wrote is refused")

// Epoch is the time of everything in a layer.
var Epoch = time.Unix(0, 0).UTC()

// whiteout begins the names by which a layer takes files out of lower layers.
const whiteout = ".wh."

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
	return &tar.Header{Typeflag: kind, Name: name, Mode: mode, ModTime: Epoch, Format: tar.FormatPAX}
}

// below is where files for dir lie in a layer.
func below(dir string) string { return strings.TrimPrefix(path.Clean(dir), "/") }

// inModules reports whether a path is a directory of modules or lies in one. npm
// makes a node_modules wherever there is a package; pip fills one folder.
func inModules(modules, name string) bool {
	if modules == Modules {
		return slices.Contains(strings.Split(name, "/"), Modules)
	}
	return name == modules || strings.HasPrefix(name, modules+"/")
}

// SourceFiles are the files of a tree that go into the image: all but the
// project's npm configuration, which may hold a token and is of no use to the
// server, and, if dependencies are installed, what the tree brings as its own
// folder of modules: two sources of one directory would be a mixture of versions.
// A name that would take files out of lower layers is ErrUnsafe.
func SourceFiles(runtime runtimes.Runtime, tree *gitsource.Tree, installs bool) ([]gitsource.File, error) {
	var files []gitsource.File
	for _, file := range tree.Files {
		for part := range strings.SplitSeq(file.Path, "/") {
			if strings.HasPrefix(part, whiteout) {
				return nil, fmt.Errorf("%w: %q: names that begin with %s delete files in images", ErrUnsafe, file.Path, whiteout)
			}
		}
		if file.Path != npmConfig && !(installs && inModules(runtime.Modules, file.Path)) {
			files = append(files, file)
		}
	}
	return files, nil
}

// WriteSource writes files of a tree below dir as a layer. Files are sorted by path.
func WriteSource(w io.Writer, tree *gitsource.Tree, files []gitsource.File, dir string) error {
	out := tar.NewWriter(w)
	made := map[string]bool{}
	dir = below(dir)
	if err := out.WriteHeader(header(dir, tar.TypeDir, false)); err != nil {
		return err
	}
	for _, file := range files {
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

// WriteInstalled writes every folder of modules in the folder work as a tar below
// the runtime's directory. A workspace of npm has one for each of its packages. It follows no link, and leaves
// out what is neither file, directory nor link. More than the limits allow is
// ErrUnsafe.
func WriteInstalled(w io.Writer, work string, runtime runtimes.Runtime, limits Limits) error {
	out := tar.NewWriter(w)
	dir, modules := below(runtime.Dir), runtime.Modules
	spent := budget{limits: limits}
	err := filepath.WalkDir(work, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(work, file)
		if err != nil {
			return err
		}
		relative = filepath.ToSlash(relative)
		if !inModules(modules, relative) || relative == path.Join(Modules, ".package-lock.json") {
			return nil // npm's own notes: worthless without the times, which a layer does not keep
		}
		if !inModules(modules, path.Dir(relative)) && !entry.IsDir() {
			return nil
		}
		return writeEntry(out, &spent, file, path.Join(dir, relative), entry)
	})
	if err != nil {
		return fmt.Errorf("pack %s: %w", modules, err)
	}
	return out.Close()
}

func writeEntry(out *tar.Writer, spent *budget, file, name string, entry fs.DirEntry) error {
	switch {
	case entry.IsDir():
		return errors.Join(spent.take(0), out.WriteHeader(header(name, tar.TypeDir, false)))
	case entry.Type()&fs.ModeSymlink != 0:
		h := header(name, tar.TypeSymlink, false)
		var err error
		if h.Linkname, err = os.Readlink(file); err != nil {
			return err
		}
		return errors.Join(spent.take(0), out.WriteHeader(h))
	case entry.Type().IsRegular():
		return writeRegular(out, spent, file, name)
	}
	return nil
}

func writeRegular(out *tar.Writer, spent *budget, file, name string) error {
	content, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer content.Close()
	info, err := content.Stat()
	if err != nil {
		return err
	}
	h := header(name, tar.TypeReg, info.Mode()&0o111 != 0)
	h.Size = info.Size()
	if err := spent.take(h.Size); err != nil {
		return err
	}
	if err := out.WriteHeader(h); err != nil {
		return err
	}
	_, err = io.CopyN(out, content, h.Size)
	return err
}

// Limits bound a tar of dependencies.
type Limits struct {
	// Bytes of all files together, and the number of entries.
	Bytes   int64
	Entries int
}

// DefaultLimits hold the dependencies of large Functions.
var DefaultLimits = Limits{Bytes: 2 << 30, Entries: 500_000}

// budget is what of the limits is used up.
type budget struct {
	limits  Limits
	bytes   int64
	entries int
}

func (b *budget) take(size int64) error {
	if b.entries++; b.entries > b.limits.Entries {
		return fmt.Errorf("%w: dependencies have more than %d files", ErrUnsafe, b.limits.Entries)
	}
	if size > b.limits.Bytes-b.bytes {
		return fmt.Errorf("%w: dependencies have more than %d MiB", ErrUnsafe, b.limits.Bytes>>20)
	}
	b.bytes += size
	return nil
}

// CopyInstalled reads a tar that code of users may have written and writes it as
// a layer: entries in a folder of modules below the runtime's directory, in order,
// each in a directory that came before it, made of directories, files and links
// that stay below the runtime's directory; with normalised headers. Anything else is ErrUnsafe. It reads its input once,
// from the beginning to the end, and keeps nothing that grows with it.
func CopyInstalled(w io.Writer, r io.Reader, runtime runtimes.Runtime, limits Limits) error {
	in, out := tar.NewReader(r), tar.NewWriter(w)
	c := checker{dir: below(runtime.Dir), modules: runtime.Modules, budget: budget{limits: limits}}
	for {
		h, err := in.Next()
		if err == io.EOF {
			return out.Close()
		}
		if err != nil {
			return fmt.Errorf("%w: it is no tar: %w", ErrUnsafe, err)
		}
		name := strings.TrimSuffix(h.Name, "/")
		if why := c.refuse(h, name); why != "" {
			return fmt.Errorf("%w: %.200q %s", ErrUnsafe, h.Name, why)
		}
		if err := c.budget.take(h.Size); err != nil {
			return err
		}
		clean := header(name, h.Typeflag, h.Mode&0o111 != 0)
		clean.Size, clean.Linkname = h.Size, h.Linkname
		if err := out.WriteHeader(clean); err != nil {
			return fmt.Errorf("write layer: %.200q: %w", name, err)
		}
		switch n, err := io.Copy(out, in); {
		case errors.Is(err, io.ErrUnexpectedEOF), err == nil && n != h.Size:
			return fmt.Errorf("%w: it breaks off", ErrUnsafe)
		case err != nil:
			return fmt.Errorf("write layer: %.200q: %w", name, err)
		}
	}
}

// checker remembers of a tar what the next entry is judged by.
type checker struct {
	dir     string
	modules string
	last    []string // path of the entry before
	open    []string // the directory of the entry before, and those above it
	budget  budget
}

// Bounds of one name.
const (
	mostPath = 4000
	mostName = 255
)

// refuse says what is wrong with an entry; empty is nothing.
func (c *checker) refuse(h *tar.Header, name string) string {
	parts := strings.Split(name, "/")
	switch {
	case name != path.Clean(name) || len(name) > mostPath || !printable(name):
		return "is no clean path"
	case slices.ContainsFunc(parts, func(part string) bool { return part == ".." || len(part) > mostName }):
		return "is no clean path"
	case slices.ContainsFunc(parts, func(part string) bool { return strings.HasPrefix(part, whiteout) }):
		return "is a whiteout"
	case h.Size < 0 || h.Typeflag != tar.TypeReg && h.Size != 0:
		return "has a wrong size"
	}
	relative, inside := strings.CutPrefix(name, c.dir+"/")
	switch {
	case !inside || !inModules(c.modules, relative):
		return "is outside of " + c.dir + "/" + c.modules
	case slices.Compare(c.last, parts) >= 0:
		return "is out of order"
	}
	c.last = parts
	for len(c.open) > 0 && !strings.HasPrefix(name, c.open[len(c.open)-1]+"/") {
		c.open = c.open[:len(c.open)-1]
	}
	switch top := !inModules(c.modules, path.Dir(relative)); {
	case top && h.Typeflag != tar.TypeDir:
		return "is no directory"
	case !top && (len(c.open) == 0 || c.open[len(c.open)-1] != path.Dir(name)):
		return "lies in what is no directory"
	}
	switch h.Typeflag {
	case tar.TypeReg:
		return ""
	case tar.TypeDir:
		c.open = append(c.open, name)
		return ""
	case tar.TypeSymlink:
		if !c.leadsInside(name, h.Linkname) {
			return fmt.Sprintf("links to %.200q, which is outside of the Function", h.Linkname)
		}
		return ""
	}
	return "is neither a file, a directory nor a symbolic link"
}

// leadsInside reports whether a link stays below dir, whatever other links there
// are: it climbs only at its beginning, through directories that are none.
func (c *checker) leadsInside(name, link string) bool {
	if link == "" || len(link) > mostPath || !printable(link) || path.IsAbs(link) {
		return false
	}
	rest := link
	for {
		next, climbs := strings.CutPrefix(rest, "../")
		if !climbs {
			break
		}
		rest = next
	}
	if rest != ".." && slices.Contains(strings.Split(rest, "/"), "..") {
		return false
	}
	target := path.Join(path.Dir(name), link)
	return target == c.dir || strings.HasPrefix(target, c.dir+"/")
}

// printable reports whether a name is UTF-8 without control characters.
func printable(name string) bool {
	return utf8.ValidString(name) && !strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r >= 0x7f && r <= 0x9f })
}
