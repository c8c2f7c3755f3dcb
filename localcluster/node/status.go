package node

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/gitfn/gitfn/localcluster/cluster"
)

// State is how a part is.
type State string

// The states of a part.
const (
	// Waiting parts start after others.
	Waiting State = "waiting"
	// Starting parts run and are not ready yet.
	Starting State = "starting"
	// Running parts have been ready since their start.
	Running State = "running"
	// Stopped parts were stopped by the user.
	Stopped State = "stopped"
	// Failed parts ended by themselves or could not start.
	Failed State = "failed"
)

// PartStatus is one part as the supervisor sees it.
type PartStatus struct {
	Name  string `json:"name"`
	State State  `json:"state"`
	// Reason says how a failed part ended.
	Reason string `json:"reason,omitempty"`
	// Log is the last lines of a failed part.
	Log string `json:"log,omitempty"`
}

// Status is all parts in the order of their start.
type Status struct {
	Parts []PartStatus `json:"parts"`
}

// In returns the names of the parts that are in a state.
func (s Status) In(state State) []string {
	var names []string
	for _, p := range s.Parts {
		if p.State == state {
			names = append(names, p.Name)
		}
	}
	return names
}

// Err returns an error that names each failed part and shows the end of its log; nil when none failed.
func (s Status) Err() error {
	var b strings.Builder
	for _, p := range s.Parts {
		if p.State == Failed {
			fmt.Fprintf(&b, "%s failed: %s; the end of its log:\n%s\n", p.Name, p.Reason, p.Log)
		}
	}
	if b.Len() == 0 {
		return nil
	}
	return fmt.Errorf("%s", strings.TrimSpace(b.String()))
}

// ReadStatus asks the supervisor of a cluster.
func ReadStatus(ctx context.Context, dir cluster.Dir) (Status, error) {
	var s Status
	err := get(ctx, controlClient(dir, 5*time.Second), "http://supervisor/status", &s)
	return s, err
}

// Control starts or stops a part; verb is "start" or "stop". It returns when the part is ready or has ended.
func Control(ctx context.Context, dir cluster.Dir, verb, part string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://supervisor/"+verb+"/"+part, nil)
	if err != nil {
		return err
	}
	res, err := controlClient(dir, 2*time.Minute).Do(req)
	if err != nil {
		return fmt.Errorf("%s %s: %w; is the cluster up?", verb, part, err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		var b bytes.Buffer
		_, _ = b.ReadFrom(res.Body)
		return fmt.Errorf("%s %s: %s", verb, part, strings.TrimSpace(b.String()))
	}
	return nil
}

// tail returns the last lines of a file.
func tail(path string, lines int) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
