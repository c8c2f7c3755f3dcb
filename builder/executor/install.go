package executor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gitfn/gitfn/builder"
	"github.com/gitfn/gitfn/builder/cache"
	"github.com/gitfn/gitfn/runtimes"
)

// install runs the package manager, if there is something for it to do.
func install(ctx context.Context, o *options) (*builder.Result, error) {
	before, err := o.awaitFetched(ctx)
	if err != nil || !before.installs() {
		return nil, err
	}
	limited, cancel := o.limited(ctx)
	defer cancel()
	err = o.classified(limited, builder.StageInstall, o.install(limited, before.Locked))
	word := fileInstalled
	if err != nil {
		word = fileFailed // whoever waits for us need not wait longer
	}
	return nil, errors.Join(err, say(o.layers, word, struct{}{}))
}

func (o *options) install(ctx context.Context, locked bool) error {
	if err := os.CopyFS(o.work, os.DirFS(filepath.Join(o.source, dirInputs))); err != nil {
		return fmt.Errorf("copy inputs: %w", err)
	}
	var installed error
	if o.runtime.Language == runtimes.Python {
		installed = o.pip(ctx)
	} else {
		installed = o.npm(ctx, locked)
	}
	// From here on nothing but this process runs here: what a script left
	// behind could swap the tar for something else while it is written.
	if err := killOthers(); err != nil {
		return err
	}
	if err := emptyDir(o.layers); err != nil {
		return fmt.Errorf("clear what scripts wrote: %w", err)
	}
	if installed != nil {
		return installed
	}
	return writeNew(filepath.Join(o.layers, fileDeps), func(w io.Writer) error {
		return cache.WriteInstalled(ctxWriter{ctx, w}, o.work, o.runtime, o.limits)
	})
}

// ctxWriter stops a long write when its context ends.
type ctxWriter struct {
	ctx context.Context
	io.Writer
}

// Write fails once the context has ended.
func (c ctxWriter) Write(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.Writer.Write(p)
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
