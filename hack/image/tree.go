package main

import (
	"archive/tar"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// entry is one file, directory or symbolic link of a layer. Owners are always root and times
// always zero, so they are no fields.
type entry struct {
	mode fs.FileMode
	link string
	data []byte
}

// tree is the content of a layer, by clean path without a leading slash.
type tree map[string]entry

func (t tree) addFile(p string, perm fs.FileMode, data []byte) {
	t[p] = entry{mode: perm.Perm(), data: data}
}

func (t tree) addDir(p string, perm fs.FileMode) { t[p] = entry{mode: fs.ModeDir | perm} }

func (t tree) addLink(p, target string) { t[p] = entry{mode: fs.ModeSymlink | 0o777, link: target} }

// addTar adds what keep gives a place for: keep is asked for each path of the archive and
// answers with the path in the tree, or with none. Device nodes are never taken.
func (t tree) addTar(r io.Reader, keep func(string) (string, bool)) error {
	originals := map[string]entry{}
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		from := path.Clean(strings.TrimPrefix(h.Name, "./"))
		e := entry{mode: h.FileInfo().Mode().Perm()}
		switch h.Typeflag {
		case tar.TypeReg:
			if e.data, err = io.ReadAll(tr); err != nil {
				return err
			}
			originals[from] = e
		case tar.TypeDir:
			e.mode |= fs.ModeDir | h.FileInfo().Mode()&fs.ModeSticky
		case tar.TypeSymlink:
			e.mode, e.link = fs.ModeSymlink|0o777, h.Linkname
		case tar.TypeLink:
			var ok bool
			if e, ok = originals[path.Clean(strings.TrimPrefix(h.Linkname, "./"))]; !ok {
				return fmt.Errorf("%s links to %s, which is not there", from, h.Linkname)
			}
		default:
			continue
		}
		if to, ok := keep(from); ok && to != "." {
			t[to] = e
		}
	}
}

// addFolder adds the files below dir under prefix, but those that skip names by their path
// below dir. Modes become 0644, or 0755 for what may be executed.
func (t tree) addFolder(dir, prefix string, skip func(string) bool) error {
	return filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		below = filepath.ToSlash(below)
		to := path.Join(prefix, below)
		switch {
		case below != "." && skip(below):
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		case d.IsDir():
			t.addDir(to, 0o755)
			return nil
		case d.Type() == fs.ModeSymlink:
			target, err := os.Readlink(p)
			t.addLink(to, target)
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		data, err := os.ReadFile(p)
		perm := fs.FileMode(0o644)
		if info.Mode()&0o111 != 0 {
			perm = 0o755
		}
		t.addFile(to, perm, data)
		return err
	})
}

// writeTo writes the tree as a tar that depends on nothing but the tree. Parents that nobody
// added come out as directories of mode 0755.
func (t tree) writeTo(w io.Writer) error {
	all := maps.Clone(t)
	for p := range t {
		for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
			if _, ok := all[dir]; !ok {
				all.addDir(dir, 0o755)
			}
		}
	}
	tw := tar.NewWriter(w)
	for _, p := range slices.Sorted(maps.Keys(all)) {
		e := all[p]
		h := &tar.Header{Name: p, Mode: int64(e.mode.Perm()), ModTime: time.Unix(0, 0), Format: tar.FormatPAX}
		switch {
		case e.mode.IsDir():
			h.Typeflag, h.Name = tar.TypeDir, p+"/"
			if e.mode&fs.ModeSticky != 0 {
				h.Mode |= 0o1000
			}
		case e.mode&fs.ModeSymlink != 0:
			h.Typeflag, h.Linkname = tar.TypeSymlink, e.link
		default:
			h.Typeflag, h.Size = tar.TypeReg, int64(len(e.data))
		}
		if err := tw.WriteHeader(h); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		if _, err := tw.Write(e.data); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
	}
	return tw.Close()
}
