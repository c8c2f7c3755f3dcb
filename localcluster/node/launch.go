// Package node is what runs inside a cluster's namespaces: process 1, and the supervisor of all parts.
//
// In goes a cluster.Spec on standard input; out come the running parts, and a socket that tells how they
// are. It never changes anything outside of its namespaces and the state directory, so that killing
// process 1 ends the cluster as a whole.
package node

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"github.com/gitfn/gitfn/localcluster/cluster"
)

// The hidden verbs under which the program calls itself.
const (
	VerbInit      = "part-init"
	VerbSupervise = "part-supervise"
	VerbGit       = "part-git"
	VerbGitSSH    = "part-git-ssh"
)

// Launch starts process 1 of a cluster in new namespaces, detached from this process. It waits for what
// connect does to it before its network can be used; then Launch returns.
func Launch(ctx context.Context, s cluster.Spec, connect func(pid int) error) error {
	input, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.Dir.Logs(), 0o755); err != nil {
		return err
	}
	log, err := os.OpenFile(s.Dir.Log("supervisor"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer read.Close()
	defer write.Close()
	cmd := exec.Command(s.Dir.Self(), VerbInit)
	cmd.Dir = "/"
	cmd.Stdin, cmd.Stdout, cmd.Stderr = read, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setsid: true,
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID |
			syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the cluster in namespaces of its own: %w", err)
	}
	process, err := cluster.Observe(cmd.Process.Pid)
	if err == nil {
		err = s.Dir.SaveSupervisor(process)
	}
	if err == nil {
		err = connect(cmd.Process.Pid)
	}
	if err == nil {
		_, err = bytes.NewReader(input).WriteTo(write)
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return err
	}
	return cmd.Process.Release()
}
