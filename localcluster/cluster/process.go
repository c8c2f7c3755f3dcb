package cluster

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

// Process identifies a process for as long as the machine runs, although process numbers are used again.
type Process struct {
	PID int `json:"pid"`
	// Start is the process' start time in clock ticks since boot, as /proc tells it.
	Start string `json:"start"`
	// Boot is the machine's boot identifier.
	Boot string `json:"boot"`
}

// Observe returns the identity of a running process.
func Observe(pid int) (Process, error) {
	start, _, err := processStat(pid)
	if err != nil {
		return Process{}, err
	}
	return Process{PID: pid, Start: start, Boot: bootID()}, nil
}

// Alive says whether this very process still runs. A zombie does not.
func (p Process) Alive() bool {
	if p.PID <= 1 || p.Boot != bootID() {
		return false
	}
	start, state, err := processStat(p.PID)
	return err == nil && start == p.Start && state != "Z" && state != "X"
}

// Kill ends the process if it still runs.
func (p Process) Kill() error {
	if !p.Alive() {
		return nil
	}
	if err := syscall.Kill(p.PID, syscall.SIGKILL); err != nil && err != syscall.ESRCH {
		return fmt.Errorf("end process %d: %w", p.PID, err)
	}
	return nil
}

// SaveSupervisor records the supervisor of a cluster.
func (d Dir) SaveSupervisor(p Process) error { return writeJSON(d.Path("supervisor.json"), p) }

// Supervisor returns the recorded supervisor; the zero Process, which is not alive, when there is none.
func (d Dir) Supervisor() Process {
	var p Process
	if err := readJSON(d.Path("supervisor.json"), &p); err != nil {
		return Process{}
	}
	return p
}

func processStat(pid int) (start, state string, err error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", "", err
	}
	return parseStat(string(data))
}

// parseStat picks the state and the start time. The command name in parentheses may itself contain spaces
// and parentheses, so fields are counted from the last one.
func parseStat(line string) (start, state string, err error) {
	fields := strings.Fields(line[strings.LastIndex(line, ")")+1:])
	if len(fields) < 20 {
		return "", "", fmt.Errorf("read process status %q: too few fields", line)
	}
	return fields[19], fields[0], nil
}

func bootID() string {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(data))
}
