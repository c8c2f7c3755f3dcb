package cache

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/gitfn/gitfn/gitsource"
	"github.com/gitfn/gitfn/runtimes"
)

// What may be wrong with a tree, to be matched with errors.Is.
var (
	// ErrManifest says that the manifest or the lock file cannot be read.
	ErrManifest = errors.New("manifest cannot be used")
	// ErrForeignLock says that the lock file is of a package manager that gitfn does not run.
	ErrForeignLock = errors.New("lock file of another package manager")
)

// Modules is the directory that npm fills.
const Modules = "node_modules"

// Inputs is what the package manager gets to see.
type Inputs struct {
	// Files are sorted by path. None means that there is nothing to install.
	Files []gitsource.File
	// Locked is true if a lock file names every package.
	Locked bool
	// Whole is true if the whole tree is the input.
	Whole bool
}

// None reports whether there is nothing to install.
func (i Inputs) None() bool { return len(i.Files) == 0 }

// manifest is what counts of a package.json.
type manifest struct {
	Dependencies         map[string]string `json:"dependencies"`
	OptionalDependencies map[string]string `json:"optionalDependencies"`
	PeerDependencies     map[string]string `json:"peerDependencies"`
	DevDependencies      map[string]string `json:"devDependencies"`
	Scripts              map[string]string `json:"scripts"`
	Workspaces           json.RawMessage   `json:"workspaces"`
	Overrides            json.RawMessage   `json:"overrides"`
}

// installs reports whether npm has anything to do. Scripts alone are no reason to
// run it: most, such as a prepare for Git hooks, are for those who develop.
func (m manifest) installs() bool {
	return len(m.Dependencies)+len(m.OptionalDependencies)+len(m.PeerDependencies) > 0 || given(m.Workspaces)
}

func given(value json.RawMessage) bool {
	switch strings.TrimSpace(string(value)) {
	case "", "null", "[]", "{}":
		return false
	}
	return true
}

// lifecycle are the scripts that npm runs by itself when it installs.
var lifecycle = []string{"preinstall", "install", "postinstall", "preprepare", "prepare", "postprepare", "prepublish", "dependencies"}

// runs reports whether scripts of the project itself run.
func (m manifest) runs() bool {
	return slices.ContainsFunc(lifecycle, func(name string) bool { return m.Scripts[name] != "" })
}

// locals are the paths of file: dependencies. Those for development count too:
// npm reads their manifests to make the tree from which it leaves them out.
func (m manifest) locals() []string {
	var paths []string
	for _, list := range []map[string]string{m.Dependencies, m.OptionalDependencies, m.PeerDependencies, m.DevDependencies} {
		for _, spec := range list {
			if at, found := strings.CutPrefix(spec, "file:"); found {
				paths = append(paths, at)
			} else if strings.HasPrefix(spec, ".") || strings.HasPrefix(spec, "/") || strings.HasPrefix(spec, "~/") {
				paths = append(paths, spec)
			}
		}
	}
	return paths
}

// Names of npm's files.
const (
	npmLock       = "package-lock.json"
	npmShrinkwrap = "npm-shrinkwrap.json"
	npmConfig     = ".npmrc"
)

// foreign are lock files of others, and who writes them.
var foreign = []struct{ lock, manager string }{
	{"yarn.lock", "Yarn"}, {"pnpm-lock.yaml", "pnpm"}, {"bun.lock", "Bun"}, {"bun.lockb", "Bun"},
}

// Select finds the inputs of a tree. Errors match ErrManifest or ErrForeignLock,
// or are those of the tree.
func Select(runtime runtimes.Runtime, tree *gitsource.Tree) (Inputs, error) {
	if runtime.Language == runtimes.Python {
		return selectPython(runtime, tree)
	}
	s := selection{tree: tree, manifestName: runtime.Manifest, chosen: map[string]bool{}, files: map[string]gitsource.File{}}
	for _, file := range tree.Files {
		s.files[file.Path] = file
	}
	locks := s.present(npmLock, npmShrinkwrap)
	if _, found := s.files[runtime.Manifest]; !found {
		if len(locks) > 0 {
			return Inputs{}, errorf(ErrManifest, "%s is there, but %s is not; add it", locks[0], runtime.Manifest)
		}
		return Inputs{}, nil
	}
	m, err := s.manifest(runtime.Manifest)
	if err != nil {
		return Inputs{}, err
	}
	if !m.installs() && len(locks) == 0 {
		return Inputs{}, nil
	}
	if len(locks) == 0 {
		for _, other := range foreign {
			if _, found := s.files[other.lock]; found {
				return Inputs{}, errorf(ErrForeignLock, "%s is of %s, but dependencies are installed by npm; add a %s (npm install --package-lock-only) or remove %s",
					other.lock, other.manager, npmLock, other.lock)
			}
		}
	}
	for _, name := range append(locks, s.present(runtime.Manifest, npmConfig)...) {
		s.choose(name)
	}
	if err := s.root(m, locks); err != nil {
		return Inputs{}, err
	}
	return Inputs{Files: s.inputs(), Locked: len(locks) > 0, Whole: s.whole}, nil
}

