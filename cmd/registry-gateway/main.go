// Command registry-gateway gives tokens for the internal registry and passes
// everything else on to it.
//
//	registry-gateway init    writes the key set that the registry believes, and ends
//	registry-gateway         serves
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(start(ctx, os.Args[1:], os.Stderr))
}

func start(ctx context.Context, args []string, out io.Writer) int {
	o := defaults()
	action := run
	if len(args) > 0 && args[0] == "init" {
		action, args = writeJWKS, args[1:]
	}
	flags := flag.NewFlagSet("registry-gateway", flag.ContinueOnError)
	flags.SetOutput(out)
	o.bind(flags)
	if flags.Parse(args) != nil {
		return 2
	}
	if err := o.Validate(); err != nil {
		fmt.Fprintln(out, err)
		return 2
	}
	if err := action(ctx, o, slog.New(slog.NewJSONHandler(out, nil))); err != nil {
		fmt.Fprintln(out, err)
		return 1
	}
	return 0
}
