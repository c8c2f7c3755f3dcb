package executor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gitfn/gitfn/builder"
	"github.com/gitfn/gitfn/builder/cache"
)

// installedDir is what the package manager makes below where it works.
const installedDir = "node_modules"

// install runs the package manager, if there is something for it to do.
func install(ctx context.Context, o *options) (_ *builder.Result, err error) {
	var before fetched
	if err := await(ctx, o.source, fileFetched, &before); err != nil {
		return nil, err
	}
	if before.Failed {
		return nil, errPredecessor
	}
	if before.DependencyKey == "" || before.Cached != "" {
		return nil, nil // push does not wait for us
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	defer func() {
		word := installed{Failed: err != nil, Seconds: time.Since(began).Seconds()}
		err = errors.Join(err, say(o.layers, fileInstalled, word))
	}()
	if err := os.CopyFS(o.work, os.DirFS(filepath.Join(o.source, dirInputs))); err != nil {
		return nil, fmt.Errorf("copy inputs: %w", err)
	}
	npmErr := o.npm(ctx, before.Locked)
	// From here on nothing but this process runs here: what a script left
	// behind could swap the tar for something else while it is written.
	if err := killOthers(ctx); err != nil {
		return nil, err
	}
	if err := emptyDir(o.layers); err != nil {
		return nil, fmt.Errorf("clear what scripts wrote: %w", err)
	}
	if npmErr != nil {
		return nil, npmErr
	}
	return nil, o.pack()
}

// pack writes what was installed as one tar.
func (o *options) pack() (err error) {
	file, err := os.OpenFile(filepath.Join(o.layers, fileDeps), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("pack dependencies: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return cache.WriteInstalled(file, o.work, installedDir, o.runtime.Dir)
}

// emptyDir removes all that is in a directory.
func emptyDir(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		if err := os.RemoveAll(path); err == nil {
			continue
		}
		// A script may have taken its own rights away.
		err := filepath.WalkDir(path, func(file string, d fs.DirEntry, err error) error {
			if d != nil && d.IsDir() {
				return os.Chmod(file, 0o700)
			}
			return nil
		})
		if err = errors.Join(err, os.RemoveAll(path)); err != nil {
			return err
		}
	}
	return nil
}
