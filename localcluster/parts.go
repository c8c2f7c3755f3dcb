package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"

	"github.com/gitfn/gitfn/localcluster/binaries"
	"github.com/gitfn/gitfn/localcluster/node"
)

func control(verb string) func(context.Context, options, io.Writer, io.Writer) error {
	return func(ctx context.Context, o options, _, _ io.Writer) error {
		s, err := o.spec()
		if err != nil {
			return err
		}
		return node.Control(ctx, s.Dir, verb, o.args[0])
	}
}

func logs(_ context.Context, o options, stdout, _ io.Writer) error {
	f, err := os.Open(o.dir().Log(o.args[0]))
	if err != nil {
		return fmt.Errorf("read the log: %w; `info` lists the parts", err)
	}
	defer f.Close()
	_, err = io.Copy(stdout, f)
	return err
}

func load(ctx context.Context, o options, _, stderr io.Writer) error {
	s, err := o.spec()
	if err != nil {
		return err
	}
	for _, archive := range o.args {
		if err := node.ImportImage(ctx, s, archive); err != nil {
			return err
		}
		fmt.Fprintf(stderr, "loaded %s\n", archive)
	}
	return nil
}

// execute runs a command in the cluster's namespaces, with the cluster's programs first in PATH.
func execute(ctx context.Context, o options, stdout, stderr io.Writer) error {
	s, err := o.spec()
	if err != nil {
		return err
	}
	args := append([]string{"--target", strconv.Itoa(s.Dir.Supervisor().PID), "--mount", "--net", "--pid", "--uts", "--ipc", "--"}, o.args...)
	cmd := exec.CommandContext(ctx, "nsenter", args...)
	cmd.Env = append(os.Environ(), "PATH="+s.Binaries.Path(), "KUBECONFIG="+s.Dir.Kubeconfig())
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, stdout, stderr
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() > 0 {
		return exitStatus(exit.ExitCode())
	}
	return err
}

// exitStatus is the exit code of a command that ran for the user and has said itself what is wrong.
type exitStatus int

func (e exitStatus) Error() string { return fmt.Sprintf("the command ended with status %d", int(e)) }

func build(ctx context.Context, o options, stdout, stderr io.Writer) error {
	dirs, err := buildAll(ctx, o, stderr)
	if err == nil && o.assets {
		fmt.Fprintln(stdout, dirs.EnvtestAssets())
	}
	return err
}

func buildAll(ctx context.Context, o options, stderr io.Writer) (binaries.Dirs, error) {
	sources, err := binaries.Sources()
	if err != nil {
		return nil, err
	}
	return binaries.Cache{Dir: o.home.Binaries(), Sources: sources, Progress: stderr}.Ensure(ctx)
}
