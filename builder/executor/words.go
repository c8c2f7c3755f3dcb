package executor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Files of the volumes.
const (
	fileFetched     = "fetched.json"  // fetch's word, in source
	fileSourceLayer = "source.tar.gz" // in source
	dirInputs       = "inputs"        // in source
	fileInstalled   = "installed"     // install's word, in layers
	fileFailed      = "failed"        // its other word
	fileDeps        = "deps.tar"      // in layers
)

// errPredecessor means that a stage before this one has failed, and reported, or
// that it never came to an end.
var errPredecessor = errors.New("a stage before this one failed")

// fetched is the word of fetch. Only fetch can write its volume.
type fetched struct {
	Failed bool `json:"failed,omitempty"`
	// DependencyKey is empty if there is nothing to install.
	DependencyKey string `json:"dependencyKey,omitempty"`
	// Cached is the layer of the dependencies, if the registry has it.
	Cached *layerFacts `json:"cached,omitempty"`
	// Locked is true if a lock file fixes every version.
	Locked bool `json:"locked,omitempty"`
	// Source is the layer in fileSourceLayer; nil if fetch failed.
	Source *layerFacts `json:"source,omitempty"`
	// Seconds that fetch worked.
	Seconds float64 `json:"seconds"`
}

// installs reports whether install has something to do.
func (f fetched) installs() bool { return f.DependencyKey != "" && f.Cached == nil }

// say writes a word so that nobody reads half of it.
func say(dir, name string, word any) error {
	text, err := json.Marshal(word)
	if err != nil {
		return err
	}
	draft := filepath.Join(dir, "."+name)
	if err := writeNew(draft, func(w io.Writer) error { _, err := w.Write(text); return err }); err != nil {
		return fmt.Errorf("write word: %w", err)
	}
	if err := os.Rename(draft, filepath.Join(dir, name)); err != nil {
		return fmt.Errorf("write word: %w", err)
	}
	return nil
}

// writeNew writes a file that is not there, not even as a link.
func writeNew(file string, write func(io.Writer) error) (err error) {
	out, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY|syscall.O_NOFOLLOW, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	return write(out)
}

// tick is how often a stage looks for a word. A look costs two microseconds.
const tick = 5 * time.Millisecond

// await waits until one of the files is there and says which. It gives up with
// errPredecessor, at the latest after the time for waiting.
func (o *options) await(ctx context.Context, files ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, o.wait)
	defer cancel()
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		for _, file := range files {
			if _, err := os.Lstat(file); err == nil {
				return file, nil
			}
		}
		select {
		case <-ctx.Done():
			return "", errPredecessor
		case <-ticker.C:
		}
	}
}

// awaitFetched waits for the word of fetch. A fetch that failed is errPredecessor.
func (o *options) awaitFetched(ctx context.Context) (fetched, error) {
	var word fetched
	file, err := o.await(ctx, filepath.Join(o.source, fileFetched))
	if err != nil {
		return word, err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return word, fmt.Errorf("read word of fetch: %w", err)
	}
	if err := json.Unmarshal(text, &word); err != nil {
		return word, fmt.Errorf("read word of fetch: %w", err)
	}
	if word.Failed || word.Source == nil {
		return word, errPredecessor
	}
	return word, nil
}

// awaitInstalled waits for the word of install, and does not open it.
func (o *options) awaitInstalled(ctx context.Context) error {
	done, failed := filepath.Join(o.layers, fileInstalled), filepath.Join(o.layers, fileFailed)
	file, err := o.await(ctx, done, failed)
	if err == nil && file == failed {
		return errPredecessor
	}
	return err
}

// openPlain opens a regular file without following a link, and without waiting
// for the other end of a pipe.
func openPlain(file string) (*os.File, error) {
	opened, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	info, err := opened.Stat()
	if err != nil || !info.Mode().IsRegular() {
		opened.Close()
		return nil, fmt.Errorf("open %s: it is no regular file", filepath.Base(file))
	}
	return opened, nil
}
