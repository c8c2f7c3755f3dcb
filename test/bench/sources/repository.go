package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

const (
	// largeFiles files of largeSize bytes in largeDirs directories make 1 GiB that cannot be compressed.
	largeFiles = 100_000
	largeDirs  = 1000
	largeSize  = 1<<30/largeFiles + 1
	// extraMiB is what reading such a repository may cost in memory.
	extraMiB = 100
)

// measureRepository reads a repository of 1 GiB of blobs and 100,000 files, beside one of ten files.
func measureRepository(ctx context.Context, dir string) ([]figure, error) {
	served := filepath.Join(dir, "served")
	say("repository: makes %d files of %d bytes", largeFiles, largeSize)
	large, err := makeLarge(ctx, filepath.Join(served, "large.git"), largeFiles)
	if err != nil {
		return nil, err
	}
	if _, err := makeLarge(ctx, filepath.Join(served, "small.git"), 10); err != nil {
		return nil, err
	}
	server, err := serveGit(served)
	if err != nil {
		return nil, err
	}
	defer server.close()
	var all []figure
	for _, way := range []struct {
		name, filters string
		packBytes     int64
	}{
		{"repository of 1 GiB, 100,000 files; filters", "true", 0},
		{"the same; a server without filters, packs of 2 GiB allowed", "false", 2 << 30},
	} {
		if err := large.configure(ctx, "uploadpack.allowFilter", way.filters); err != nil {
			return nil, err
		}
		measured, err := readLarge(ctx, server, dir, way.name, way.packBytes)
		if err != nil {
			return nil, err
		}
		all = append(all, measured...)
	}
	return all, refusesLarge(ctx, server, dir)
}

func makeLarge(ctx context.Context, dir string, files int) (repository, error) {
	r, err := newRepository(ctx, dir)
	if err != nil {
		return r, err
	}
	path := func(i int) string {
		return fmt.Sprintf("team%03d/function%03d/file%d", i%largeDirs/10, i%largeDirs, i/largeDirs)
	}
	return r, r.write(ctx,
		commit{branch: "main", files: files, path: path, size: largeSize, content: noise(1, largeSize)},
		commit{branch: "next", from: "main", files: 1, path: path, size: largeSize, content: noise(2, largeSize)})
}

// readLarge resolves, fetches and follows a commit in a process that did the same with the small repository before.
func readLarge(ctx context.Context, server *gitServer, dir, name string, packBytes int64) ([]figure, error) {
	mirrors := filepath.Join(dir, "mirrors")
	w, err := startWorker(ctx, mirrors, packBytes)
	if err != nil {
		return nil, err
	}
	const baseDir = "team000/function000"
	steps := func(url string) (all []done, seen []traffic, err error) {
		resolved := done{}
		for _, o := range []order{
			{Op: opResolve, Reference: "main"},
			{Op: opFetch},
			{Op: opResolve, Reference: "next"},
		} {
			o.URL, o.BaseDir, o.Commit = url, baseDir, resolved.Commit
			before := server.traffic()
			d, err := w.must(o)
			if err != nil {
				return nil, nil, err
			}
			if o.Op == opResolve {
				resolved = d
			}
			all, seen = append(all, d), append(seen, server.traffic().minus(before))
		}
		return all, seen, nil
	}
	small, _, err := steps(server.url + "/small.git")
	if err != nil {
		return nil, errors.Join(err, w.close())
	}
	large, seen, err := steps(server.url + "/large.git")
	if err != nil {
		return nil, errors.Join(err, w.close())
	}
	var disk int64
	err = filepath.Walk(mirrors, func(_ string, info os.FileInfo, err error) error {
		if err == nil && !info.IsDir() {
			disk += info.Size()
		}
		return err
	})
	if err != nil {
		return nil, errors.Join(err, w.close())
	}
	const peer = "of ten files"
	f := figures{row: name}
	for i, step := range []string{"resolve", "fetch of one directory", "resolve of the next commit"} {
		f.add(step, "s", large[i].Took.Seconds()).beside(peer, small[i].Took.Seconds())
		f.add(step+": from the server", "KiB", float64(seen[i].Bytes)/(1<<10))
	}
	f.add("memory above that", "MiB", mebibytes(large[2].Peak-small[2].Peak)).beside(peer, mebibytes(small[2].Peak)).atMost(extraMiB)
	f.add("mirror on disk", "MiB", mebibytes(disk))
	return f.all, w.close()
}

// refusesLarge looks at what is said where the server cannot filter and the pack is above the default limit.
func refusesLarge(ctx context.Context, server *gitServer, dir string) error {
	w, err := startWorker(ctx, filepath.Join(dir, "mirrors"), 0)
	if err != nil {
		return err
	}
	d, err := w.ask(order{Op: opResolve, URL: server.url + "/large.git", Reference: "main"})
	if err == nil && d.Error == "" {
		err = errors.New("a pack above the limit was taken")
	}
	say("repository: without filters, at the default limit, after %.1fs: %s", d.Took.Seconds(), d.Error)
	return errors.Join(err, w.close())
}
