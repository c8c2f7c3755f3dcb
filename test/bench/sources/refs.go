package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"time"
)

// refsCount is how many tags the repository has, and refsSamples how often each side asks.
const (
	refsCount   = 100_000
	refsSamples = 9
)

// measureRefs asks a repository of many refs for one, as a poll does, beside a listing by go-git's own remote. Each
// request has a process of its own that has asked a small repository before, so that both have all their code warm.
func measureRefs(ctx context.Context, dir string) ([]figure, error) {
	for name, refs := range map[string]int{"many.git": refsCount, "few.git": 1} {
		r, err := newRepository(ctx, filepath.Join(dir, "served", name))
		if err != nil {
			return nil, err
		}
		text := func(w io.Writer, _ int) error { _, err := io.WriteString(w, "module.exports = 1\n"); return err }
		if err := r.write(ctx, commit{branch: "main", files: 1, path: func(int) string { return "handler.js" }, size: 19, content: text}); err != nil {
			return nil, err
		}
		if err := r.manyRefs(ctx, refs); err != nil {
			return nil, err
		}
	}
	server, err := serveGit(filepath.Join(dir, "served"))
	if err != nil {
		return nil, err
	}
	defer server.close()
	ours, theirs := sample{}, sample{}
	for i := range refsSamples {
		for op, into := range map[string]*sample{opResolve: &ours, opList: &theirs} {
			if err := into.take(ctx, server, filepath.Join(dir, fmt.Sprint("mirrors-", op, i)), op); err != nil {
				return nil, err
			}
		}
		say("refs: %d of %d", i+1, refsSamples)
	}
	f := figures{row: fmt.Sprintf("refs: one of %d, by a poll", refsCount)}
	const peer = "go-git's remote.List, v0"
	f.add("time", "ms", ours.ms...).beside(peer, theirs.ms...)
	f.add("bytes of the answer", "B", ours.bytes...).beside(peer, theirs.bytes...)
	f.add("allocated", "KiB", ours.allocated...).beside(peer, theirs.allocated...)
	f.add("peak memory above that with one ref", "MiB", ours.peak...).beside(peer, theirs.peak...)
	return f.all, nil
}

// sample collects what one side took.
type sample struct{ ms, bytes, allocated, peak []float64 }

func (s *sample) take(ctx context.Context, server *gitServer, mirrors, op string) error {
	w, err := startWorker(ctx, mirrors, 0)
	if err != nil {
		return err
	}
	few, many := order{Op: op, URL: server.url + "/few.git", Reference: "main"}, order{Op: op, URL: server.url + "/many.git", Reference: "main"}
	warm := []order{few, few}
	if op == opResolve {
		warm = append(warm, many) // what the server can do is asked once an hour, what a commit is once
	}
	var small done
	for _, o := range warm {
		if small, err = w.must(o); err != nil {
			return err
		}
	}
	before := server.traffic()
	d, err := w.must(many)
	if err != nil {
		return err
	}
	s.ms = append(s.ms, float64(d.Took)/float64(time.Millisecond))
	s.bytes = append(s.bytes, float64(server.traffic().minus(before).Bytes))
	s.allocated = append(s.allocated, float64(d.Allocated)/(1<<10))
	s.peak = append(s.peak, mebibytes(d.Peak-small.Peak))
	return w.close()
}
