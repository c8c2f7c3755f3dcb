// Command manager is gitfn's controller: it watches Functions and brings them
// from their source to a running Deployment. In go flags and one configuration
// file; out comes an exit code. It never reads the environment itself.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	var options Options
	flags := flag.NewFlagSet("manager", flag.ContinueOnError)
	options.Bind(flags)
	err := flags.Parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err == nil {
		err = run(ctx, options)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gitfn manager:", err)
		os.Exit(1)
	}
}
