package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/gitfn/gitfn/localcluster/binaries"
	"github.com/gitfn/gitfn/localcluster/cluster"
	"github.com/gitfn/gitfn/localcluster/host"
	"github.com/gitfn/gitfn/localcluster/node"
)

//go:embed manifests.yaml
var manifests string

// readyLimit is for a start on a busy machine; an idle one needs a fifth of it.
const readyLimit = 3 * time.Minute

func check(ctx context.Context, o options, _, _ io.Writer) error {
	return host.Check(ctx, string(o.home))
}

func up(ctx context.Context, o options, _, stderr io.Writer) error {
	unlock, err := o.home.Lock(o.name)
	if err != nil {
		return err
	}
	defer unlock()
	start := time.Now()
	if o.dir().Supervisor().Alive() {
		return attach(ctx, o, stderr)
	}
	if err := host.Check(ctx, string(o.home)); err != nil {
		return err
	}
	dirs, err := buildAll(ctx, o, stderr)
	if err != nil {
		return err
	}
	if err := remove(ctx, o); err != nil {
		return fmt.Errorf("remove what an earlier cluster %s left: %w", o.name, err)
	}
	s, err := plan(ctx, o, dirs)
	if err != nil {
		return err
	}
	if err := launch(ctx, s); err != nil {
		// Leave nothing behind, even when it is the user who interrupts.
		return errors.Join(err, remove(context.WithoutCancel(ctx), o))
	}
	if len(s.Nameservers) == 0 {
		fmt.Fprintln(stderr, "warning: /etc/resolv.conf names only servers on this machine's loopback, so Pods resolve cluster names only")
	}
	if err := awaitReady(ctx, s, stderr); err != nil {
		return err
	}
	fmt.Fprintf(stderr, "cluster %s is ready after %.1f s: export KUBECONFIG=%s\n", o.name, time.Since(start).Seconds(), s.Dir.Kubeconfig())
	return nil
}

// attach looks after a cluster whose supervisor runs: it finishes a start that was interrupted and starts
// parts that were stopped.
func attach(ctx context.Context, o options, stderr io.Writer) error {
	s, err := cluster.Load(o.dir())
	if err != nil {
		return err
	}
	if status, err := node.ReadStatus(ctx, s.Dir); err == nil {
		for _, part := range status.In(node.Stopped) {
			if err := node.Control(ctx, s.Dir, "start", part); err != nil {
				return err
			}
			fmt.Fprintf(stderr, "started %s, which was stopped\n", part)
		}
	}
	if err := awaitReady(ctx, s, stderr); err != nil {
		return err
	}
	fmt.Fprintf(stderr, "cluster %s is up: export KUBECONFIG=%s\n", o.name, s.Dir.Kubeconfig())
	return nil
}

// plan decides names, addresses and programs of a new cluster, and records them.
func plan(ctx context.Context, o options, dirs binaries.Dirs) (cluster.Spec, error) {
	s := cluster.Spec{Name: o.name, Dir: o.dir(), Binaries: dirs, Nameservers: host.Nameservers()}
	taken, err := host.Taken(ctx)
	if err != nil {
		return s, err
	}
	if s.MTU, err = host.MTU(ctx); err != nil {
		return s, err
	}
	err = o.home.Update(func(r *cluster.Records) error {
		var err error
		if s.Index, err = r.Allocate(o.name, taken); err != nil {
			return err
		}
		if r.IPForward == "" {
			r.IPForward, err = host.EnableForwarding()
		}
		return err
	})
	if err != nil {
		return s, err
	}
	if err := os.MkdirAll(string(s.Dir), 0o700); err != nil {
		return s, err
	}
	return s, errors.Join(s.Save(), copySelf(s.Dir.Self()))
}

func launch(ctx context.Context, s cluster.Spec) error {
	if err := node.WriteConfig(s); err != nil {
		return err
	}
	return node.Launch(ctx, s, func(pid int) error {
		if err := host.JoinCgroup(s.Cgroup(), pid); err != nil {
			return err
		}
		return host.Connect(ctx, s, pid)
	})
}

func copySelf(target string) error {
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer self.Close()
	f, err := os.OpenFile(target, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, self)
	return errors.Join(err, f.Close())
}

