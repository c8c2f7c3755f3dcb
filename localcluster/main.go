// Command localcluster runs a real Kubernetes on this machine, from Go modules and Debian packages alone.
//
// In goes a verb and the name of a cluster; out comes a running cluster, or JSON that tells where to
// find it. It never downloads a prebuilt program, and never changes anything on the machine that `down`
// does not put back, except its cache of programs.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/gitfn/gitfn/localcluster/node"
)

func main() {
	os.Exit(run())
}

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	err := dispatch(ctx, os.Args[1:], os.Stdout, os.Stderr)
	if code, ended := node.ExitCode(err); ended {
		return code
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "localcluster:", err)
		return 1
	}
	return 0
}
