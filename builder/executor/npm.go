package executor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gitfn/gitfn/builder"
)

// npm installs what the manifest or the lock file says.
func (o *options) npm(ctx context.Context, locked bool) error {
	verb := "install"
	if locked {
		verb = "ci"
	}
	environ, err := o.npmEnviron()
	if err != nil {
		return err
	}
	output := newTail(o.out, secretsOf(o.packages))
	arguments := append(slices.Clone(o.npmCommand[1:]), verb, "--omit=dev", "--no-audit", "--no-fund", "--no-update-notifier", "--no-progress", "--foreground-scripts")
	cmd := exec.CommandContext(ctx, o.npmCommand[0], arguments...)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.Env = o.work, output, output, environ
	// Its own group, so that a deadline ends its children too. A daemon that
	// left the group and keeps our pipe must not keep us.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 500 * time.Millisecond
	kills := outOfMemoryKills()
	err = cmd.Run()
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what is left of the group; often nothing
	}
	if err == nil || errors.Is(err, exec.ErrWaitDelay) {
		output.flush()
		return nil
	}
	failure := &builder.StepError{Output: output.String()}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		failure.Class, failure.Message = builder.ClassTimeout, fmt.Sprintf("npm %s took longer than %s", verb, o.timeout.Round(time.Millisecond))
	case outOfMemoryKills() > kills:
		failure.Class = builder.ClassOutOfMemory
		failure.Message = "npm used more memory than the build's limit; give spec.resourceConfiguration.build more"
	case !errors.As(err, &exit):
		failure.Class, failure.Message = builder.ClassInstallFailed, "npm does not start: "+err.Error()
	default:
		failure.Class, failure.Message = classifyNpm(verb, exit.ExitCode(), output.errors)
	}
	return failure
}

// npmEnviron is the container's environment with what npm needs on a read-only
// file system, and whom it is to trust.
func (o *options) npmEnviron() ([]string, error) {
	home := filepath.Join(o.tmp, "home")
	if err := os.MkdirAll(home, 0o700); err != nil {
		return nil, fmt.Errorf("make home: %w", err)
	}
	environ := append(slices.Clone(o.environ), "HOME="+home, "npm_config_cache="+filepath.Join(o.tmp, "npm"))
	if rc := filepath.Join(o.packages, ".npmrc"); o.packages != "" {
		environ = append(environ, "npm_config_userconfig="+rc)
	}
	if o.trustBundle == "" {
		return environ, nil
	}
	bundle, err := o.bundle()
	if err != nil {
		return nil, err
	}
	// Node.js adds authorities to its own; what else scripts call takes one file for all.
	all := filepath.Join(o.tmp, "ca.crt")
	if err := os.WriteFile(all, append(systemRoots(), bundle...), 0o644); err != nil {
		return nil, fmt.Errorf("write trust bundle: %w", err)
	}
	return append(environ, "NODE_EXTRA_CA_CERTS="+o.trustBundle, "SSL_CERT_FILE="+all, "GIT_SSL_CAINFO="+all), nil
}

// systemRoots are the authorities of the image, if it has any.
func systemRoots() []byte {
	for _, file := range []string{"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"} {
		if text, err := os.ReadFile(file); err == nil {
			return append(bytes.TrimRight(text, "\n"), '\n')
		}
	}
	return nil
}

// outOfMemoryKills is how often the kernel has killed for memory in this
// container. Only the child may have died of it, and then nobody else says so.
func outOfMemoryKills() int {
	for _, file := range []string{"/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"} {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			if count, found := strings.CutPrefix(line, "oom_kill "); found {
				n, _ := strconv.Atoi(strings.TrimSpace(count))
				return n
			}
		}
	}
	return 0
}
