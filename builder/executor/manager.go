package executor

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"syscall"
	"time"

	"github.com/gitfn/gitfn/builder"
)

// manager is one run of a package manager.
type manager struct {
	// name and does are for sentences: "npm", "npm ci".
	name, does       string
	command, environ []string
	// errors are the lines that classify gets.
	errors   *regexp.Regexp
	classify func(exitCode int, lines []string) (builder.Class, string)
}

// manage runs a package manager where the inputs are. What it prints goes to the
// build's output, with the secrets of package registries masked.
func (o *options) manage(ctx context.Context, m manager) error {
	output := newTail(o.out, secretsOf(o.packages), m.errors)
	cmd := exec.CommandContext(ctx, m.command[0], m.command[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.Env = o.work, output, output, m.environ
	// Its own group, so that a deadline ends its children too. A daemon that
	// left the group and keeps our pipe must not keep us.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 500 * time.Millisecond
	kills := outOfMemoryKills()
	err := cmd.Run()
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
		failure.Class, failure.Message = builder.ClassTimeout, fmt.Sprintf("%s took longer than %s", m.does, o.timeout.Round(time.Millisecond))
	case outOfMemoryKills() > kills:
		failure.Class = builder.ClassOutOfMemory
		failure.Message = m.name + " used more memory than the build's limit; give spec.resourceConfiguration.build more"
	case !errors.As(err, &exit):
		failure.Class, failure.Message = builder.ClassInstallFailed, m.name+" does not start: "+err.Error()
	default:
		failure.Class, failure.Message = m.classify(exit.ExitCode(), output.errors)
	}
	return failure
}
