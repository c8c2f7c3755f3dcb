package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
)

// fleet is many Functions at rest.
type fleet struct {
	row                     string
	functions, repositories int
	interval, rest          time.Duration
	// changes is true if one commit is made at the end.
	changes bool
	judge   func(f *figures, m rested)
}

const (
	// namespaces is how many namespaces Functions are spread over.
	namespaces = 10
	// atOnce is how many Functions are on their way at once: what a thousand cost that are applied together is
	// another question.
	atOnce = 48
)

// rested is what was used while Functions were at rest.
type rested struct {
	intervals float64
	traffic   traffic
	cpu       time.Duration
	took      time.Duration
	// start and end are the memory before and after, peak the most there ever was.
	start, end, peak int64
	api              float64
	builds           int
}

func (fl fleet) measure(ctx context.Context, dir string) (all []figure, err error) {
	served := filepath.Join(dir, "served")
	if err := fl.write(ctx, served); err != nil {
		return nil, err
	}
	server, err := serveGit(served)
	if err != nil {
		return nil, err
	}
	defer server.close()
	c, err := startCluster(ctx, dir, fl.interval)
	defer func() { err = errors.Join(err, c.close()) }()
	if err != nil {
		return nil, err
	}
	f := &figures{row: fl.row}
	if err := fl.apply(ctx, c, server, f); err != nil {
		return nil, err
	}
	m, err := fl.atRest(ctx, c, server)
	if err != nil {
		return nil, err
	}
	fl.judge(f, m)
	if fl.changes {
		if err := fl.change(ctx, c, served, f); err != nil {
			return nil, err
		}
	}
	return f.all, nil
}

func (fl fleet) repository(served string, i int) repository {
	return repository{filepath.Join(served, fmt.Sprintf("r%03d.git", i))}
}

func directory(i int) string { return fmt.Sprintf("functions/f%04d", i) }

// write makes the repositories, each with the directories of its Functions.
func (fl fleet) write(ctx context.Context, served string) error {
	say("%s: makes %d repositories", fl.row, fl.repositories)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(2)
	for i := range fl.repositories {
		group.Go(func() error {
			r, err := newRepository(ctx, fl.repository(served, i).dir)
			if err != nil {
				return err
			}
			return r.write(ctx, commit{
				branch: "main", files: fl.functions / fl.repositories,
				path: func(n int) string { return directory(i+n*fl.repositories) + "/handler.js" },
				size: len(handler(0, 0)), content: func(w io.Writer, n int) error {
					_, err := io.WriteString(w, handler(i+n*fl.repositories, 0))
					return err
				},
			})
		})
	}
	return group.Wait()
}

// handler is the source of a Function's version; all are equally long.
func handler(i, version int) string {
	return fmt.Sprintf("module.exports = { main: () => \"%04d version %02d\" };\n", i, version)
}

// apply creates the Functions and waits until all of them serve.
func (fl fleet) apply(ctx context.Context, c *cluster, server *gitServer, f *figures) error {
	say("%s: applies %d Functions", fl.row, fl.functions)
	for i := range namespaces {
		if err := c.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace(i)}}); err != nil {
			return fmt.Errorf("create namespace: %w", err)
		}
	}
	began := time.Now()
	group, grouped := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i := range fl.functions {
		group.Go(func() error {
			fn := fl.function(server, i)
			if err := c.client.Create(grouped, fn); err != nil {
				return err
			}
			return c.eventually(grouped, "Function "+fn.Name+" to serve", func() (bool, error) {
				err := c.player.Get(grouped, client.ObjectKeyFromObject(fn), fn)
				return err == nil && conditions.IsReady(fn), client.IgnoreNotFound(err)
			})
		})
		if i%100 == 99 {
			say("%s: %d Functions are applied after %.0fs", fl.row, i+1, time.Since(began).Seconds())
		}
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("create Functions: %w", err)
	}
	if err := fl.until(ctx, c, "all Functions to serve", func(functionv1.Function) bool { return true }); err != nil {
		return err
	}
	f.add(fmt.Sprintf("applied to serving, %d at once, builds played", atOnce), "s", time.Since(began).Seconds())
	f.add("builds", "", float64(c.player.built())).exactly(float64(fl.functions))
	return nil
}

