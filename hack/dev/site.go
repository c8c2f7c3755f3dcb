package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// site is a cluster to work on.
type site struct {
	// Local is what the local cluster says of itself; zero for the current context.
	Local localFacts
	// Current is true for the cluster of the current kubectl context.
	Current bool
	// Images is where gitfn's images are pushed to, for the current context.
	Images string

	kubectlPath string
}

// localFacts is what the program localcluster says of a cluster.
type localFacts struct {
	Name              string `json:"name"`
	Kubeconfig        string `json:"kubeconfig"`
	Kubectl           string `json:"kubectl"`
	NodeIP            string `json:"nodeIP"`
	HostIP            string `json:"hostIP"`
	PodCIDR           string `json:"podCIDR"`
	ServiceCIDR       string `json:"serviceCIDR"`
	GitHTTP           string `json:"gitHTTP"`
	GitUser           string `json:"gitUser"`
	GitPassword       string `json:"gitPassword"`
	GitSSH            string `json:"gitSSH"`
	GitSSHKey         string `json:"gitSSHKey"`
	GitSSHKnownHosts  string `json:"gitSSHKnownHosts"`
	GitSSHAuthorized  string `json:"gitSSHAuthorizedKeys"`
	Ctr               string `json:"ctr"`
	ContainerdAddress string `json:"containerdAddress"`
	RegistryBinary    string `json:"registryBinary"`
	KubebuilderAssets string `json:"kubebuilderAssets"`
}

// open starts the local cluster, or looks at the current context.
func open(ctx context.Context, steps *steps, name, which, images string) (*site, error) {
	if which == "current" {
		if images == "" {
			return nil, errors.New("CLUSTER=current needs IMAGES=registry/path: gitfn's images are pushed there, and the cluster's nodes pull them")
		}
		site, err := lookUp(ctx, name, which)
		if err == nil {
			site.Images = images
		}
		return site, err
	}
	if which != "" {
		return nil, fmt.Errorf("CLUSTER is %q: leave it empty for the local cluster, or set it to current", which)
	}
	if err := steps.do("the local cluster "+name+" is up", func() error {
		return local(ctx, io.Discard, "up", "--name", name)
	}); err != nil {
		return nil, err
	}
	return lookUp(ctx, name, which)
}

// lookUp finds a cluster that runs.
func lookUp(ctx context.Context, name, which string) (*site, error) {
	if which == "current" {
		kubectl, err := exec.LookPath("kubectl")
		if err != nil {
			return nil, errors.New("CLUSTER=current needs kubectl in the path")
		}
		return &site{Current: true, kubectlPath: kubectl}, nil
	}
	var out bytes.Buffer
	if err := local(ctx, &out, "info", "--name", name); err != nil {
		return nil, err
	}
	site := &site{}
	if err := json.Unmarshal(out.Bytes(), &site.Local); err != nil {
		return nil, fmt.Errorf("read what localcluster says: %w", err)
	}
	site.kubectlPath = site.Local.Kubectl
	return site, nil
}

// local runs the program localcluster, which is a module of its own.
func local(ctx context.Context, out io.Writer, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", append([]string{"run", "."}, args...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = filepath.Join(root(), "localcluster"), out, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("localcluster %s: %w", args[0], err)
	}
	return nil
}

// root is the directory of the gitfn module.
func root() string {
	dir, err := os.Getwd()
	for ; err == nil && dir != "/"; dir = filepath.Dir(dir) {
		text, readErr := os.ReadFile(filepath.Join(dir, "go.mod"))
		if readErr == nil && strings.HasPrefix(string(text), "module github.com/gitfn/gitfn\n") {
			return dir
		}
	}
	return "."
}

// kubectl runs kubectl on the site.
func (s *site) kubectl(ctx context.Context, stdin string, args ...string) (string, error) {
	if s.Local.Kubeconfig != "" {
		args = append([]string{"--kubeconfig", s.Local.Kubeconfig}, args...)
	}
	return command(ctx, strings.NewReader(stdin), "", s.kubectlPath, args...)
}

// ctr runs containerd's client on the node of the local cluster.
func (s *site) ctr(ctx context.Context, args ...string) (string, error) {
	args = append([]string{"--address", s.Local.ContainerdAddress, "--namespace", "k8s.io"}, args...)
	return command(ctx, nil, "", s.Local.Ctr, args...)
}
