package node

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/gitfn/gitfn/localcluster/cluster"
)

// setUpMounts gives the cluster its own /proc, /run, /var/lib, /var/log, resolv.conf and passwd. The rest of the
// machine's file system stays visible, but nothing that is mounted here gets out.
func setUpMounts(s cluster.Spec) error {
	resolv, err := filepath.EvalSymlinks("/etc/resolv.conf")
	if err != nil {
		resolv = "/etc/resolv.conf"
	}
	if err := os.WriteFile(s.Dir.Path("resolv.conf"), resolvConf(s.Nameservers), 0o644); err != nil {
		return err
	}
	// Cut off from the machine first, then shared within, as mounts of containers want it.
	for _, flag := range []uintptr{syscall.MS_PRIVATE, syscall.MS_SHARED} {
		if err := syscall.Mount("", "/", "", flag|syscall.MS_REC, ""); err != nil {
			return fmt.Errorf("set the propagation of /: %w", err)
		}
	}
	if err := syscall.Mount("proc", "/proc", "proc", syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	if err := syscall.Mount("tmpfs", "/run", "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, "mode=755"); err != nil {
		return fmt.Errorf("mount /run: %w", err)
	}
	for _, dir := range []string{"/var/lib", "/var/log"} {
		if err := bind(s.Dir.Path(dir), dir); err != nil {
			return err
		}
	}
	modes := map[string]os.FileMode{"/run/lock": 0o755}
	for i := range VolumeCount {
		modes[Volume(i)] = 0o777
	}
	for dir, mode := range modes {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := os.Chmod(dir, mode); err != nil {
			return err
		}
	}
	if err := shareResolvConf(s, resolv); err != nil {
		return err
	}
	if err := setUpSSH(s); err != nil {
		return err
	}
	return hideKernelSettings()
}

func resolvConf(nameservers []string) []byte {
	var b strings.Builder
	for _, n := range nameservers {
		fmt.Fprintf(&b, "nameserver %s\n", n)
	}
	return []byte(b.String())
}

func shareResolvConf(s cluster.Spec, resolv string) error {
	if strings.HasPrefix(resolv, "/run/") {
		if err := os.MkdirAll(filepath.Dir(resolv), 0o755); err != nil {
			return err
		}
		return os.WriteFile(resolv, resolvConf(s.Nameservers), 0o644)
	}
	if _, err := os.Stat(resolv); err != nil {
		return nil
	}
	return syscall.Mount(s.Dir.Path("resolv.conf"), resolv, "", syscall.MS_BIND, "")
}

// hideKernelSettings lets kubelet set what it wants to see set, without changing it for the machine: these
// settings know no namespaces.
func hideKernelSettings() error {
	for _, name := range []string{
		"vm/overcommit_memory", "vm/panic_on_oom",
		"kernel/panic", "kernel/panic_on_oops",
		"kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
	} {
		real := "/proc/sys/" + name
		value, err := os.ReadFile(real)
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return err
		}
		copied := "/run/sys/" + name
		if err := os.MkdirAll(filepath.Dir(copied), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(copied, value, 0o644); err != nil {
			return err
		}
		if err := syscall.Mount(copied, real, "", syscall.MS_BIND, ""); err != nil {
			return fmt.Errorf("hide %s: %w", real, err)
		}
	}
	return nil
}

func bind(source, target string) error {
	if err := os.MkdirAll(source, 0o755); err != nil {
		return err
	}
	if err := syscall.Mount(source, target, "", syscall.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount %s on %s: %w", source, target, err)
	}
	return nil
}
