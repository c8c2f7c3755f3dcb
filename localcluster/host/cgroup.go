package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

const cgroupRoot = "/sys/fs/cgroup"

// hierarchies returns the mount point of every cgroup hierarchy: one for version 2, many for version 1.
func hierarchies() ([]string, error) {
	data, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil, err
	}
	return parseHierarchies(string(data)), nil
}

func parseHierarchies(mounts string) []string {
	var found []string
	for line := range strings.Lines(mounts) {
		f := strings.Fields(line)
		if len(f) > 2 && (f[2] == "cgroup" || f[2] == "cgroup2") && strings.HasPrefix(f[1], cgroupRoot) {
			found = append(found, f[1])
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// JoinCgroup makes the cluster's control group in every hierarchy and moves a process into the group
// `system` below it: kubelet wants the upper one for the Pods, and a version 2 group with children must
// hold no processes of its own.
func JoinCgroup(group string, pid int) error {
	roots, err := hierarchies()
	if err != nil {
		return err
	}
	if len(roots) == 0 {
		return fmt.Errorf("find control groups below %s: none are mounted; mount cgroup2 there", cgroupRoot)
	}
	for _, root := range roots {
		system := filepath.Join(root, group, "system")
		if err := os.MkdirAll(system, 0o755); err != nil {
			return fmt.Errorf("make control group %s: %w", system, err)
		}
		if err := delegate(root, group); err != nil {
			return err
		}
		if err := copyCPUSet(root, group); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(system, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o644); err != nil {
			return fmt.Errorf("move process %d to control group %s: %w", pid, system, err)
		}
	}
	return nil
}

// delegate switches the controllers of a version 2 hierarchy on for the groups below.
func delegate(root, group string) error {
	data, err := os.ReadFile(filepath.Join(root, "cgroup.controllers"))
	if err != nil {
		return nil // version 1
	}
	for _, dir := range []string{root, filepath.Join(root, group)} {
		for _, controller := range strings.Fields(string(data)) {
			path := filepath.Join(dir, "cgroup.subtree_control")
			if err := os.WriteFile(path, []byte("+"+controller), 0o644); err != nil {
				return fmt.Errorf("switch control group controller %s on in %s: %w", controller, path, err)
			}
		}
	}
	return nil
}

// copyCPUSet fills a new version 1 cpuset, which refuses processes while it is empty.
func copyCPUSet(root, group string) error {
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		value, err := os.ReadFile(filepath.Join(root, file))
		if err != nil || filepath.Base(root) == "unified" {
			continue
		}
		for _, dir := range []string{group, group + "/system"} {
			path := filepath.Join(root, dir, file)
			if old, err := os.ReadFile(path); err != nil || strings.TrimSpace(string(old)) != "" {
				continue
			}
			if err := os.WriteFile(path, value, 0o644); err != nil {
				return fmt.Errorf("fill %s: %w", path, err)
			}
		}
	}
	return nil
}

// RemoveCgroup ends every process in the cluster's control groups and removes the groups, deepest first.
// It returns an error while some are still ending; call it again then.
func RemoveCgroup(group string) error {
	roots, err := hierarchies()
	if err != nil {
		return err
	}
	var errs []error
	for _, root := range roots {
		var dirs []string
		top := filepath.Join(root, group)
		_ = filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				dirs = append(dirs, path)
			}
			return nil
		})
		for _, dir := range slices.Backward(dirs) {
			endProcesses(dir)
			if err := syscall.Rmdir(dir); err != nil && err != syscall.ENOENT {
				errs = append(errs, fmt.Errorf("remove control group %s: %w", dir, err))
			}
		}
	}
	return errors.Join(errs...)
}

func endProcesses(dir string) {
	data, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return
	}
	for _, field := range strings.Fields(string(data)) {
		if pid, err := strconv.Atoi(field); err == nil && pid > 1 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}
