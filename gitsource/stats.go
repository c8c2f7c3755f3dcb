package gitsource

import (
	"context"
	"io"
	"sync/atomic"
)

// Stats counts what a Client has asked of servers, and what it learned, since it was made.
type Stats struct {
	// Refs and RefsFailed are requests for refs that were answered, and that were not.
	Refs, RefsFailed int64
	// Packs and PacksFailed are packs that were fetched, and that were not; PackBytes is the size of both.
	Packs, PacksFailed, PackBytes int64
	// MovedByHint and MovedByPoll are refs that were found elsewhere than before, by who made the Client look:
	// Forget not long before, or the age of the last answer.
	MovedByHint, MovedByPoll int64
	// HintsMissed are those of MovedByPoll in repositories for which Forget was called before: a hint
	// should have come first.
	HintsMissed int64
}

// Stats returns the counts so far.
func (c *Client) Stats() Stats {
	return Stats{
		Refs: c.counts.refs.Load(), RefsFailed: c.counts.refsFailed.Load(),
		Packs: c.counts.packs.Load(), PacksFailed: c.counts.packsFailed.Load(), PackBytes: c.counts.packBytes.Load(),
		MovedByHint: c.counts.movedByHint.Load(), MovedByPoll: c.counts.movedByPoll.Load(), HintsMissed: c.counts.hintsMissed.Load(),
	}
}

// counts is Stats while it grows.
type counts struct {
	refs, refsFailed              atomic.Int64
	packs, packsFailed, packBytes atomic.Int64
	movedByHint, movedByPoll      atomic.Int64
	hintsMissed                   atomic.Int64
}

// counted is a remote whose requests are counted.
type counted struct {
	remote
	counts *counts
}

func (r counted) refs(ctx context.Context, names []string, visit func(ref)) error {
	err := r.remote.refs(ctx, names, visit)
	count(err, &r.counts.refs, &r.counts.refsFailed)
	return err
}

func (r counted) pack(ctx context.Context, w want, store func(io.Reader) error) error {
	err := r.remote.pack(ctx, w, func(pack io.Reader) error { return store(countedReader{pack, &r.counts.packBytes}) })
	count(err, &r.counts.packs, &r.counts.packsFailed)
	return err
}

func count(err error, done, failed *atomic.Int64) {
	if err != nil {
		failed.Add(1)
	} else {
		done.Add(1)
	}
}

type countedReader struct {
	io.Reader
	bytes *atomic.Int64
}

// Read counts what it reads.
func (r countedReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.bytes.Add(int64(n))
	return n, err
}
