package executor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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
	tmp, err := os.MkdirTemp("", "npm-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	rc := filepath.Join(o.packages, ".npmrc")
	tail := newTail(o.out, secretsOf(rc))
	cmd := exec.CommandContext(ctx, "npm", verb, "--omit=dev", "--no-audit", "--no-fund", "--no-update-notifier", "--no-progress", "--foreground-scripts")
	cmd.Dir, cmd.Stdout, cmd.Stderr = o.work, tail, tail
	cmd.Env = append(append([]string{}, o.environ...),
		"HOME="+tmp, "npm_config_cache="+filepath.Join(tmp, "cache"), "npm_config_userconfig="+rc, "npm_config_globalconfig=/dev/null")
	if o.trustBundle != "" {
		cmd.Env = append(cmd.Env, "NODE_EXTRA_CA_CERTS="+o.trustBundle)
	}
	// Its own group, so that a deadline ends its children too. A daemon that
	// left the group and keeps our pipe must not keep us.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 500 * time.Millisecond
	kills := outOfMemoryKills()
	err = cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil
	}
	if err == nil {
		return nil
	}
	output := tail.String()
	failure := classifyNpm(output)
	var exit *exec.ExitError
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		failure = &builder.StepError{Class: builder.ClassTimeout, Message: fmt.Sprintf("npm %s took longer than %s", verb, o.timeout)}
	case ctx.Err() != nil:
		return errPredecessor // the Job is being deleted
	case outOfMemoryKills() > kills:
		failure = &builder.StepError{Class: builder.ClassOutOfMemory,
			Message: "a process of npm used more memory than the build's limit; give spec.resourceConfiguration.build more"}
	case !errors.As(err, &exit):
		failure = &builder.StepError{Class: builder.ClassInstallFailed, Message: "npm does not start: " + err.Error()}
	}
	failure.Output = output
	return failure
}

// What npm prints of an error: a code, and lines that explain.
var (
	npmCode = regexp.MustCompile(`(?m)^npm (?:error|ERR!) code (\S+)`)
	npm404  = regexp.MustCompile(`(?m)^npm (?:error|ERR!) 404\s+'?([^'\s]+@[^'\s]+)'? is not in`)
	npmLine = regexp.MustCompile(`(?m)^npm (?:error|ERR!) (.*\S.*)$`)
	npmHost = regexp.MustCompile(`https?://([^/\s"']+)`)
)

// classifyNpm reads the class of a failure out of npm's output.
func classifyNpm(output string) *builder.StepError {
	code := firstMatch(npmCode, output)
	switch code {
	case "E404", "ETARGET", "ENOVERSIONS":
		what := firstMatch(npm404, output)
		if what == "" {
			what = explanation(output)
		}
		return &builder.StepError{Class: builder.ClassDependencyNotFound, Message: "the package registry has no " + strings.TrimSuffix(what, ".")}
	case "E401", "E403", "ENEEDAUTH", "EOTP":
		host := firstMatch(npmHost, output)
		if host == "" {
			host = "the package registry"
		}
		return &builder.StepError{Class: builder.ClassDependencyAuth,
			Message: host + " refuses the credential; check .npmrc in Secret serverless-package-registry-config"}
	case "ENOTFOUND", "ECONNREFUSED", "ECONNRESET", "ETIMEDOUT", "EAI_AGAIN", "ENETUNREACH", "ERR_SOCKET_TIMEOUT":
		return &builder.StepError{Class: builder.ClassInstallFailed, Message: "the package registry does not answer: " + code}
	case "EUSAGE":
		return &builder.StepError{Class: builder.ClassInstallFailed, Message: "package.json and the lock file do not fit each other; run npm install and commit the lock file"}
	case "":
		return &builder.StepError{Class: builder.ClassInstallFailed, Message: "npm failed, see its output"}
	}
	return &builder.StepError{Class: builder.ClassInstallFailed, Message: fmt.Sprintf("npm failed with %s: %s", code, explanation(output))}
}

func firstMatch(pattern *regexp.Regexp, text string) string {
	if match := pattern.FindStringSubmatch(text); match != nil {
		return match[1]
	}
	return ""
}

// explanation is the first line after the code.
func explanation(output string) string {
	for _, match := range npmLine.FindAllStringSubmatch(output, -1) {
		if !strings.HasPrefix(match[1], "code ") && !strings.HasPrefix(match[1], "A complete log") {
			return strings.TrimPrefix(match[1], "notarget ")
		}
	}
	return "see its output"
}

// outOfMemoryKills is how often the kernel has killed for memory in this
// container. Only the child may have died of it, and then nobody else says so.
func outOfMemoryKills() int {
	for _, file := range []string{"/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"} {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		for line := range bytes.Lines(text) {
			if count, found := bytes.CutPrefix(line, []byte("oom_kill ")); found {
				n, _ := strconv.Atoi(string(bytes.TrimSpace(count)))
				return n
			}
		}
	}
	return 0
}
