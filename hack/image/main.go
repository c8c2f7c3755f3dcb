// Command image assembles gitfn's container images without Docker: from Debian packages, npm
// packages and Go programs to an OCI layout in a tar, or straight into a registry. The same
// inputs give the same digest. It runs nothing of what it packs, and writes only to the output
// directory, the registry and the user's cache directory.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	options, err := parseOptions(os.Args[1:], os.Stderr)
	if err == nil {
		err = run(ctx, options, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		stop()
		os.Exit(1)
	}
}
