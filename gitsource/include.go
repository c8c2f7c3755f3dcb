package gitsource

import (
	"encoding/json"
	"path"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
)

// layout is which paths of a commit make a tree: a Selection that was checked.
type layout struct {
	BaseDir    string
	Include    []Include // by To, which is never empty
	Submodules bool
}

// layout checks the paths of a selection and brings each into one form.
func (s Selection) layout() (layout, error) {
	l := layout{Submodules: s.Submodules}
	var err error
	if l.BaseDir, err = CleanBaseDir(s.BaseDir); err != nil {
		return layout{}, err
	}
	for _, include := range s.Include {
		from, err := cleanPath(include.Path)
		if err != nil {
			return layout{}, errorf(ErrBaseDirNotFound, "check include %q: %v", oneLine(include.Path, 200), err)
		}
		if from == "" {
			return layout{}, errorf(ErrBaseDirNotFound, "check include %q: name a file or a directory below the root of the repository", oneLine(include.Path, 200))
		}
		to, err := cleanPath(include.To)
		if err != nil {
			return layout{}, errorf(ErrUnsafeTree, "check include %q: to %q: %v", from, oneLine(include.To, 200), err)
		}
		if to == "" {
			to = path.Base(from)
		}
		l.Include = append(l.Include, Include{Path: from, To: to})
	}
	slices.SortFunc(l.Include, func(a, b Include) int { return strings.Compare(a.To, b.To) })
	for _, include := range l.Include {
		for _, other := range l.Include {
			if include != other && within(include.To, other.To) {
				return layout{}, errorf(ErrUnsafeTree, "check include %q: %q is where include %q goes; give one of them another place by its to", include.Path, include.To, other.Path)
			}
		}
	}
	if duplicate := len(slices.Compact(slices.Clone(l.Include))); duplicate != len(l.Include) {
		return layout{}, errorf(ErrUnsafeTree, "check include: one path is included twice")
	}
	return l, nil
}

// within says whether a path is a directory or lies below it.
func within(at, dir string) bool { return at == dir || strings.HasPrefix(at, dir+"/") }

// String is the layout as a key of what is kept.
func (l layout) String() string {
	key, _ := json.Marshal(l) // strings and a bool always marshal
	return string(key)
}

// paths is the base directory and then what is included.
func (l layout) paths() []string {
	paths := []string{l.BaseDir}
	for _, include := range l.Include {
		paths = append(paths, include.Path)
	}
	return paths
}

// grafts is what joins a directory: by name, an entry or what joins the directory of that name.
type grafts map[string]graft

type graft struct {
	entry entry  // when below is nil
	below grafts // of a directory
	path  string // of the include, for errors
}

// add puts an entry at a place. That no place lies within another was checked.
func (g grafts) add(place string, e entry, include string) {
	name, rest, nested := strings.Cut(place, "/")
	e.name = name
	if !nested {
		g[name] = graft{entry: e, path: include}
		return
	}
	if g[name].below == nil {
		g[name] = graft{below: grafts{}, path: include}
	}
	g[name].below.add(rest, e, include)
}

// join makes the Git tree of a directory and what joins it, and returns its id: the one that Git would give the same
// files. A zero id is a directory that is not there yet.
func (g grafts) join(from objectReader, id plumbing.Hash, dir string, most int, made memoryObjects) (plumbing.Hash, error) {
	var entries []entry
	if !id.IsZero() {
		var err error
		if entries, err = readEntries(from, id, most); err != nil {
			return plumbing.ZeroHash, err
		}
	}
	for _, name := range sortedNames(g) {
		joining, at := g[name], path.Join(dir, name)
		there := slices.IndexFunc(entries, func(e entry) bool { return e.name == name })
		if there >= 0 && (joining.below == nil || entries[there].mode != filemode.Dir) {
			return plumbing.ZeroHash, errorf(ErrUnsafeTree, "include %q: %q is there already, below the base directory; give it another place by its to", joining.path, at)
		}
		if joining.below == nil {
			entries = append(entries, joining.entry)
			continue
		}
		var dirID plumbing.Hash
		if there >= 0 {
			dirID = entries[there].id
		}
		joined, err := joining.below.join(from, dirID, at, most, made)
		if err != nil {
			return plumbing.ZeroHash, err
		}
		if there >= 0 {
			entries[there].id = joined
		} else {
			entries = append(entries, entry{mode: filemode.Dir, id: joined, name: name})
		}
	}
	return writeEntries(made, entries), nil
}

func sortedNames(g grafts) []string {
	names := make([]string, 0, len(g))
	for name := range g {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// overlay reads what was made in memory before what is on disk.
type overlay struct {
	made memoryObjects
	disk objectReader
}

// EncodedObject returns an object of either.
func (o overlay) EncodedObject(kind plumbing.ObjectType, id plumbing.Hash) (plumbing.EncodedObject, error) {
	if object, err := o.made.EncodedObject(kind, id); err == nil {
		return object, nil
	}
	return o.disk.EncodedObject(kind, id)
}
