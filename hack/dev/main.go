// Command dev runs gitfn the way a user would: it starts the local cluster, or
// takes the one of the current kubectl context, installs gitfn into it, and
// shows a Function going from a push to an answer. In go a verb and a cluster's
// name; out come lines with the seconds that each step took, on standard error,
// and for scripts JSON on standard output. It talks to the cluster through
// kubectl, git and HTTP only.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

const usage = `usage: dev VERB [--name NAME]
verbs:
  up     start a local cluster and install gitfn into it; print its facts as JSON
  run    the same, then push a Function, call it, change it, revert it
  info   print the facts of a cluster as JSON
  down   remove the cluster and all that it made on this machine
With CLUSTER=current in the environment, up and run use the cluster of the
current kubectl context; IMAGES=registry/path then says where to push gitfn's
images to.`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Getenv("CLUSTER"), os.Getenv("IMAGES")); err != nil {
		fmt.Fprintln(os.Stderr, "dev:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, which, images string) error {
	if len(args) == 0 {
		return errors.New(usage)
	}
	flags := flag.NewFlagSet("dev "+args[0], flag.ContinueOnError)
	name := flags.String("name", "dev", "name of the local cluster")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	steps := newSteps(os.Stderr)
	switch args[0] {
	case "up", "run":
		site, err := open(ctx, steps, *name, which, images)
		if err != nil {
			return err
		}
		if err := install(ctx, steps, site); err != nil {
			return err
		}
		if args[0] == "run" {
			return demonstrate(ctx, steps, site)
		}
		return printInfo(ctx, site)
	case "info":
		site, err := lookUp(ctx, *name, which)
		if err != nil {
			return err
		}
		return printInfo(ctx, site)
	case "down":
		return local(ctx, os.Stderr, "down", "--name", *name)
	}
	return fmt.Errorf("there is no verb %q\n%s", args[0], usage)
}

func printInfo(ctx context.Context, site *site) error {
	facts, err := factsOf(ctx, site)
	if err != nil {
		return err
	}
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetIndent("", "  ")
	return encoder.Encode(facts)
}
