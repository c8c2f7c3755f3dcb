package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// workshop assembles images with one set of options.
type workshop struct {
	cache   cache
	options Options
}

// recipe assembles the image of a name.
type recipe func(ctx context.Context, w *workshop, name string) (v1.Image, error)

// recipes are the images that can be asked for.
var recipes = func() map[string]recipe {
	all := map[string]recipe{
		"manager":          programImage("65532:65532", "./cmd/manager"),
		"builder":          programImage("10001:10001", "./cmd/builder"),
		"registry":         registryImage,
		"registry-gateway": programImage("65532:65532", "./cmd/registry-gateway"),
	}
	for name := range nodes {
		all[name] = nodeImage
	}
	for name := range pythons {
		all[name] = pythonImage
	}
	return all
}()

func knownImages() []string { return slices.Sorted(maps.Keys(recipes)) }

const pathVariable = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

func (w *workshop) build(ctx context.Context, name string) (v1.Image, error) {
	return recipes[name](ctx, w, name)
}

// layer gives the layer for inputs, made by content unless it is in the cache.
func (w *workshop) layer(kind string, inputs any, content func() (tree, error)) (v1.Layer, error) {
	dir, err := w.cache.folder(kind, inputs, func(dir string) error {
		t, err := content()
		if err != nil {
			return err
		}
		return writeLayer(dir, t)
	})
	if err != nil {
		return nil, err
	}
	return readLayer(dir)
}

// assemble makes an OCI image for linux/amd64 of layers, with no time in it.
func assemble(config v1.Config, layers ...v1.Layer) (v1.Image, error) {
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err := mutate.AppendLayers(img, layers...)
	if err != nil {
		return nil, err
	}
	file, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture = "linux", "amd64"
	file.Created = v1.Time{Time: time.Unix(0, 0).UTC()}
	file.Config = config
	for i := range file.History {
		file.History[i].Created = file.Created
	}
	return mutate.ConfigFile(img, file)
}

// programImage holds static Go programs in /gitfn and nothing else but certificates, accounts
// and an empty /tmp. The first program is the entrypoint.
func programImage(user string, packages ...string) recipe {
	return func(ctx context.Context, w *workshop, name string) (v1.Image, error) {
		programs := tree{}
		for _, p := range packages {
			data, err := w.compile(ctx, p)
			if err != nil {
				return nil, err
			}
			programs.addFile("gitfn/"+filepath.Base(p), 0o755, data)
		}
		return w.plainImage(ctx, name, programs, v1.Config{
			User:       user,
			WorkingDir: "/",
			Env:        []string{"PATH=/gitfn"},
			Entrypoint: []string{"/gitfn/" + filepath.Base(packages[0])},
		})
	}
}

func registryImage(ctx context.Context, w *workshop, name string) (v1.Image, error) {
	data, err := os.ReadFile(w.options.RegistryBinary)
	if err != nil {
		return nil, err
	}
	programs := tree{}
	programs.addFile("bin/registry", 0o755, data)
	programs.addDir("etc/distribution", 0o755)
	return w.plainImage(ctx, name, programs, v1.Config{
		User:         "65532:65532",
		WorkingDir:   "/",
		Env:          []string{"PATH=/bin"},
		Entrypoint:   []string{"/bin/registry", "serve", "/etc/distribution/config.yml"},
		ExposedPorts: map[string]struct{}{"5000/tcp": {}},
	})
}

// plainImage puts programs above a layer with what every program expects of a machine.
func (w *workshop) plainImage(ctx context.Context, name string, programs tree, config v1.Config) (v1.Image, error) {
	certificates, err := w.certificates(ctx)
	if err != nil {
		return nil, err
	}
	base := tree{}
	base.addFile(certificatePath, 0o644, certificates)
	base.addFile("etc/passwd", 0o644, []byte(accounts))
	base.addFile("etc/group", 0o644, []byte(groups))
	base.addDir("tmp", 0o777|os.ModeSticky)
	bottom, err := w.layer("plain", base.hashes(), func() (tree, error) { return base, nil })
	if err != nil {
		return nil, err
	}
	top, err := w.layer(name, programs.hashes(), func() (tree, error) { return programs, nil })
	if err != nil {
		return nil, err
	}
	return assemble(config, bottom, top)
}

// compile gives the static linux/amd64 program of a package of the gitfn module. Go's own build
// cache makes the second time cheap.
func (w *workshop) compile(ctx context.Context, pkg string) ([]byte, error) {
	// A folder of its own for each checkout: two of them may build at the same time.
	source, err := filepath.Abs(w.options.SourceDir)
	if err != nil {
		return nil, err
	}
	checkout := sha256.Sum256([]byte(source))
	out := filepath.Join(w.cache.dir, "bin", hex.EncodeToString(checkout[:])[:12], filepath.Base(pkg))
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false",
		"-ldflags", "-s -w -X main.version="+w.options.Version, "-o", out, pkg)
	cmd.Dir = source
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64", "GOFLAGS=")
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build %s: %w: %s", pkg, err, text)
	}
	return os.ReadFile(out)
}
