package node

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"

	"github.com/gitfn/gitfn/localcluster/cluster"
)

// Init is process 1 of a cluster: it waits for its spec, sets the namespaces up, starts the supervisor and
// collects orphans until the supervisor ends. It returns only on failure or at the end.
func Init(input io.Reader) error {
	if os.Getpid() != 1 {
		return fmt.Errorf("%s is started by `up` only", VerbInit)
	}
	var s cluster.Spec
	if err := json.NewDecoder(input).Decode(&s); err != nil {
		return fmt.Errorf("read the spec: %w; `up` ended too early", err)
	}
	if err := os.Setenv("PATH", s.Binaries.Path()); err != nil {
		return err
	}
	if err := setUpMounts(s); err != nil {
		return fmt.Errorf("set up mounts: %w", err)
	}
	if err := setUpNetwork(s); err != nil {
		return fmt.Errorf("set up the network: %w", err)
	}
	if err := syscall.Sethostname([]byte(s.Name)); err != nil {
		return fmt.Errorf("set the host name: %w", err)
	}
	return superviseAndReap(s)
}

// superviseAndReap keeps collecting children apart from starting and waiting for parts, which is the
// supervisor's: a process cannot do both without stealing its own children's exit codes.
func superviseAndReap(s cluster.Spec) error {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	input, err := json.Marshal(s)
	if err != nil {
		return err
	}
	cmd := exec.Command(s.Dir.Self(), VerbSupervise)
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = read, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	if _, err := write.Write(input); err != nil {
		return err
	}
	write.Close()
	read.Close()
	go func() {
		for range signals {
			_ = cmd.Process.Kill()
		}
	}()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return fmt.Errorf("wait for children: %w", err)
		}
		if pid == cmd.Process.Pid {
			return fmt.Errorf("the supervisor ended with status %d, signal %d", status.ExitStatus(), status.Signal())
		}
	}
}

func setUpNetwork(s cluster.Spec) error {
	steps := [][]string{
		{"ip", "link", "set", "lo", "up"},
		{"ip", "addr", "add", s.NodeIP() + "/30", "dev", "eth0"},
		{"ip", "link", "set", "eth0", "up"},
		{"ip", "route", "add", "default", "via", s.HostIP()},
	}
	for _, step := range steps {
		if err := run(step...); err != nil {
			return err
		}
	}
	settings := map[string]string{
		"ipv4/ip_forward": "1",
		// Without it an answer from a Pod to another Pod of the same bridge does not pass the rule that
		// would give it back its Service's address.
		"bridge/bridge-nf-call-iptables": "1",
		// A connection to a Service without endpoints is refused by an ICMP message. The machine's own
		// connections come in and would go out on one device, which makes the kernel send redirects, and
		// those use up the rate of ICMP messages: refusals would become time-outs.
		"ipv4/conf/all/send_redirects":  "0",
		"ipv4/conf/eth0/send_redirects": "0",
		"ipv4/icmp_ratelimit":           "0",
		// Lets localhost:<nodePort> reach Pods.
		"ipv4/conf/all/route_localnet": "1",
	}
	for name, value := range settings {
		if err := os.WriteFile("/proc/sys/net/"+name, []byte(value), 0o644); err != nil {
			return fmt.Errorf("set %s: %w", name, err)
		}
	}
	return nil
}

func run(command ...string) error {
	out, err := exec.Command(command[0], command[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(command, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
