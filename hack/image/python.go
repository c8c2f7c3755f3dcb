package main

import (
	"context"
	"fmt"
	"path"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// pythonRecipe is one version of Python, which is that of a Debian.
type pythonRecipe struct {
	// Version is what the suite's package python3 is expected to be: "3.13".
	Version string
	Root    debianRecipe
}

// pythons name what runtimes/python/requirements.txt names, from Debian; pip, and what sdists are
// built with; and the few commands that those use.
var pythons = map[string]pythonRecipe{
	"runtime-python313": {"3.13", debianRecipe{
		Version: 2,
		Suite:   "trixie",
		Packages: []string{
			"base-files", "ca-certificates", "coreutils", "dash", "findutils", "grep", "libatomic1", "libstdc++6", "mawk", "sed",
			"python3", "python3-bottle", "python3-cheroot", "python3-pip", "python3-requests", "python3-setuptools", "python3-wheel",
		},
		Bytecode: []string{"/usr/lib/python3.13", "/usr/lib/python3/dist-packages"},
	}},
}

// pythonImage assembles a runtime image: Debian with Python and pip, our server.
func pythonImage(ctx context.Context, w *workshop, name string) (v1.Image, error) {
	recipe := pythons[name]
	root, err := w.debianLayer(ctx, recipe.Root)
	if err != nil {
		return nil, err
	}
	server, err := w.pythonServerLayer()
	if err != nil {
		return nil, err
	}
	return assemble(v1.Config{
		User:       "1000",
		WorkingDir: "/" + appDir,
		Env: []string{
			pathVariable, "PYTHON_VERSION=" + recipe.Version, "PYTHONUNBUFFERED=1", "PYTHONDONTWRITEBYTECODE=1",
			"KUBELESS_INSTALL_VOLUME=/kubeless",
		},
		Cmd:          []string{"python3", "-m", "gitfn_runtime"},
		ExposedPorts: map[string]struct{}{"8080/tcp": {}},
	}, root, server)
}

// pythonServerLayer gives the layer with runtimes/python and the folder of the Function.
func (w *workshop) pythonServerLayer() (v1.Layer, error) {
	source := tree{}
	dir := filepath.Join(w.options.SourceDir, "runtimes", "python")
	if err := source.addFolder(dir, ".", func(p string) bool {
		switch path.Base(p) {
		case "tests", "__pycache__", "README.md", "Dockerfile", ".dockerignore", "requirements.txt":
			return true
		}
		return false
	}); err != nil {
		return nil, err
	}
	delete(source, ".")
	if _, ok := source["gitfn_runtime/__main__.py"]; !ok {
		return nil, fmt.Errorf("%s holds no server", dir)
	}
	t := tree{}
	for p, e := range source {
		t[path.Join(appDir, p)] = e
	}
	t.addDir("kubeless", 0o755)
	t.addLink("usr/local/bin/python", "../../bin/python3")
	return w.layer("python-server", t.hashes(), func() (tree, error) { return t, nil })
}
