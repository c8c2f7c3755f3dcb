// Command bench measures how long gitfn takes from a push to an answer, beside
// what the cluster itself takes for an empty Job and an empty rollout. In go a
// cluster's name and a number of samples; out come a table on standard output
// and, on request, the same as JSON. The rows take turns, sample by sample, so
// that noise of the machine meets figures and floors alike. It works through
// kubectl, git, HTTP and watches of the API, never through gitfn's packages,
// and removes the namespace that it worked in.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

type options struct {
	cluster  string
	samples  int
	jsonFile string
	strict   bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

// errOver is only returned where figures above what is wanted count as a failure.
var errOver = errors.New("a figure is over what is wanted, or a request failed, and --strict was given")

func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	b, err := open(ctx, o.cluster)
	if err != nil {
		return err
	}
	err = b.measure(ctx, o.samples)
	err = errors.Join(err, b.close())
	if err != nil {
		return err
	}
	rows, err := report(b.samples)
	if err != nil {
		return err
	}
	printRows(out, rows)
	printTimelines(out, b.timelines)
	printFailures(out, b.asked, b.failures)
	if o.jsonFile != "" {
		if err := writeJSON(o.jsonFile, rows); err != nil {
			return err
		}
	}
	if o.strict && (over(rows) || len(b.failures) > 0) {
		return errOver
	}
	return nil
}

func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.StringVar(&o.cluster, "cluster", "bench", "name of the local cluster; it is started if it is not up")
	flags.IntVar(&o.samples, "samples", 5, "how often each row is measured")
	flags.StringVar(&o.jsonFile, "json", "", "file to write the rows to, as JSON")
	flags.BoolVar(&o.strict, "strict", false, "fail if a figure is over what is wanted")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("there is no argument %q; see --help", flags.Arg(0))
	case o.samples < 1:
		return o, fmt.Errorf("--samples is %d: it must be at least 1", o.samples)
	}
	return o, nil
}
