// Package binaries builds the programs of a cluster from pinned modules and keeps them in a cache.
//
// In go the nested modules below assets/; out come directories of static programs, one per module, named
// by a hash of everything that made them. It never downloads a prebuilt program and never changes a
// directory once it stands under its final name.
package binaries

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// Program is one executable: the name it gets and the Go package it is built from.
type Program struct {
	Name, Package string
}

// Set is the programs of one nested module, kept in one directory.
type Set struct {
	// Module is the folder below assets.
	Module string
	// LinkerFlags are handed to every link of the set.
	LinkerFlags string
	Programs    []Program
}

const kubernetesVersion = "v1.36.3"

// Sets is everything a cluster is made of, in the order in which it is built.
var Sets = []Set{
	{
		Module: "kubernetes",
		// Clients choke on the version string that a build without these has.
		LinkerFlags: "-s -w -X k8s.io/component-base/version.gitVersion=" + kubernetesVersion +
			" -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36",
		Programs: []Program{
			{"kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"},
			{"kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager"},
			{"kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler"},
			{"kubelet", "k8s.io/kubernetes/cmd/kubelet"},
			{"kube-proxy", "k8s.io/kubernetes/cmd/kube-proxy"},
			{"kubectl", "k8s.io/kubernetes/cmd/kubectl"},
			{"etcd", "go.etcd.io/etcd/server/v3"},
			{"bridge", "github.com/containernetworking/plugins/plugins/main/bridge"},
			{"host-local", "github.com/containernetworking/plugins/plugins/ipam/host-local"},
			{"loopback", "github.com/containernetworking/plugins/plugins/main/loopback"},
			{"portmap", "github.com/containernetworking/plugins/plugins/meta/portmap"},
			{"registry", "github.com/distribution/distribution/v3/cmd/registry"},
		},
	},
	{
		// Not in the list above: its CRI API clashes with the one of Kubernetes.
		Module:      "containerd",
		LinkerFlags: "-s -w -X github.com/containerd/containerd/v2/version.Version=v2.2.1",
		Programs: []Program{
			{"containerd", "github.com/containerd/containerd/v2/cmd/containerd"},
			{"containerd-shim-runc-v2", "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2"},
			{"ctr", "github.com/containerd/containerd/v2/cmd/ctr"},
		},
	},
	{Module: "coredns", LinkerFlags: "-s -w", Programs: []Program{{"coredns", "."}}},
	{Module: "pause", LinkerFlags: "-s -w", Programs: []Program{{"pause", "."}}},
}

// Cache is where built sets are kept, and where their sources are. All fields are required.
type Cache struct {
	// Dir is the directory that holds one directory per built set. It is created when missing.
	Dir string
	// Sources is the folder of the nested modules.
	Sources string
	// Progress gets one line per step.
	Progress io.Writer
}

// Sources returns the folder with the nested modules, beside this package's own source. It fails when the
// program was built with -trimpath or its source is gone: then it cannot build anything.
func Sources() (string, error) {
	_, file, _, _ := runtime.Caller(0)
	dir := filepath.Join(filepath.Dir(filepath.Dir(file)), "assets")
	if _, err := os.Stat(dir); err != nil || !filepath.IsAbs(dir) {
		return "", fmt.Errorf("find the sources at %q: not there; run this program by `go run .` in the folder localcluster of the checkout", dir)
	}
	return dir, nil
}

// Ensure returns the directory of every set by module name, building what is missing. Two processes that
// call it at once build only once: the second waits for the first.
func (c Cache) Ensure(ctx context.Context) (Dirs, error) {
	dirs := Dirs{}
	missing := false
	for _, s := range Sets {
		key, err := c.key(s)
		if err != nil {
			return nil, err
		}
		dirs[s.Module] = filepath.Join(c.Dir, s.Module+"-"+key)
		if _, err := os.Stat(dirs[s.Module]); err != nil {
			missing = true
		}
	}
	if !missing {
		return dirs, nil
	}
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return nil, err
	}
	unlock, err := Lock(filepath.Join(c.Dir, "lock"))
	if err != nil {
		return nil, err
	}
	defer unlock()
	for _, s := range Sets {
		if err := c.build(ctx, s, dirs[s.Module]); err != nil {
			return nil, err
		}
	}
	return dirs, nil
}

// build makes one set in a temporary directory and gives it its name when it is whole.
func (c Cache) build(ctx context.Context, s Set, dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	temp, err := os.MkdirTemp(c.Dir, ".building-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	for _, p := range s.Programs {
		start := time.Now()
		cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false",
			"-ldflags", s.LinkerFlags, "-o", filepath.Join(temp, p.Name), p.Package)
		cmd.Dir = filepath.Join(c.Sources, s.Module)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=")
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s in %s: %w\n%s", p.Name, cmd.Dir, err, strings.TrimSpace(string(out)))
		}
		fmt.Fprintf(c.Progress, "built %s in %.0f s\n", p.Name, time.Since(start).Seconds())
	}
	if s.Module == "pause" {
		if err := writePauseImage(filepath.Join(temp, "pause"), filepath.Join(temp, "pause.tar")); err != nil {
			return fmt.Errorf("write the pause image: %w", err)
		}
	}
	if err := os.Chmod(temp, 0o755); err != nil {
		return err
	}
	return os.Rename(temp, dir)
}

// key hashes what decides about the content of a set: its module files and sources, the flags, the
// compiler.
func (c Cache) key(s Set) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, runtime.Version(), runtime.GOARCH, s.LinkerFlags, s.Programs)
	names, err := filepath.Glob(filepath.Join(c.Sources, s.Module, "*"))
	if err != nil || len(names) == 0 {
		return "", fmt.Errorf("read module %s in %s: nothing there; is the checkout whole?", s.Module, c.Sources)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		fmt.Fprintln(h, filepath.Base(name), len(data))
		h.Write(data)
	}
	return hex.EncodeToString(h.Sum(nil))[:12], nil
}

// Lock takes an exclusive lock on a file, waiting for whoever holds it, and returns what gives it back.
// The kernel gives it back too when the process ends.
func Lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if err != syscall.EINTR {
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { f.Close() }, nil
}
