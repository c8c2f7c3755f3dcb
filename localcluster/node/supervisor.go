package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/gitfn/gitfn/localcluster/cluster"
)

const (
	startLimit = 60 * time.Second
	stopLimit  = 10 * time.Second
	logLines   = 20
)

// supervised is a part and the process it has, if any.
type supervised struct {
	part
	PartStatus
	process *os.Process
	// ended is closed when process has been waited for.
	ended chan struct{}
	// stopping is true from the user's wish on, so that the end is no failure.
	stopping bool
	// prepared is true once after has run.
	prepared bool
}

// supervisor starts parts, notices their ends and answers on the control socket. The lock guards the
// parts' status.
type supervisor struct {
	spec   cluster.Spec
	stages [][]*supervised

	mu sync.Mutex
}

// Supervise starts all parts of the spec that it reads, and serves the control socket until it fails.
func Supervise(input io.Reader) error {
	sv := &supervisor{}
	if err := json.NewDecoder(input).Decode(&sv.spec); err != nil {
		return fmt.Errorf("read the spec: %w", err)
	}
	for _, stage := range stages(sv.spec) {
		var parts []*supervised
		for _, p := range stage {
			parts = append(parts, &supervised{part: p, PartStatus: PartStatus{Name: p.name, State: Waiting}})
		}
		sv.stages = append(sv.stages, parts)
	}
	listener, err := net.Listen("unix", sv.spec.Dir.Control())
	if err != nil {
		return fmt.Errorf("listen on the control socket: %w", err)
	}
	go sv.startAll(context.Background())
	return http.Serve(listener, sv.routes())
}

// startAll ends early when a part fails; what runs then goes on running, so that one can look at it.
func (sv *supervisor) startAll(ctx context.Context) {
	for _, stage := range sv.stages {
		var wg sync.WaitGroup
		errs := make([]error, len(stage))
		for i, p := range stage {
			wg.Go(func() { errs[i] = sv.start(ctx, p) })
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return
		}
	}
}

// start runs a part and returns when it is ready, has ended, or has taken too long.
func (sv *supervisor) start(ctx context.Context, p *supervised) error {
	if err := sv.run(p); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	ended := p.ended
	go func() {
		select {
		case <-ended:
			cancel()
		case <-ctx.Done():
		}
	}()
	err := Wait(ctx, p.ready)
	if err == nil && p.after != nil && !p.prepared {
		err = p.after(ctx)
		p.prepared = err == nil
	}
	sv.mu.Lock()
	defer sv.mu.Unlock()
	switch {
	case p.State != Starting:
		return fmt.Errorf("%s ended: %s", p.Name, p.Reason)
	case err != nil:
		sv.fail(p, fmt.Sprintf("not ready after %s: %v", startLimit, err))
		_ = p.process.Kill()
		return fmt.Errorf("%s is %s", p.Name, p.Reason)
	}
	p.State = Running
	return nil
}

// run starts the process of a part and a goroutine that notices its end.
func (sv *supervisor) run(p *supervised) error {
	sv.mu.Lock()
	defer sv.mu.Unlock()
	if p.State == Running || p.State == Starting {
		return fmt.Errorf("%s runs already", p.Name)
	}
	log, err := os.OpenFile(sv.spec.Dir.Log(p.Name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(p.path, p.args...)
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		sv.fail(p, err.Error())
		return err
	}
	p.process, p.ended, p.stopping = cmd.Process, make(chan struct{}), false
	p.State, p.Reason, p.PartStatus.Log = Starting, "", ""
	go func() {
		err := cmd.Wait()
		sv.mu.Lock()
		defer sv.mu.Unlock()
		switch {
		case p.stopping:
			p.State = Stopped
		case p.State != Failed: // or it was ended because it did not get ready
			sv.fail(p, fmt.Sprintf("ended by itself (%v)", err))
		}
		close(p.ended)
	}()
	return nil
}

func (sv *supervisor) fail(p *supervised, reason string) {
	p.State, p.Reason, p.PartStatus.Log = Failed, reason, tail(sv.spec.Dir.Log(p.Name), logLines)
}

// stop ends a part and returns when it has ended.
func (sv *supervisor) stop(p *supervised) error {
	sv.mu.Lock()
	if p.process == nil || (p.State != Running && p.State != Starting) {
		state := p.State
		sv.mu.Unlock()
		if state == Stopped {
			return nil
		}
		return fmt.Errorf("%s is %s, not running", p.Name, state)
	}
	p.stopping = true
	process, ended := p.process, p.ended
	sv.mu.Unlock()
	_ = process.Signal(syscall.SIGTERM)
	select {
	case <-ended:
	case <-time.After(stopLimit):
		_ = process.Kill()
		<-ended
	}
	return nil
}

func (sv *supervisor) status() Status {
	sv.mu.Lock()
	defer sv.mu.Unlock()
	var s Status
	for _, stage := range sv.stages {
		for _, p := range stage {
			s.Parts = append(s.Parts, p.PartStatus)
		}
	}
	return s
}

func (sv *supervisor) find(name string) *supervised {
	for _, stage := range sv.stages {
		for _, p := range stage {
			if p.Name == name {
				return p
			}
		}
	}
	return nil
}

func (sv *supervisor) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewEncoder(w).Encode(sv.status())
	})
	mux.HandleFunc("POST /{verb}/{part}", func(w http.ResponseWriter, r *http.Request) {
		p := sv.find(r.PathValue("part"))
		if p == nil {
			http.Error(w, "no such part; `info` lists them", http.StatusNotFound)
			return
		}
		var err error
		switch r.PathValue("verb") {
		case "start":
			// Goes on when the client goes away: half a start would be a failed part.
			err = sv.start(context.WithoutCancel(r.Context()), p)
		case "stop":
			err = sv.stop(p)
		default:
			err = errors.New("a part can only be started and stopped")
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
		}
	})
	return mux
}
