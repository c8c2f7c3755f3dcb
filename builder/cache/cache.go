// Package cache decides when dependencies need not be installed again.
//
// In goes the tree of a Function; out come the files that its package manager
// is to see, and their hash, the dependency key: the same key, the same layer of
// dependencies. Where the inputs cannot be listed, because something in them may
// read any file, the whole tree is the input. The package also writes layers
// reproducibly: sorted, without times, with fixed owners and modes. It never
// runs a package manager and never asks a registry.
package cache

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gitfn/gitfn/builder"
	"github.com/gitfn/gitfn/gitsource"
)

// ErrForeignLock means that the dependencies are locked for another package manager.
var ErrForeignLock = errors.New("the lock file is for another package manager")

// ErrManifest means that the manifest cannot be read.
var ErrManifest = errors.New("the manifest cannot be read")

// Inputs is what a package manager is to see.
type Inputs struct {
	// Files are paths below the tree, sorted; none means that nothing is to be installed.
	Files []string
	// Locked is true if a lock file fixes every version.
	Locked bool
}

// None reports whether there is nothing to install.
func (i Inputs) None() bool { return len(i.Files) == 0 }

// Names of the files that npm reads.
const (
	manifestName = "package.json"
	projectRC    = ".npmrc"
)

var lockNames = []string{"npm-shrinkwrap.json", "package-lock.json"} // npm prefers the first

// lifecycle are the scripts of a project that npm runs at an install.
var lifecycle = []string{"preinstall", "install", "postinstall", "prepublish", "preprepare", "prepare", "postprepare"}

// NodeInputs finds what npm is to see of a tree.
func NodeInputs(tree *gitsource.Tree) (Inputs, error) {
	has := map[string]bool{}
	for _, file := range tree.Files {
		has[file.Path] = true
	}
	locked := slices.ContainsFunc(lockNames, func(name string) bool { return has[name] })
	for file, tool := range map[string]string{"yarn.lock": "yarn", "pnpm-lock.yaml": "pnpm"} {
		if has[file] && !locked {
			return Inputs{}, fmt.Errorf("%w: %s is of %s; make a package-lock.json with \"npm install --package-lock-only\" and commit it", ErrForeignLock, file, tool)
		}
	}
	if !has[manifestName] {
		return Inputs{}, nil
	}
	var manifest struct {
		Dependencies         map[string]string `json:"dependencies"`
		OptionalDependencies map[string]string `json:"optionalDependencies"`
		PeerDependencies     map[string]string `json:"peerDependencies"`
		Scripts              map[string]string `json:"scripts"`
		Workspaces           any               `json:"workspaces"`
	}
	text, err := read(tree, manifestName)
	if err != nil {
		return Inputs{}, err
	}
	if len(strings.TrimSpace(string(text))) == 0 {
		return Inputs{}, nil
	}
	if err := json.Unmarshal(text, &manifest); err != nil {
		return Inputs{}, fmt.Errorf("%w: %s: %w", ErrManifest, manifestName, err)
	}
	scripted := slices.ContainsFunc(lifecycle, func(name string) bool { return manifest.Scripts[name] != "" })
	// npm compiles what has a binding.gyp, without any script.
	whole := scripted || manifest.Workspaces != nil || has["binding.gyp"]
	wanted := whole
	for _, group := range []map[string]string{manifest.Dependencies, manifest.OptionalDependencies, manifest.PeerDependencies} {
		for _, spec := range group {
			wanted = true
			whole = whole || isLocal(spec)
		}
	}
	if !wanted {
		return Inputs{Locked: locked}, nil
	}
	inputs := Inputs{Locked: locked}
	for _, file := range tree.Files {
		if whole || file.Path == manifestName || file.Path == projectRC || slices.Contains(lockNames, file.Path) {
			inputs.Files = append(inputs.Files, file.Path)
		}
	}
	return inputs, nil
}

// isLocal reports whether a dependency is a path: what lies there may name
// further paths.
func isLocal(spec string) bool {
	for _, prefix := range []string{"file:", "link:", "workspace:", ".", "/", "~/"} {
		if strings.HasPrefix(spec, prefix) {
			return true
		}
	}
	return false
}

// Key is the hash of what the package manager sees: the inputs, and what of the
// plan shapes its work. 64 hexadecimal digits.
func Key(plan builder.Plan, platform string, tree *gitsource.Tree, inputs Inputs) (string, error) {
	type input struct {
		Path, Symlink, SHA256 string
		Executable            bool
	}
	_, base, _ := strings.Cut(plan.Base, "@")
	shape := struct {
		Runtime, Base, Platform string
		Recipe                  int
		// A rebuild that somebody asks for installs anew: that is what it is for.
		Rebuild string
		Inputs  []input
	}{plan.Runtime, base, platform, plan.Recipe, plan.Rebuild, nil}
	for _, file := range tree.Files {
		if !slices.Contains(inputs.Files, file.Path) {
			continue
		}
		in := input{Path: file.Path, Symlink: file.Symlink, Executable: file.Executable}
		if file.Symlink == "" {
			text, err := read(tree, file.Path)
			if err != nil {
				return "", err
			}
			sum := sha256.Sum256(text)
			in.SHA256 = hex.EncodeToString(sum[:])
		}
		shape.Inputs = append(shape.Inputs, in)
	}
	text, err := json.Marshal(shape)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

func read(tree *gitsource.Tree, path string) ([]byte, error) {
	file, err := tree.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	defer file.Close()
	text, err := io.ReadAll(file)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return text, nil
}
