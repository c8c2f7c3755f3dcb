// Command sources measures what Git sources cost: the requests that a Git server gets, and the time, the processor
// and the memory of who asks. In go the names of rows; out come a table on standard output and, on request, the same
// as JSON. Every repository is made for the run and served by git http-backend on this machine. What is measured
// runs in a process of its own, because memory and processor time belong to a process: gitsource in a worker, which
// is this program once more, and the controllers in cmd/manager as it is shipped, before a real kube-apiserver and
// etcd. Nothing runs Pods there: this program says of every build that it has ended well. It never leaves the machine.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
)

// rows is what can be measured, by name.
var rows = map[string]func(ctx context.Context, dir string) ([]figure, error){
	"refs":         measureRefs,
	"repository":   measureRepository,
	"monorepo":     measureMonorepo,
	"polls":        measurePolls,
	"repositories": measureRepositories,
}

// order of the rows in the table.
var inOrder = []string{"refs", "repository", "monorepo", "polls", "repositories"}

type options struct {
	rows      []string
	dir       string
	jsonFile  string
	strict    bool
	worker    string
	packBytes int64
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench of sources:", err)
		stop()
		os.Exit(1)
	}
}

// errWanted is only returned where figures beside what is wanted count as a failure.
var errWanted = errors.New("a figure is not what is wanted, and --strict was given")

func run(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	if o.worker != "" {
		return work(ctx, o.worker, o.packBytes, in, out)
	}
	var all []figure
	for _, name := range o.rows {
		measured, err := inDirectory(o.dir, func(dir string) ([]figure, error) { return rows[name](ctx, dir) })
		if err != nil {
			return fmt.Errorf("measure %s: %w", name, err)
		}
		all = append(all, measured...)
		printFigures(out, measured)
	}
	if o.jsonFile != "" {
		if err := writeJSON(o.jsonFile, all); err != nil {
			return err
		}
	}
	if o.strict && slices.ContainsFunc(all, func(f figure) bool { return f.verdict() != "" && f.verdict() != "ok" }) {
		return errWanted
	}
	return nil
}

// inDirectory gives a row a directory of its own and removes it afterwards.
func inDirectory(parent string, do func(dir string) ([]figure, error)) (all []figure, err error) {
	dir, err := os.MkdirTemp(parent, "gitfn-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	return do(dir)
}

func parse(args []string) (options, error) {
	var o options
	var names string
	flags := flag.NewFlagSet("sources", flag.ContinueOnError)
	flags.StringVar(&names, "rows", strings.Join(inOrder, ","), "what to measure, with commas between")
	flags.StringVar(&o.dir, "dir", "", "where repositories and mirrors are for the time; the system's place for temporary files if empty")
	flags.StringVar(&o.jsonFile, "json", "", "file to write the figures to, as JSON")
	flags.BoolVar(&o.strict, "strict", false, "fail if a figure is not what is wanted")
	flags.StringVar(&o.worker, "worker", "", "be a worker with its mirrors in this directory: for the program's own use")
	flags.Int64Var(&o.packBytes, "pack-bytes", 0, "the worker's limit for a pack; zero is gitsource's default")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("there is no argument %q; see --help", flags.Arg(0))
	}
	o.rows = strings.Split(names, ",")
	for _, name := range o.rows {
		if rows[name] == nil {
			return o, fmt.Errorf("--rows: there is no row %q; there are %v", name, slices.Sorted(maps.Keys(rows)))
		}
	}
	return o, nil
}

// say tells who waits what goes on.
func say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
