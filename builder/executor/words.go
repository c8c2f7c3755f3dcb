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
	fileFetched     = "fetched.json"   // fetch's word, in source
	fileSourceLayer = "source.tar.gz"  // in source
	dirInputs       = "inputs"         // in source
	fileInstalled   = "installed.json" // install's word, in layers
	fileDeps        = "deps.tar"       // in layers
)

// errPredecessor means that a stage before this one has failed, and reported.
var errPredecessor = errors.New("a stage before this one failed")

// fetched is the word of fetch. Only fetch can write its volume.
type fetched struct {
	Failed bool `json:"failed,omitempty"`
	// DependencyKey is empty if there is nothing to install.
	DependencyKey string `json:"dependencyKey,omitempty"`
	// Cached is the digest of the image that holds the layer already, or empty.
	Cached string `json:"cached,omitempty"`
	// Locked is true if a lock file fixes every version.
	Locked bool `json:"locked,omitempty"`
	// Seconds that fetch worked.
	Seconds float64 `json:"seconds"`
}

// installed is the word of install. Code of users can forge it: it means no more
// than "go and look".
type installed struct {
	Failed  bool    `json:"failed,omitempty"`
	Seconds float64 `json:"seconds"`
}

// say writes a word so that nobody reads half of it.
func say(dir, name string, word any) error {
	text, err := json.Marshal(word)
	if err != nil {
		return err
	}
	draft := filepath.Join(dir, "."+name)
	if err := os.WriteFile(draft, text, 0o644); err != nil {
		return fmt.Errorf("write word: %w", err)
	}
	if err := os.Rename(draft, filepath.Join(dir, name)); err != nil {
		return fmt.Errorf("write word: %w", err)
	}
	return nil
}

// await waits until a word is there and reads it. What cannot be read as the
// word leaves it empty: the word of install may be anything.
func await(ctx context.Context, dir, name string, word any) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	file := filepath.Join(dir, name)
	for {
		if _, err := os.Lstat(file); err == nil {
			break
		}
		select {
		case <-ctx.Done():
			return errPredecessor
		case <-tick.C:
		}
	}
	opened, err := openPlain(file)
	if err != nil {
		return nil
	}
	defer opened.Close()
	text, err := io.ReadAll(io.LimitReader(opened, 4096))
	if err == nil {
		_ = json.Unmarshal(text, word)
	}
	return nil
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