// awaitReady returns when every part is ready, the node is Ready, names resolve and the base objects are
// there. It returns at once when a part has failed.
func awaitReady(ctx context.Context, s cluster.Spec, stderr io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	_, err := os.Stat(s.Dir.Ready())
	fresh := err != nil
	if fresh {
		if err := awaitParts(ctx, s, "kube-apiserver"); err != nil {
			return err
		}
		if err := apply(ctx, s); err != nil {
			return err
		}
	}
	if err := awaitParts(ctx, s, ""); err != nil {
		return err
	}
	for what, ask := range map[string]func(context.Context) error{
		"the node":        nodeReady(s),
		"the DNS server":  nameResolves(s),
		"ServiceAccounts": accountExists(s),
	} {
		if err := node.Wait(ctx, ask); err != nil {
			return fmt.Errorf("wait for %s of cluster %s: %w; see the logs in %s", what, s.Name, err, s.Dir.Logs())
		}
	}
	if !fresh {
		return nil
	}
	return os.WriteFile(s.Dir.Ready(), nil, 0o600)
}

// awaitParts waits until one part runs, or all for the empty name.
func awaitParts(ctx context.Context, s cluster.Spec, name string) error {
	var failed error
	err := node.Wait(ctx, func(ctx context.Context) error {
		if !s.Dir.Supervisor().Alive() {
			failed = fmt.Errorf("the supervisor of cluster %s ended; see %s", s.Name, s.Dir.Log("supervisor"))
			return nil
		}
		status, err := node.ReadStatus(ctx, s.Dir)
		if err != nil {
			return err
		}
		if failed = status.Err(); failed != nil {
			return nil
		}
		for _, p := range status.Parts {
			if p.State != node.Running && (name == "" || p.Name == name) {
				return fmt.Errorf("%s is %s", p.Name, p.State)
			}
		}
		return nil
	})
	if failed != nil {
		return fmt.Errorf("%w\nrun: localcluster down --name %s, then up again", failed, s.Name)
	}
	if err != nil {
		return fmt.Errorf("wait for the parts of cluster %s: %w; see the logs in %s", s.Name, err, s.Dir.Logs())
	}
	return nil
}

func nodeReady(s cluster.Spec) func(context.Context) error {
	return func(ctx context.Context) error {
		api, err := node.NewAPI(s)
		if err != nil {
			return err
		}
		var n struct {
			Status struct {
				Conditions []struct{ Type, Status, Message string }
			}
		}
		if err := api.Get(ctx, "/api/v1/nodes/"+s.Name, &n); err != nil {
			return err
		}
		for _, c := range n.Status.Conditions {
			if c.Type == "Ready" && c.Status == "True" {
				return nil
			}
			if c.Type == "Ready" {
				err = fmt.Errorf("not Ready: %s", c.Message)
			}
		}
		return err
	}
}

func accountExists(s cluster.Spec) func(context.Context) error {
	return func(ctx context.Context) error {
		api, err := node.NewAPI(s)
		if err != nil {
			return err
		}
		return api.Get(ctx, "/api/v1/namespaces/default/serviceaccounts/default", nil)
	}
}

func nameResolves(s cluster.Spec) func(context.Context) error {
	r := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		d := net.Dialer{Timeout: time.Second}
		return d.DialContext(ctx, network, s.NodeIP()+":53")
	}}
	return func(ctx context.Context) error {
		_, err := r.LookupHost(ctx, "kubernetes.default.svc.cluster.local.")
		return err
	}
}

func apply(ctx context.Context, s cluster.Spec) error {
	var objects strings.Builder
	objects.WriteString(manifests)
	for i := range node.VolumeCount {
		fmt.Fprintf(&objects, `---
apiVersion: v1
kind: PersistentVolume
metadata: {name: local-%[1]d}
spec:
  storageClassName: local
  capacity: {storage: 20Gi}
  accessModes: [ReadWriteOnce, ReadWriteMany]
  persistentVolumeReclaimPolicy: Retain
  hostPath: {path: %[2]s}
`, i, node.Volume(i))
	}
	return node.Wait(ctx, func(ctx context.Context) error {
		cmd := exec.CommandContext(ctx, s.Binaries.Program("kubectl"), "--kubeconfig", s.Dir.Kubeconfig(),
			"apply", "--server-side", "--field-manager=localcluster", "-f", "-")
		cmd.Stdin = strings.NewReader(objects.String())
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("apply the base objects: %s: %s", err, strings.TrimSpace(string(out)))
		}
		return nil
	})
}
