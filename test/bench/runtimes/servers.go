package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// language is a runtime server and what it is held against.
type language struct {
	name string
	// bare and server are the commands; both listen on 127.0.0.1 and SERVER_PORT.
	bare, server []string
	// env goes to both, beside SERVER_PORT, SERVER_HOST and PATH.
	env []string
}

// languages has a row for each runtime server. Paths begin at the module's root.
var languages = []language{{
	name:   "nodejs",
	bare:   []string{"node", "test/bench/runtimes/testdata/bare.mjs"},
	server: []string{"node", "runtimes/nodejs/server.mjs"},
	env:    []string{"HANDLER_PATH=./test/bench/runtimes/testdata/hello.mjs", "NODE_ENV=production"},
}}

// process is a server that runs.
type process struct {
	cmd *exec.Cmd
	url string
}

// start runs a server and waits for its first answer.
func start(ctx context.Context, command, env []string) (*process, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "SERVER_HOST=127.0.0.1", "SERVER_PORT=" + strconv.Itoa(port)}, env...)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", command[0], err)
	}
	p := &process{cmd: cmd, url: fmt.Sprintf("http://127.0.0.1:%d/", port)}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		err := p.ask(ctx, http.DefaultClient)
		if err == nil {
			return p, nil
		}
		select {
		case <-ctx.Done():
			p.stop()
			return nil, fmt.Errorf("start %s: no answer in 30 s: %w", strings.Join(command, " "), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// ask wants "hello".
func (p *process) ask(ctx context.Context, client *http.Client) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url, nil)
	if err != nil {
		return err
	}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err == nil && (res.StatusCode != http.StatusOK || string(body) != "hello") {
		err = fmt.Errorf("the answer is %s: %.100q", res.Status, body)
	}
	return err
}

func (p *process) stop() {
	p.cmd.Process.Kill()
	p.cmd.Wait()
}

// cpu is the processor time that the process has used. The kernel counts it in
// hundredths of a second.
func (p *process) cpu() (time.Duration, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	// The name, in parentheses, may hold blanks.
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	if len(fields) < 13 {
		return 0, errors.New("read processor time: too few fields")
	}
	user, err := strconv.Atoi(fields[11])
	if err != nil {
		return 0, err
	}
	system, err := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond, err
}
