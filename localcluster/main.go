// Command localcluster runs a real Kubernetes on this machine, from Go modules and Debian packages alone.
//
// In goes a verb and the name of a cluster; out comes a running cluster, or JSON that tells where to
// find it. It never downloads a prebuilt program, and never changes anything on the machine that `down`
// does not put back, except its cache of programs.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	os.Exit(run())
}

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	// A root shell opened by plain su lacks the directories of ip, nft and iptables.
	os.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin")
	err := dispatch(ctx, os.Args[1:], os.Stdout, os.Stderr)
	var status exitStatus
	if errors.As(err, &status) {
		return int(status)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "localcluster:", err)
		return 1
	}
	return 0
}
