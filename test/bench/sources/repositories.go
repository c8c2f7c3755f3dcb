package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// repository is a bare repository that git writes.
type repository struct{ dir string }

// newRepository makes an empty one that may be served with blobs left out.
func newRepository(ctx context.Context, dir string) (repository, error) {
	r := repository{dir}
	if _, err := r.git(ctx, nil, "init", "--quiet", "--bare", "--initial-branch=main", dir); err != nil {
		return r, err
	}
	return r, r.configure(ctx, "uploadpack.allowFilter", "true")
}

func (r repository) configure(ctx context.Context, key, value string) error {
	_, err := r.git(ctx, nil, "config", key, value)
	return err
}

// git runs git and returns what it prints.
func (r repository) git(ctx context.Context, input io.Reader, args ...string) (string, error) {
	if args[0] != "init" {
		args = append([]string{"--git-dir", r.dir}, args...)
	}
	var out, complaints bytes.Buffer
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Env = append(os.Environ(), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = input, &out, &complaints
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(complaints.String()))
	}
	return strings.TrimSpace(out.String()), nil
}

// commit describes a commit to fast-import.
type commit struct {
	branch, from string
	files        int
	path         func(i int) string
	// content writes a file; it must write exactly size bytes.
	size    int
	content func(w io.Writer, i int) error
}

// write makes commits, in one run of git.
func (r repository) write(ctx context.Context, commits ...commit) error {
	read, write := io.Pipe()
	go func() { write.CloseWithError(stream(write, commits)) }()
	_, err := r.git(ctx, read, "-c", "core.compression=0", "-c", "fastimport.unpackLimit=0", "fast-import", "--quiet", "--done")
	_ = read.Close()
	return err
}

func stream(to io.Writer, commits []commit) error {
	w := bufio.NewWriterSize(to, 1<<20)
	for n, c := range commits {
		fmt.Fprintf(w, "commit refs/heads/%s\ncommitter Ada Lovelace <ada@example.org> %d +0000\ndata 6\ncommit\n", c.branch, 1_700_000_000+n)
		if c.from == c.branch { // git loads no branch by itself, and takes no name that is just being written
			fmt.Fprintf(w, "from refs/heads/%s^0\n", c.from)
		} else if c.from != "" {
			fmt.Fprintf(w, "from refs/heads/%s\n", c.from)
		}
		for i := range c.files {
			fmt.Fprintf(w, "M 100644 inline %s\ndata %d\n", c.path(i), c.size)
			if err := c.content(w, i); err != nil {
				return err
			}
			_ = w.WriteByte('\n')
		}
	}
	fmt.Fprintln(w, "done")
	return w.Flush()
}

// noise writes bytes that cannot be compressed, other ones for each file.
func noise(seed byte, size int) func(io.Writer, int) error {
	random := rand.NewChaCha8([32]byte{seed})
	block := make([]byte, size)
	return func(w io.Writer, _ int) error {
		_, _ = random.Read(block) // never fails
		_, err := w.Write(block)
		return err
	}
}

// manyRefs adds tags to a repository that has main, as "git pack-refs" leaves them.
func (r repository) manyRefs(ctx context.Context, n int) error {
	id, err := r.git(ctx, nil, "rev-parse", "main")
	if err != nil {
		return err
	}
	var packed bytes.Buffer
	fmt.Fprintf(&packed, "# pack-refs with: peeled fully-peeled sorted \n%s refs/heads/main\n", id)
	for i := range n {
		fmt.Fprintf(&packed, "%s refs/tags/release-%06d\n", id, i)
	}
	if err := os.WriteFile(filepath.Join(r.dir, "packed-refs"), packed.Bytes(), 0o600); err != nil {
		return fmt.Errorf("write refs: %w", err)
	}
	return nil
}
