package builder

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"

	"github.com/gitfn/gitfn/gitsource"
)

// Recipe is the version of how images are put together: the order of layers,
// the modes of files, the commands of the package managers. It joins every key,
// so raise it only when the same inputs must give another image.
const Recipe = 1

// Origin says where the files of a plan come from. It is no part of the key:
// the same tree from another commit, repository or from inline strings is the
// same image. It never holds credentials.
type Origin struct {
	// URL of the Git repository, without user information. Empty for an inline source.
	URL string `json:"url,omitempty"`
	// Commit is the full id to fetch, 40 hexadecimal digits.
	Commit string `json:"commit,omitempty"`
	// BaseDir is the directory below the root of the repository; empty is the root.
	BaseDir string `json:"baseDir,omitempty"`
	// Include lists further paths that join the tree, as in gitsource.Selection.
	Include []gitsource.Include `json:"include,omitempty"`
	// Submodules says that submodules join the tree.
	Submodules bool `json:"submodules,omitempty"`
}

// Inline reports whether the files are strings of the Function.
func (o Origin) Inline() bool { return o.URL == "" }

// Plan is everything that a build depends on, and where its image goes. Plans
// are values: print, compare and copy them. A Plan stands in the arguments of
// the build Job as JSON, so it never holds a secret.
type Plan struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Tree is the Git object id of the files.
	Tree   string `json:"tree"`
	Origin Origin `json:"origin"`
	// Runtime is a name of the catalogue.
	Runtime string `json:"runtime"`
	// Base is the base image by digest, as build Pods reach it.
	Base string `json:"base"`
	// Recipe is the constant of that name when the plan was made.
	Recipe int `json:"recipe"`
	// Rebuild is the value of the annotation that asks for another build.
	Rebuild string `json:"rebuild,omitempty"`
	// Repository is where the image goes, without tag, as build Pods reach it:
	// "<registry>/<namespace>/<name>".
	Repository string `json:"repository"`
}

// Key is the hash of what shapes the image: 64 hexadecimal digits, fit for a
// tag. Neither names nor times nor the commit are in it.
func (p Plan) Key() string {
	// A struct has a fixed order of fields, so its JSON is canonical.
	shape, err := json.Marshal(struct {
		Tree, Runtime, Base string
		Recipe              int
		Rebuild             string
	}{p.Tree, p.Runtime, digestOf(p.Base), p.Recipe, p.Rebuild})
	if err != nil {
		panic(err) // strings and an int always marshal
	}
	sum := sha256.Sum256(shape)
	return hex.EncodeToString(sum[:])
}

// Pin is the reference that the plan's image is pushed to.
func (p Plan) Pin() string { return p.Repository + ":" + p.Key() }

// Change names one thing in which two plans differ.
type Change string

// What can differ between the plan that runs and the plan that is wanted.
const (
	ChangeFirst   Change = "First"   // nothing was built before
	ChangeSource  Change = "Source"  // the tree
	ChangeRuntime Change = "Runtime" // the runtime's name
	ChangeBase    Change = "Base"    // the digest of the base image
	ChangeRecipe  Change = "Recipe"  // how gitfn puts images together
	ChangeRebuild Change = "Rebuild" // somebody asked by annotation
)

// Changes answers "why does it build?": what differs between the two plans, in
// a fixed order. A last plan without a tree gives ChangeFirst alone; equal plans give nothing.
func Changes(last, next Plan) []Change {
	if last.Tree == "" {
		return []Change{ChangeFirst}
	}
	var changes []Change
	for _, row := range []struct {
		differs bool
		change  Change
	}{
		{last.Tree != next.Tree, ChangeSource},
		{last.Runtime != next.Runtime, ChangeRuntime},
		{digestOf(last.Base) != digestOf(next.Base), ChangeBase},
		{last.Recipe != next.Recipe, ChangeRecipe},
		{last.Rebuild != next.Rebuild, ChangeRebuild},
	} {
		if row.differs {
			changes = append(changes, row.change)
		}
	}
	return changes
}

// BaseDigest is the digest of the base image alone, wherever it is: "sha256:…".
func (p Plan) BaseDigest() string { return digestOf(p.Base) }

func digestOf(image string) string {
	if _, digest, found := strings.Cut(image, "@"); found {
		return digest
	}
	return image
}
