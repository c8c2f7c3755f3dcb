package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// debianRecipe is all that the root file system depends on, but for the state of Debian's
// archive on the day it is made.
type debianRecipe struct {
	// Version moves whenever this file makes something else from the same packages.
	Version  int
	Suite    string
	Packages []string
	// Bytecode lists folders of Python modules that are compiled by the Python that is packed, for
	// whoever runs them cannot keep what he compiles. It is the only thing packed that is ever run.
	Bytecode []string `json:",omitempty"`
}

// debian has what Node.js links to, and the few commands that install scripts of npm packages
// use. Packages are only unpacked: nothing of them runs, and there is no package manager.
var debian = debianRecipe{
	Version: 1,
	Suite:   "trixie",
	Packages: []string{
		"base-files", "ca-certificates", "coreutils", "dash", "findutils", "grep", "libatomic1",
		"libgcc-s1", "libstdc++6", "mawk", "sed",
	},
}

const (
	certificatePath = "etc/ssl/certs/ca-certificates.crt"
	certificateFile = "ca-certificates.crt"
)

// accounts has a name for each user of ours: programs stumble over a uid without one.
const accounts = `root:x:0:0:root:/root:/bin/sh
node:x:1000:1000:node:/tmp:/bin/sh
function:x:10001:10001:function:/tmp:/bin/sh
nobody:x:65534:65534:nobody:/nonexistent:/bin/false
gitfn:x:65532:65532:gitfn:/tmp:/bin/false
`

const groups = `root:x:0:
node:x:1000:
function:x:10001:
nogroup:x:65534:
gitfn:x:65532:
`

// debianRoot gives the folder with the layer of a Debian's root, and its bundle of certificates.
func (w *workshop) debianRoot(ctx context.Context, recipe debianRecipe) (string, error) {
	return w.cache.folder("debian", recipe, func(dir string) error {
		// By the packages that the archive signs, not from this machine, which may trust others.
		args := []string{"--quiet", "--variant=extract", "--format=tar", "--include=" + strings.Join(recipe.Packages, ",")}
		if len(recipe.Bytecode) > 0 {
			// By hash and unchecked: a layer has no times that bytecode could be compared with. Some
			// modules are no valid Python, on purpose, so its exit code says nothing.
			args = append(args, `--extract-hook=chroot "$1" python3 -m compileall -q -j 1 --invalidation-mode unchecked-hash `+
				strings.Join(recipe.Bytecode, " ")+" >/dev/null || true")
		}
		cmd := exec.CommandContext(ctx, "mmdebstrap", append(args, recipe.Suite, "-")...)
		var root, complaint bytes.Buffer
		cmd.Stdout, cmd.Stderr = &root, &complaint
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("unpack Debian %s: %w: %s", recipe.Suite, err, complaint.String())
		}
		t, certificates, err := debianTree(&root)
		if err != nil {
			return fmt.Errorf("read the root of Debian %s: %w", recipe.Suite, err)
		}
		if err := os.WriteFile(filepath.Join(dir, certificateFile), certificates, 0o644); err != nil {
			return err
		}
		return writeLayer(dir, t)
	})
}

// debianTree gives what we keep of an unpacked Debian, and its trusted certificates in one file.
func debianTree(root io.Reader) (tree, []byte, error) {
	t := tree{}
	if err := t.addTar(root, func(p string) (string, bool) { return p, keepOfDebian(p) }); err != nil {
		return nil, nil, err
	}
	const trusted = "usr/share/ca-certificates/mozilla"
	var certificates []byte
	for _, p := range slices.Sorted(maps.Keys(t)) {
		if path.Dir(p) == trusted && path.Ext(p) == ".crt" {
			certificates = append(certificates, t[p].data...)
			delete(t, p)
		}
	}
	if len(certificates) == 0 {
		return nil, nil, fmt.Errorf("no certificates in %s", trusted)
	}
	t.addFile(certificatePath, 0o644, certificates)
	t.addFile("etc/passwd", 0o644, []byte(accounts))
	t.addFile("etc/group", 0o644, []byte(groups))
	t.addFile("etc/nsswitch.conf", 0o644, []byte("passwd: files\ngroup: files\nhosts: files dns\n"))
	if _, ok := t["usr/bin/mawk"]; ok {
		t.addLink("usr/bin/awk", "mawk")
	}
	return t, certificates, nil
}

// unusedOfPython are modules that no Function uses: tests, installers of pip, help texts.
var unusedOfPython = regexp.MustCompile(`^usr/lib/python3\.[0-9]+/(test|ensurepip|idlelib|lib2to3|pydoc_data|turtledemo)(/|$)`)

// keepOfDebian leaves out what only people or package managers read, programs that come by
// dependency alone, and files that mmdebstrap takes from the machine. Licences stay.
func keepOfDebian(p string) bool {
	if strings.HasPrefix(p, "usr/share/doc/") {
		return path.Base(p) == "copyright"
	}
	for _, dropped := range []string{
		"boot", "dev", "media", "mnt", "opt", "srv",
		"etc/apt", "etc/dpkg", "etc/fstab", "etc/hostname", "etc/resolv.conf", "etc/skel", "etc/update-motd.d",
		"usr/bin/openssl", "usr/bin/perl", "usr/games", "usr/include",
		"usr/lib/x86_64-linux-gnu/gconv", "usr/lib/x86_64-linux-gnu/perl-base",
		"usr/share/bash-completion", "usr/share/bug", "usr/share/debconf", "usr/share/info",
		"usr/share/lintian", "usr/share/locale", "usr/share/man", "usr/share/perl5",
		"var/cache", "var/lib", "var/log",
	} {
		if p == dropped || strings.HasPrefix(p, dropped+"/") {
			return false
		}
	}
	return !strings.HasPrefix(p, "usr/bin/perl5") && !unusedOfPython.MatchString(p)
}

func (w *workshop) debianLayer(ctx context.Context, recipe debianRecipe) (v1.Layer, error) {
	dir, err := w.debianRoot(ctx, recipe)
	if err != nil {
		return nil, err
	}
	return readLayer(dir)
}

// certificates gives the bundle of Debian's trusted certificates.
func (w *workshop) certificates(ctx context.Context) ([]byte, error) {
	dir, err := w.debianRoot(ctx, debian)
	if err != nil {
		return nil, err
	}
	return os.ReadFile(filepath.Join(dir, certificateFile))
}
