// Package runtimes is the table of language runtimes that Functions may name.
//
// In goes configuration: which base image, by digest, each runtime uses on this
// cluster. Out comes a Catalogue that says for a runtime's name which files its
// handlers have, where they lie in the image and what environment the server
// expects. It is data: it never reads a registry, a cluster or a file.
package runtimes

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Language is the family that decides how dependencies are installed.
type Language string

// NodeJS runtimes install package.json with npm.
const NodeJS Language = "nodejs"

// Python runtimes install requirements.txt, or the dependencies of pyproject.toml, with pip.
const Python Language = "python"

// EnvVar is one variable of the server's environment.
type EnvVar struct{ Name, Value string }

// Runtime is one row of the catalogue.
type Runtime struct {
	// Name is what a Function says in spec.runtime, for example "nodejs22".
	Name string
	// Language decides the package manager.
	Language Language
	// EndOfLife is the day, "2027-04-30", after which those who make the language
	// mend nothing in this version. Functions go on working after it.
	EndOfLife string
	// Image is the base image, by digest: "host/repository@sha256:…". Empty
	// means that this cluster has not been given one, see Catalogue.WithImages.
	Image string
	// Handler is the file that must export main.
	Handler string
	// Manifest is the file that lists the dependencies. It is optional in a
	// source, except where the lock file is there.
	Manifest string
	// Dir is the directory of the image that holds the Function's files.
	Dir string
	// Modules is the folder below Dir that the package manager fills:
	// "node_modules", "lib/python3.13/site-packages".
	Modules string
	// Env is what the server needs to find the handler.
	Env []EnvVar
}

// Digest is the digest of the base image, "sha256:…", or empty.
func (r Runtime) Digest() string {
	_, digest, _ := strings.Cut(r.Image, "@")
	return digest
}

// Catalogue maps a runtime's name to its row. It is safe for concurrent reading.
type Catalogue map[string]Runtime

// Default is the catalogue that gitfn ships. Its rows have no images: those
// belong to the cluster.
func Default() Catalogue {
	rows := Catalogue{}
	for _, row := range []Runtime{
		node("nodejs20", "2026-04-30"),
		node("nodejs22", "2027-04-30"),
		node("nodejs24", "2028-04-30"),
		// From here on a handler is main(req, res) and imports the package sdk.
		node("nodejs26", "2029-04-30", EnvVar{"HANDLER_API", "sdk"}),
		python("python312", "3.12", "2028-10-31"),
		python("python313", "3.13", "2029-10-31"),
	} {
		rows[row.Name] = row
	}
	return rows
}

// python is a row whose server is of the generation with event and context.
func python(name, version, endOfLife string) Runtime {
	modules := "lib/python" + version + "/site-packages"
	return Runtime{
		Name: name, Language: Python, EndOfLife: endOfLife,
		Handler: "handler.py", Manifest: "requirements.txt",
		Dir: "/kubeless", Modules: modules,
		Env: []EnvVar{
			{"PYTHONPATH", "/kubeless/" + modules + ":/kubeless"},
			{"FUNCTION_PATH", "/kubeless"},
			{"PYTHONUNBUFFERED", "TRUE"},
		},
	}
}

func node(name, endOfLife string, env ...EnvVar) Runtime {
	return Runtime{
		Name: name, Language: NodeJS, EndOfLife: endOfLife,
		Handler: "handler.js", Manifest: "package.json",
		Dir: "/usr/src/app/function", Modules: "node_modules",
		Env: append([]EnvVar{{"HANDLER_PATH", "./function/handler.js"}}, env...),
	}
}

// imageByDigest wants a digest, because a tag may move between two builds of
// one key.
var imageByDigest = regexp.MustCompile(`^[^\s@]+@sha256:[0-9a-f]{64}$`)

// WithImages returns a copy of the catalogue whose rows have the images given
// by name. An unknown name or an image without digest is an error.
func (c Catalogue) WithImages(images map[string]string) (Catalogue, error) {
	with := maps.Clone(c)
	for _, name := range slices.Sorted(maps.Keys(images)) {
		row, known := with[name]
		if !known {
			return nil, fmt.Errorf("read runtime images: there is no runtime %q; known are %s", name, strings.Join(c.Names(), ", "))
		}
		if !imageByDigest.MatchString(images[name]) {
			return nil, fmt.Errorf("read runtime images: image %q of runtime %s must end with @sha256:<digest>", images[name], name)
		}
		row.Image = images[name]
		with[name] = row
	}
	return with, nil
}

// Names lists the runtimes in order.
func (c Catalogue) Names() []string { return slices.Sorted(maps.Keys(c)) }
