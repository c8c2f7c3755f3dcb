package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// usage is what a process has used so far.
type usage struct {
	cpu time.Duration
	// resident is what it has in memory now, peak the most it ever had; in bytes.
	resident, peak int64
}

// ticks is what the kernel counts processor time in: USER_HZ, which is 100 wherever Linux has /proc.
const ticks = 100

// usageOf reads the usage of a process of this machine from /proc.
func usageOf(pid int) (usage, error) {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return usage{}, fmt.Errorf("read usage of process %d: %w", pid, err)
	}
	status, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		return usage{}, fmt.Errorf("read usage of process %d: %w", pid, err)
	}
	return parseUsage(string(stat), string(status))
}

// parseUsage reads the files stat and status of proc(5).
func parseUsage(stat, status string) (usage, error) {
	var u usage
	// The second field is the program's name, in brackets, and may hold anything.
	fields := strings.Fields(stat[strings.LastIndex(stat, ")")+1:])
	if len(fields) < 13 {
		return u, fmt.Errorf("read usage: stat has %d fields behind the name", len(fields))
	}
	for _, field := range fields[11:13] { // utime, stime
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return u, fmt.Errorf("read usage: %w", err)
		}
		u.cpu += time.Duration(n) * time.Second / ticks
	}
	for line := range strings.Lines(status) {
		name, value, _ := strings.Cut(line, ":")
		into := map[string]*int64{"VmRSS": &u.resident, "VmHWM": &u.peak}[name]
		if into == nil {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		if err != nil {
			return u, fmt.Errorf("read usage: %w", err)
		}
		*into = n << 10
	}
	return u, nil
}
