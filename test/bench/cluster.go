package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// facts is what hack/dev says of a cluster with gitfn in it.
type facts struct {
	Kubeconfig string `json:"kubeconfig"`
	Kubectl    string `json:"kubectl"`
	GitHTTP    string `json:"gitHTTP"`
	HookURL    string `json:"hookURL"`
	HookSecret string `json:"hookSecret"`
}

// up starts the cluster, or finds it running, and brings gitfn up to date there.
func up(ctx context.Context, name string) (facts, error) {
	var f facts
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", "run", "./hack/dev", "up", "--name", name)
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	if err := cmd.Run(); err != nil {
		return f, fmt.Errorf("bring up cluster %s by \"go run ./hack/dev up\", from the top of the repository: %w", name, err)
	}
	if err := json.Unmarshal(out.Bytes(), &f); err != nil {
		return f, fmt.Errorf("read what hack/dev says of cluster %s: %w", name, err)
	}
	if f.GitHTTP == "" {
		return f, errors.New("the cluster has no Git server to push to: only local clusters can be measured; unset CLUSTER")
	}
	return f, nil
}

// connect makes a client that can watch. Functions are read as unstructured.
func connect(f facts) (client.WithWatch, error) {
	config, err := clientcmd.BuildConfigFromFlags("", f.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	config.QPS = -1 // our own requests must not wait in line
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme.Scheme})
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	return c, nil
}

// kubectl runs kubectl with a manifest as its input.
func (f facts) kubectl(ctx context.Context, stdin string, args ...string) error {
	_, err := command(ctx, stdin, "", f.Kubectl, append([]string{"--kubeconfig", f.Kubeconfig}, args...)...)
	return err
}

// command runs a program and returns what it printed. The error holds what it
// complained about.
func command(ctx context.Context, stdin, dir, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var out, complaints bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Dir = strings.NewReader(stdin), &out, &complaints, dir
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(complaints.String()))
	}
	return out.String(), nil
}