// selection is a Select under way.
type selection struct {
	tree         *gitsource.Tree
	manifestName string
	files        map[string]gitsource.File
	chosen       map[string]bool
	whole        bool
}

func (s *selection) present(names ...string) []string {
	var there []string
	for _, name := range names {
		if _, found := s.files[name]; found {
			there = append(there, name)
		}
	}
	return there
}

// choose takes a file. Where a link leads is not followed up: then all is input.
func (s *selection) choose(name string) {
	s.chosen[name] = true
	if s.files[name].Symlink != "" {
		s.whole = true
	}
}

// root looks at what the project's own manifest and lock name.
func (s *selection) root(m manifest, locks []string) error {
	_, native := s.files["binding.gyp"] // npm compiles it without being asked
	if m.runs() || native || given(m.Workspaces) || strings.Contains(string(m.Overrides), `"file:`) {
		s.whole = true
		return nil
	}
	for _, lock := range locks {
		if err := s.lock(lock); err != nil {
			return err
		}
	}
	return s.locals("", m)
}

// lock takes the directories that a lock file names besides the manifest.
func (s *selection) lock(name string) error {
	content, err := s.read(name)
	if err != nil {
		return err
	}
	var lock struct {
		Version  int                        `json:"lockfileVersion"`
		Packages map[string]json.RawMessage `json:"packages"`
	}
	if err := json.Unmarshal(content, &lock); err != nil {
		return errorf(ErrManifest, "%s is no lock file of npm: %v", name, err)
	}
	if len(lock.Packages) == 0 && strings.Contains(string(content), `"file:`) {
		s.whole = true // the first version of the format does not tell directories
	}
	for at := range lock.Packages {
		if at == "" || at == Modules || strings.HasPrefix(at, Modules+"/") || strings.Contains(at, "/"+Modules+"/") {
			continue
		}
		if err := s.local(at, name); err != nil {
			return err
		}
	}
	return nil
}

// locals takes the file: dependencies of a manifest that lies in dir.
func (s *selection) locals(dir string, m manifest) error {
	for _, at := range m.locals() {
		if err := s.local(path.Join(dir, at), path.Join(dir, s.manifestName)); err != nil {
			return err
		}
	}
	return nil
}

// local takes one archive, or one directory and what its manifest names.
func (s *selection) local(at, in string) error {
	at = path.Clean(at)
	if path.IsAbs(at) || at == ".." || strings.HasPrefix(at, "../") || strings.HasPrefix(at, "~") {
		return errorf(ErrManifest, "%s names %s, which is outside of the source's directory; publish it as a package, or set baseDir to a directory that holds both", in, at)
	}
	if s.whole || at == "." {
		s.whole = true
		return nil
	}
	if _, found := s.files[at]; found {
		s.choose(at)
		return nil
	}
	inner := path.Join(at, s.manifestName)
	if _, found := s.files[inner]; !found {
		return errorf(ErrManifest, "%s names %s, which is not in the source", in, at)
	}
	if s.chosen[inner] {
		return nil
	}
	for name := range s.files {
		if strings.HasPrefix(name, at+"/") {
			s.choose(name)
		}
	}
	m, err := s.manifest(inner)
	if err != nil {
		return err
	}
	if _, native := s.files[path.Join(at, "binding.gyp")]; m.runs() || native {
		s.whole = true
		return nil
	}
	return s.locals(at, m)
}

func (s *selection) manifest(name string) (manifest, error) {
	content, err := s.read(name)
	if err != nil {
		return manifest{}, err
	}
	var m manifest
	if err := json.Unmarshal(content, &m); err != nil {
		return manifest{}, errorf(ErrManifest, "%s cannot be read: %v", name, err)
	}
	return m, nil
}

// mostManifest bounds what is read as JSON.
const mostManifest = 32 << 20

func (s *selection) read(name string) ([]byte, error) {
	file := s.files[name]
	switch {
	case file.Symlink != "":
		return nil, errorf(ErrManifest, "%s is a symbolic link; it must be a file", name)
	case file.Size > mostManifest:
		return nil, errorf(ErrManifest, "%s is larger than %d MiB", name, mostManifest>>20)
	}
	reader, err := s.tree.Open(name)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	content, err := io.ReadAll(reader)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return content, nil
}

// inputs lists what was chosen. What a project brings as its own node_modules is
// never input: npm ci removes it, and npm install must not build upon it.
func (s *selection) inputs() []gitsource.File {
	var files []gitsource.File
	for _, file := range s.tree.Files {
		if (s.whole || s.chosen[file.Path]) && !strings.HasPrefix(file.Path, Modules+"/") {
			files = append(files, file)
		}
	}
	return files
}

// kindError is a sentence that matches one of the sentinels above.
type kindError struct {
	kind error
	text string
}

// Error is the sentence.
func (e *kindError) Error() string { return e.text }

// Is reports whether target is the sentinel.
func (e *kindError) Is(target error) bool { return target == e.kind }

func errorf(kind error, format string, args ...any) error {
	return &kindError{kind, fmt.Sprintf(format, args...)}
}
