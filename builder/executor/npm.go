package executor

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

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
	arguments := append(slices.Clone(o.npmCommand[1:]), verb, "--omit=dev", "--no-audit", "--no-fund", "--no-update-notifier", "--no-progress", "--foreground-scripts")
	return o.manage(ctx, manager{
		name: "npm", does: "npm " + verb, errors: npmLine,
		command: append([]string{o.npmCommand[0]}, arguments...), environ: environ,
		classify: func(exitCode int, lines []string) (builder.Class, string) { return classifyNpm(verb, exitCode, lines) },
	})
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
	all, err := o.authorities()
	if all == "" {
		return environ, err
	}
	// Node.js adds authorities to its own; what else scripts call takes one file for all.
	return append(environ, "NODE_EXTRA_CA_CERTS="+o.trustBundle, "SSL_CERT_FILE="+all, "GIT_SSL_CAINFO="+all), nil
}

// authorities is a file with those of the image and of the trust bundle; empty
// where there is no bundle.
func (o *options) authorities() (string, error) {
	bundle, err := o.bundle()
	if bundle == nil {
		return "", err
	}
	all := filepath.Join(o.tmp, "ca.crt")
	if err := os.WriteFile(all, append(systemRoots(), bundle...), 0o644); err != nil {
		return "", fmt.Errorf("write trust bundle: %w", err)
	}
	return all, nil
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
