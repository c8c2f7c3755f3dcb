package executor

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"
)

// killLimit is how long a process may take to die. One that waits for a disk may.
const killLimit = 10 * time.Second

// killOthers ends every other process of the container, until there is none:
// what scripts left behind shares our user and could do to our files what we
// can. It works only as the container's first process, to which the kernel
// gives all orphans; elsewhere, as in a test, it does nothing.
func killOthers() error {
	if os.Getpid() != 1 {
		return nil
	}
	for began := time.Now(); ; {
		if err := syscall.Kill(-1, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("end what scripts left running: %w", err)
		}
		reap()
		alone, err := alone()
		if err != nil || alone {
			return err
		}
		if time.Since(began) > killLimit {
			return errors.New("end what scripts left running: it does not end")
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// reap takes note of ended children, or they would stay as zombies.
func reap() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if pid <= 0 || err != nil {
			return
		}
	}
}

// alone reports whether this is the only process.
func alone() (bool, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return false, fmt.Errorf("look for other processes: %w", err)
	}
	for _, entry := range entries {
		if pid, err := strconv.Atoi(entry.Name()); err == nil && pid != 1 {
			return false, nil
		}
	}
	return true, nil
}
