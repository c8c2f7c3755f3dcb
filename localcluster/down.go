package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/gitfn/gitfn/localcluster/cluster"
	"github.com/gitfn/gitfn/localcluster/host"
	"github.com/gitfn/gitfn/localcluster/node"
)

// removeLimit is how long processes and mounts of a cluster may take to go after its process 1 is killed.
const removeLimit = 30 * time.Second

func down(ctx context.Context, o options, _, stderr io.Writer) error {
	unlock, err := o.home.Lock(o.name)
	if err != nil {
		return err
	}
	defer unlock()
	if err := remove(ctx, o); err != nil {
		return fmt.Errorf("take cluster %s down: %w", o.name, err)
	}
	fmt.Fprintf(stderr, "cluster %s is down\n", o.name)
	return nil
}

// remove ends a cluster and removes what there is of it, be it a whole one, the rest of one, or nothing.
func remove(ctx context.Context, o options) error {
	ctx, cancel := context.WithTimeout(ctx, removeLimit)
	defer cancel()
	s := cluster.Spec{Name: o.name, Dir: o.dir()}
	known := false
	err := o.home.Update(func(r *cluster.Records) error {
		s.Index, known = r.Clusters[o.name]
		return nil
	})
	if err != nil {
		return err
	}
	process := s.Dir.Supervisor()
	if err := process.Kill(); err != nil {
		return err
	}
	err = node.Wait(ctx, func(context.Context) error {
		if process.Alive() {
			return fmt.Errorf("process %d still runs", process.PID)
		}
		return host.RemoveCgroup(s.Cgroup())
	})
	if err != nil {
		return err
	}
	if known {
		if err := host.Disconnect(ctx, s); err != nil {
			return err
		}
	}
	// Mounts of a namespace that is just going away can still be busy for a moment.
	if err := node.Wait(ctx, func(context.Context) error { return os.RemoveAll(string(s.Dir)) }); err != nil {
		return err
	}
	return o.home.Update(func(r *cluster.Records) error {
		delete(r.Clusters, o.name)
		if len(r.Clusters) > 0 || r.IPForward == "" {
			return nil
		}
		err := host.RestoreForwarding(r.IPForward)
		r.IPForward = ""
		return err
	})
}
