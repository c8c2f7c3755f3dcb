package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"time"

	git "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/storage/memory"

	"github.com/gitfn/gitfn/gitsource"
)

// What a worker can be asked.
const (
	opResolve = "resolve" // a reference to a revision, whatever was answered before
	opFetch   = "fetch"   // the files of a base directory
	opList    = "list"    // all refs, by go-git's own remote
)

// order is one line to a worker.
type order struct {
	Op, URL, Reference, Commit, BaseDir string
}

// done is its answer.
type done struct {
	Error string
	// Commit is what a reference resolved to; Count is how many files or refs there are.
	Commit string
	Count  int
	Took   time.Duration
	// Allocated is what was allocated on the way, all in all; Peak is the most memory the process ever had.
	Allocated uint64
	Peak      int64
}

// worker is a process of its own, so that its memory is its own too.
type worker struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *json.Decoder
}

// startWorker starts this program once more.
func startWorker(ctx context.Context, mirrors string, packBytes int64) (*worker, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start worker: %w", err)
	}
	w := &worker{cmd: exec.CommandContext(ctx, self, "--worker", mirrors, "--pack-bytes", fmt.Sprint(packBytes))}
	w.cmd.Stderr = os.Stderr
	if w.in, err = w.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start worker: %w", err)
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start worker: %w", err)
	}
	w.out = json.NewDecoder(out)
	if err := w.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start worker: %w", err)
	}
	return w, nil
}

// ask has the worker do something. A failure of what it did is in the answer.
func (w *worker) ask(o order) (done, error) {
	var d done
	if err := json.NewEncoder(w.in).Encode(o); err != nil {
		return d, fmt.Errorf("ask worker: %w", err)
	}
	if err := w.out.Decode(&d); err != nil {
		return d, fmt.Errorf("ask worker to %s: %w", o.Op, err)
	}
	return d, nil
}

// must is ask where a failure ends the measurement.
func (w *worker) must(o order) (done, error) {
	d, err := w.ask(o)
	if err == nil && d.Error != "" {
		err = fmt.Errorf("%s %s: %s", o.Op, o.URL, d.Error)
	}
	return d, err
}

func (w *worker) close() error {
	_ = w.in.Close()
	return w.cmd.Wait()
}

// work is the worker's side: orders come in, answers go out.
func work(ctx context.Context, mirrors string, packBytes int64, in io.Reader, out io.Writer) error {
	client, err := gitsource.New(gitsource.Options{
		CacheDir: mirrors, CacheBytes: 8 << 30, Timeout: 10 * time.Minute,
		Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Limits: gitsource.Limits{PackBytes: packBytes},
	})
	if err != nil {
		return err
	}
	answers := json.NewEncoder(out)
	for lines := bufio.NewScanner(in); lines.Scan(); {
		var o order
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			return fmt.Errorf("read order: %w", err)
		}
		d, err := measured(func(d *done) error { return perform(ctx, client, o, d) })
		if err != nil {
			return err
		}
		if err := answers.Encode(d); err != nil {
			return err
		}
	}
	return nil
}

func measured(do func(*done) error) (d done, err error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := time.Now()
	failed := do(&d)
	d.Took = time.Since(began)
	runtime.ReadMemStats(&after)
	d.Allocated = after.TotalAlloc - before.TotalAlloc
	used, err := usageOf(os.Getpid())
	d.Peak = used.peak
	if failed != nil {
		d.Error = failed.Error()
	}
	return d, err
}

func perform(ctx context.Context, client *gitsource.Client, o order, d *done) error {
	repo := gitsource.Repository{URL: o.URL}
	wanted := gitsource.Selection{Reference: o.Reference, BaseDir: o.BaseDir}
	switch o.Op {
	case opResolve:
		revision, err := client.Resolve(ctx, repo, wanted, 0)
		d.Commit = revision.Commit
		return err
	case opFetch:
		tree, err := client.Fetch(ctx, repo, o.Commit, wanted)
		if err != nil {
			return err
		}
		d.Count = len(tree.Files)
		return tree.Close()
	case opList:
		refs, err := git.NewRemote(memory.NewStorage(), &config.RemoteConfig{Name: "origin", URLs: []string{o.URL}}).ListContext(ctx, &git.ListOptions{})
		d.Count = len(refs)
		return err
	}
	return fmt.Errorf("there is no order %q", o.Op)
}
