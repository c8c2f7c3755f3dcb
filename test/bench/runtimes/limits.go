package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// limit is what a Function preset lets a Pod use.
type limit struct {
	milliCPU, mebibytes int
}

// limits are the limits of the Function presets that gitfn ships.
var limits = map[string]limit{
	"XS": {150, 256}, "S": {200, 256}, "M": {400, 512}, "L": {800, 1024}, "XL": {1600, 2048},
}

const (
	cgroups = "/sys/fs/cgroup"
	// period is the kubelet's, in microseconds.
	period = 100_000
)

// underLimit calls fn while each process has a control group of its own with
// the limit. The groups go afterwards.
func underLimit(l limit, servers [2]*process, fn func() error) (err error) {
	for i, p := range servers {
		for _, dir := range groupDirs(fmt.Sprintf("gitfn-bench-%d-%d", os.Getpid(), i)) {
			if err := os.Mkdir(dir, 0o755); err != nil {
				return err
			}
			parent := filepath.Join(filepath.Dir(dir), "cgroup.procs")
			pid := strconv.Itoa(p.cmd.Process.Pid)
			defer func() {
				err = errors.Join(err, os.WriteFile(parent, []byte(pid), 0o644), os.Remove(dir))
			}()
			if err := l.write(dir); err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(pid), 0o644); err != nil {
				return err
			}
		}
	}
	return fn()
}

// groupDirs are the directories of one group: one with cgroup v2, else one for
// each controller.
func groupDirs(name string) []string {
	if _, err := os.Stat(filepath.Join(cgroups, "cgroup.controllers")); err == nil {
		return []string{filepath.Join(cgroups, name)}
	}
	return []string{filepath.Join(cgroups, "cpu", name), filepath.Join(cgroups, "memory", name)}
}

// write sets those limits that the group in dir knows.
func (l limit) write(dir string) error {
	quota, memory := l.milliCPU*period/1000, strconv.Itoa(l.mebibytes<<20)
	known := false
	for _, file := range []struct{ name, value string }{
		{"cpu.max", fmt.Sprintf("%d %d", quota, period)},
		{"memory.max", memory},
		{"cpu.cfs_period_us", strconv.Itoa(period)},
		{"cpu.cfs_quota_us", strconv.Itoa(quota)},
		{"memory.limit_in_bytes", memory},
	} {
		path := filepath.Join(dir, file.name)
		if _, err := os.Stat(path); err != nil {
			continue
		}
		if err := os.WriteFile(path, []byte(file.value), 0o644); err != nil {
			return err
		}
		known = true
	}
	if !known {
		return fmt.Errorf("%s knows no limits", dir)
	}
	return nil
}
