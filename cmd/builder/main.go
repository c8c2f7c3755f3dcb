// Command builder is the program of the build Job: it fetches, installs and
// pushes, one stage a container. In go a stage and its flags; out comes an exit
// code, and a report as the container's termination message.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/gitfn/gitfn/builder/executor"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	code := executor.Run(ctx, os.Args[1:], os.Environ(), os.Stdout)
	stop()
	os.Exit(code)
}
