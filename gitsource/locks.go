package gitsource

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
)

// manifest is what packages are listed in, and which lock files go with it.
type manifest struct {
	name string
	own  []string // that count beside it
	// above is what people keep in a directory above for many manifests, and what to do instead.
	above []struct{ name, cure string }
}

// manifests are those of the runtimes that there are. A requirements.txt has no lock file: it may be one itself.
var manifests = []manifest{{
	name: "package.json",
	own:  []string{"package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml"}, // the last two are refused with a sentence
	above: []struct{ name, cure string }{
		{"package-lock.json", npmCure},
		{"npm-shrinkwrap.json", npmCure},
		{"yarn.lock", "packages are installed by npm; " + npmCure},
		{"pnpm-lock.yaml", "packages are installed by npm; " + npmCure},
	},
}}

// npmCure does not speak of include: npm refuses the lock file of a workspace beside the manifest of one member.
const npmCure = "make a package-lock.json beside it (npm install --package-lock-only --workspaces=false)"

// locksAbove warns of the nearest lock file above a base directory that has a manifest and no lock file. The part of the
// base directory is in use.
func locksAbove(base spot, tree plumbing.Hash) ([]string, error) {
	if base.path == "" {
		return nil, nil
	}
	there, err := namesIn(base.part.from, tree)
	if err != nil {
		return nil, err
	}
	var warnings []string
	for _, m := range manifests {
		if !there[m.name] || slices.ContainsFunc(m.own, func(name string) bool { return there[name] }) {
			continue
		}
		warning, err := m.lockAbove(base)
		if err != nil {
			return nil, err
		}
		if warning != "" {
			warnings = append(warnings, warning)
		}
	}
	return warnings, nil
}

// lockAbove looks for a lock file in the directories above, the nearest first.
func (m manifest) lockAbove(base spot) (warning string, err error) {
	dirs, ids := []string{"the root of the repository"}, []plumbing.Hash{base.part.root}
	parts := strings.Split(base.path, "/")
	for i, name := range parts[:len(parts)-1] {
		below, _, err := findEntry(base.part.from, ids[i], name)
		if err != nil {
			return "", err
		}
		dirs, ids = append(dirs, strconv.Quote(path.Join(parts[:i+1]...))), append(ids, below.id)
	}
	for i := len(ids) - 1; i >= 0; i-- {
		there, err := namesIn(base.part.from, ids[i])
		if err != nil {
			return "", err
		}
		for _, lock := range m.above {
			if there[lock.name] {
				return fmt.Sprintf("%s in %s is not used, because %q has a %s of its own without a lock file: %s", lock.name, dirs[i], base.path, m.name, lock.cure), nil
			}
		}
	}
	return "", nil
}

// namesIn says which names of manifests and lock files a directory has.
func namesIn(from objectReader, dir plumbing.Hash) (map[string]bool, error) {
	there := map[string]bool{}
	err := eachEntry(from, dir, func(e entry) (bool, error) {
		for _, m := range manifests {
			if e.name == m.name || slices.Contains(m.own, e.name) {
				there[e.name] = true
			}
		}
		return true, nil
	})
	return there, err
}
