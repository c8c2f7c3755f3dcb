// Package host prepares the machine for a cluster and puts everything back afterwards.
//
// In goes a cluster.Spec; what comes out are one veth pair, two routes, one nftables table, one control
// group per hierarchy and forwarding switched on. Nothing else of the machine is touched, and every
// function that undoes something also works when only part of it was done.
package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// command runs a program and puts its output into the error.
func command(ctx context.Context, name string, args ...string) (string, error) {
	return commandInput(ctx, "", name, args...)
}

func commandInput(ctx context.Context, input, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return string(out), nil
}

const otherWay = "; or use a cluster that you have: CLUSTER=current make run"

// tools is which Debian package brings each program that a cluster runs.
var tools = []struct{ program, debian string }{
	{"runc", "runc"},
	{"iptables", "iptables"},
	{"nft", "nftables"},
	{"conntrack", "conntrack"},
	{"socat", "socat"},
	{"ethtool", "ethtool"},
	{"ip", "iproute2"},
	{"git", "git"},
	{"sshd", "openssh-server"},
	{"ssh-keygen", "openssh-client"},
	{"mount", "mount"},
	{"nsenter", "util-linux"},
}

// Check returns an error of one sentence when the machine lacks something that a cluster needs: what, how
// to get it, and the other way.
func Check(ctx context.Context, stateDir string) error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("a local cluster makes network devices and mounts, so run it as root%s", otherWay)
	}
	if missing := missingPackages(lookPath); len(missing) > 0 {
		return fmt.Errorf("programs are missing; run: apt-get install --no-install-recommends %s%s", strings.Join(missing, " "), otherWay)
	}
	// Debian's kernels have these as modules; where they are built in, modprobe fails and nothing is lost.
	for _, module := range []string{"overlay", "veth", "bridge", "br_netfilter", "nf_conntrack"} {
		_, _ = command(ctx, "modprobe", "-q", module)
	}
	if err := checkKernel(ctx); err != nil {
		return fmt.Errorf("%w%s", err, otherWay)
	}
	return checkDisk(stateDir)
}

func missingPackages(found func(string) bool) []string {
	var missing []string
	for _, t := range tools {
		if !found(t.program) {
			missing = append(missing, t.debian)
		}
	}
	return missing
}

func lookPath(program string) bool {
	_, err := exec.LookPath(program)
	return err == nil
}

func checkKernel(ctx context.Context) error {
	filesystems, err := os.ReadFile("/proc/filesystems")
	if err != nil {
		return fmt.Errorf("read /proc/filesystems: %w", err)
	}
	if !strings.Contains(string(filesystems), "\toverlay\n") {
		return fmt.Errorf("this kernel has no overlay file system, which containers need")
	}
	for _, ns := range []string{"net", "mnt", "pid", "uts", "ipc"} {
		if _, err := os.Stat("/proc/self/ns/" + ns); err != nil {
			return fmt.Errorf("this kernel has no %s namespaces, in which a cluster runs", ns)
		}
	}
	for _, kind := range []string{"bridge", "veth"} {
		probe := fmt.Sprintf("gitfn-%x", os.Getpid()) // others may probe at the same time
		if _, err := command(ctx, "ip", "link", "add", probe, "type", kind); err != nil {
			return fmt.Errorf("this kernel or container does not let root make a %s network device (%v)", kind, err)
		}
		if _, err := command(ctx, "ip", "link", "del", probe); err != nil {
			return err
		}
	}
	return nil
}

const overlayMagic, tmpfsMagic = 0x794c7630, 0x01021994

// checkDisk refuses a state directory on which overlay snapshots cannot be made.
func checkDisk(dir string) error {
	var s syscall.Statfs_t
	there := dir // before the first cluster, only a parent of it
	err := syscall.Statfs(there, &s)
	for ; errors.Is(err, fs.ErrNotExist) && there != "/"; err = syscall.Statfs(there, &s) {
		there = filepath.Dir(there)
	}
	if err != nil {
		return fmt.Errorf("look at the file system of %s: %w", dir, err)
	}
	if s.Type == overlayMagic || s.Type == tmpfsMagic {
		return fmt.Errorf("the state directory %s is not on a disk; set XDG_CACHE_HOME to a directory that is%s", dir, otherWay)
	}
	if strings.HasPrefix(dir, "/run/") || strings.HasPrefix(dir, "/var/lib/") || strings.HasPrefix(dir, "/var/log/") {
		return fmt.Errorf("the state directory %s is in a place that a cluster hides from itself; set XDG_CACHE_HOME to another one", dir)
	}
	return nil
}
