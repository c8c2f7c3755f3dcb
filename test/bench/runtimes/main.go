// Command runtimes measures how much of a language's own HTTP server the
// runtime servers keep. In go the servers of the table in servers.go; out come
// a table on standard output and, on request, the same as JSON. Each runtime
// server answers "hello" beside a bare server of the same language; the two take
// turns, so that noise of the machine meets both. wrk asks with one thread and
// 16 connections. It uses no cluster and none of gitfn's packages.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

type options struct {
	language string
	rounds   int
	length   time.Duration
	presets  []string
	jsonFile string
	strict   bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench-runtimes:", err)
		stop()
		os.Exit(1)
	}
}

// errMissed is only returned where a figure that misses what is wanted counts as a failure.
var errMissed = errors.New("a figure misses what is wanted, and --strict was given")

func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	var rows []row
	for _, l := range languages {
		if o.language != "" && o.language != l.name {
			continue
		}
		measured, err := measure(ctx, l, o)
		if err != nil {
			return fmt.Errorf("measure %s: %w", l.name, err)
		}
		rows = append(rows, measured...)
	}
	printRows(out, rows)
	if o.jsonFile != "" {
		if err := writeJSON(o.jsonFile, rows); err != nil {
			return err
		}
	}
	if o.strict && missed(rows) {
		return errMissed
	}
	return nil
}

func parse(args []string) (options, error) {
	var o options
	var presets string
	flags := flag.NewFlagSet("bench-runtimes", flag.ContinueOnError)
	flags.StringVar(&o.language, "language", "", "measure this language alone")
	flags.IntVar(&o.rounds, "rounds", 5, "how often each figure is taken")
	flags.DurationVar(&o.length, "length", 3*time.Second, "how long one round asks each server")
	flags.StringVar(&presets, "presets", "", "measure latency under these Function presets as well, as in XS,M; needs root and cgroups")
	flags.StringVar(&o.jsonFile, "json", "", "file to write the rows to, as JSON")
	flags.BoolVar(&o.strict, "strict", false, "fail if a figure misses what is wanted")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if presets != "" {
		o.presets = strings.Split(presets, ",")
	}
	if o.rounds < 1 || o.length < time.Second {
		return o, errors.New("--rounds must be at least 1 and --length at least 1s")
	}
	for _, p := range o.presets {
		if _, ok := limits[p]; !ok {
			return o, fmt.Errorf("there is no preset %q", p)
		}
	}
	return o, nil
}
