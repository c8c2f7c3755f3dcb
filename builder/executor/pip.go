package executor

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gitfn/gitfn/builder"
)

// pip installs what requirements.txt says into the runtime's folder of modules.
func (o *options) pip(ctx context.Context) error {
	environ, err := o.pipEnviron()
	if err != nil {
		return err
	}
	journal := filepath.Join(o.tmp, "pip.log")
	// Isolated: a pip.py of the source is not pip.
	arguments := []string{"-I", "-m", "pip", "install", "--no-input", "--disable-pip-version-check", "--no-cache-dir", "--no-compile",
		"--no-warn-script-location", "--root-user-action=ignore", "--progress-bar=off", "--log", journal,
		"--target", o.runtime.Modules, "--requirement", o.runtime.Manifest}
	if err := o.manage(ctx, manager{
		name: "pip", does: "pip install", errors: pipLine,
		command: append(slices.Clone(o.pythonCommand), arguments...), environ: environ,
		classify: func(exitCode int, lines []string) (builder.Class, string) {
			return classifyPip(exitCode, append(lines, o.refusals(journal)...))
		},
	}); err != nil {
		return err
	}
	return o.compile(ctx, environ)
}

// refusals are what only pip's log says: that an index refused or did not answer.
// pip itself then prints no more than that it knows no such package.
func (o *options) refusals(journal string) []string {
	file, err := openPlain(journal)
	if err != nil {
		return nil
	}
	defer file.Close()
	secrets, lines := secretsOf(o.packages), []string(nil)
	scanner := bufio.NewScanner(io.LimitReader(file, 16<<20))
	for scanner.Scan() && len(lines) < mostErrors {
		if _, said, found := strings.Cut(scanner.Text(), "Could not fetch URL "); found {
			lines = append(lines, mask(builder.Printable(said), secrets))
		}
	}
	return lines
}

// compile makes the bytecode that a read-only Pod could not keep. It is by hash
// and unchecked: a layer has no times to compare with.
func (o *options) compile(ctx context.Context, environ []string) error {
	into := filepath.Join(o.work, o.runtime.Modules)
	if _, err := os.Stat(into); errors.Is(err, fs.ErrNotExist) {
		return nil // markers ruled out all that was wanted
	}
	cmd := exec.CommandContext(ctx, o.pythonCommand[0], append(slices.Clone(o.pythonCommand[1:]), "-I", "-m", "compileall", "-q", "-j", "1",
		// What it writes down of paths is where the files will be.
		"-s", o.work, "-p", o.runtime.Dir, "--invalidation-mode", "unchecked-hash", into)...)
	cmd.Dir, cmd.Env = o.work, environ
	err := cmd.Run()
	// Packages bring templates and the like that are no valid Python.
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && ctx.Err() == nil {
		return nil
	}
	if err != nil && ctx.Err() != nil {
		return &builder.StepError{Class: builder.ClassTimeout, Message: "compiling the dependencies took too long"}
	}
	return err
}

// pipEnviron is the container's environment with what pip needs on a read-only
// file system, and whom it is to trust.
func (o *options) pipEnviron() ([]string, error) {
	home := filepath.Join(o.tmp, "home")
	if err := os.MkdirAll(home, 0o700); err != nil {
		return nil, fmt.Errorf("make home: %w", err)
	}
	// A fixed seed, because the order of sets gets into bytecode.
	environ := append(slices.Clone(o.environ), "HOME="+home, "TMPDIR="+o.tmp, "PYTHONHASHSEED=0", "PYTHONDONTWRITEBYTECODE=1", "SOURCE_DATE_EPOCH=315532800")
	conf := os.DevNull // which tells pip to read none, not even the machine's
	if o.packages != "" {
		given := filepath.Join(o.packages, "pip.conf")
		if _, err := os.Stat(given); err == nil {
			conf = given
		}
	}
	environ = append(environ, "PIP_CONFIG_FILE="+conf)
	all, err := o.authorities()
	if all == "" {
		return environ, err
	}
	return append(environ, "PIP_CERT="+all, "SSL_CERT_FILE="+all, "REQUESTS_CA_BUNDLE="+all), nil
}