func (fl fleet) function(server *gitServer, i int) *functionv1.Function {
	return &functionv1.Function{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace(i), Name: fmt.Sprintf("f%04d", i)},
		Spec: functionv1.FunctionSpec{
			Runtime: "nodejs22",
			Source: functionv1.Source{GitRepository: &functionv1.GitRepository{
				URL: server.url + fmt.Sprintf("/r%03d.git", i%fl.repositories), Reference: "main", BaseDir: directory(i),
				Interval: &metav1.Duration{Duration: fl.interval},
			}},
		},
	}
}

func namespace(i int) string { return fmt.Sprintf("team-%d", i%namespaces) }

// until waits until all Functions are Ready and something else.
func (fl fleet) until(ctx context.Context, c *cluster, what string, is func(functionv1.Function) bool) error {
	said := time.Now()
	return c.eventually(ctx, what, func() (bool, error) {
		list := &functionv1.FunctionList{}
		if err := c.player.List(ctx, list); err != nil {
			return false, err
		}
		n := 0
		for i := range list.Items {
			if fn := &list.Items[i]; conditions.IsReady(fn) && fn.Status.ObservedGeneration == fn.Generation && is(*fn) {
				n++
			}
		}
		if time.Since(said) > 15*time.Second {
			said = time.Now()
			say("%s: waits for %s: %d of %d", fl.row, what, n, fl.functions)
		}
		return n == fl.functions, nil
	})
}

// atRest lets the manager poll for a while and looks at what that takes.
func (fl fleet) atRest(ctx context.Context, c *cluster, server *gitServer) (rested, error) {
	say("%s: comes to rest for %s, and is watched for %s", fl.row, fl.interval*3/2, fl.rest)
	if err := c.pass(ctx, fl.interval*3/2); err != nil {
		return rested{}, err
	}
	before, err := c.usage()
	if err != nil {
		return rested{}, err
	}
	asked, err := c.requests(ctx)
	if err != nil {
		return rested{}, err
	}
	seen, built, began := server.traffic(), c.player.built(), time.Now()
	if err := c.pass(ctx, fl.rest); err != nil {
		return rested{}, err
	}
	after, err := c.usage()
	if err != nil {
		return rested{}, err
	}
	now, err := c.requests(ctx)
	if err != nil {
		return rested{}, err
	}
	took := time.Since(began)
	return rested{
		intervals: took.Seconds() / fl.interval.Seconds(), traffic: server.traffic().minus(seen), took: took,
		cpu: after.cpu - before.cpu, start: before.resident, end: after.resident, peak: after.peak,
		api: now - asked, builds: c.player.built() - built,
	}, nil
}

// pass lets time go by, as long as the manager lives.
func (c *cluster) pass(ctx context.Context, d time.Duration) error {
	end := time.Now().Add(d)
	return c.eventually(ctx, "time to go by", func() (bool, error) { return time.Now().After(end), nil })
}

// change makes a commit that touches the directory of one Function.
func (fl fleet) change(ctx context.Context, c *cluster, served string, f *figures) error {
	const changed = 7
	r := fl.repository(served, changed%fl.repositories)
	built, began := c.player.built(), time.Now()
	if err := r.write(ctx, commit{
		branch: "main", from: "main", files: 1, path: func(int) string { return directory(changed) + "/handler.js" },
		size: len(handler(0, 0)), content: func(w io.Writer, _ int) error { _, err := io.WriteString(w, handler(changed, 1)); return err },
	}); err != nil {
		return err
	}
	head, err := r.git(ctx, nil, "rev-parse", "main")
	if err != nil {
		return err
	}
	say("%s: has made a commit for one Function", fl.row)
	err = c.eventually(ctx, "the changed Function to serve", func() (bool, error) {
		fn := &functionv1.Function{}
		err := c.player.Get(ctx, client.ObjectKey{Namespace: namespace(changed), Name: fmt.Sprintf("f%04d", changed)}, fn)
		return err == nil && conditions.IsReady(fn) && fn.Status.Commit == head && c.player.built() > built, client.IgnoreNotFound(err)
	})
	if err != nil {
		return err
	}
	f.add("a commit for one Function: push to serving, by polling", "s", time.Since(began).Seconds())
	if err := fl.until(ctx, c, "all Functions to know the commit", func(fn functionv1.Function) bool { return fn.Status.Commit == head }); err != nil {
		return err
	}
	f.add("the same: until every Function's status has the commit", "s", time.Since(began).Seconds())
	if err := c.pass(ctx, fl.interval*3/2); err != nil {
		return err
	}
	f.add("the same: builds", "", float64(c.player.built()-built)).exactly(1)
	return nil
}
