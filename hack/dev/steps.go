package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"
)

// steps prints what is done, with the seconds that it took.
type steps struct {
	out   io.Writer
	start time.Time
}

func newSteps(out io.Writer) *steps { return &steps{out: out, start: time.Now()} }

// do runs one step and prints it when it is over.
func (s *steps) do(what string, step func() error) error {
	began := time.Now()
	err := step()
	mark := "ok"
	if err != nil {
		mark = "failed"
	}
	fmt.Fprintf(s.out, "%6.1fs  %-6s %s (%.1fs)\n", time.Since(s.start).Seconds(), mark, what, time.Since(began).Seconds())
	return err
}

// say prints a line that is no step.
func (s *steps) say(format string, args ...any) {
	fmt.Fprintf(s.out, "         "+format+"\n", args...)
}

// command runs a program and returns what it printed. The error holds the end of
// what it complained about.
func command(ctx context.Context, stdin io.Reader, dir string, name string, args ...string) (string, error) {
	var out, complaints bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Dir = stdin, &out, &complaints, dir
	if err := cmd.Run(); err != nil {
		lines := strings.Split(strings.TrimSpace(complaints.String()), "\n")
		lines = lines[max(0, len(lines)-8):]
		return out.String(), fmt.Errorf("%s %s: %w: %s", name, firstOf(args), err, strings.Join(lines, "\n"))
	}
	return out.String(), nil
}

func firstOf(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

// eventually asks until the answer is yes, or the time is over. The last error
// says what was missing.
func eventually(ctx context.Context, limit time.Duration, ask func() error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ask()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("gave up after %s: %w", limit, err)
		case <-tick.C:
		}
	}
}
