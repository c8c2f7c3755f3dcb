package apitest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/gitfn/gitfn/builder/job"
)

// errKilled is what a write meets when the manager is killed there.
var errKilled = errors.New("killed")

// tap is on the way from a reconciler to the API server. It notes what goes
// through, and can break the way.
type tap struct {
	mu     sync.Mutex
	writes []string
	// built counts the Jobs that were created, by the key of their plan.
	built map[string]int
	// killAt is the write, from 1, at which the manager is killed; everything
	// after it fails too. Zero never kills. With done the write itself still
	// reaches the API server, and only its answer is lost.
	killAt int
	done   bool
	killed bool
}

func (p *tap) client(to client.WithWatch) client.WithWatch {
	return interceptor.NewClient(to, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			return p.read(func() error { return c.Get(ctx, key, o, opts...) })
		},
		List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
			return p.read(func() error { return c.List(ctx, l, opts...) })
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return p.write("create", o, func() error {
				err := c.Create(ctx, o, opts...)
				if j, is := o.(*batchv1.Job); is && err == nil {
					p.countBuild(j)
				}
				return err
			})
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return p.write("delete", o, func() error { return c.Delete(ctx, o, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return p.write("update", o, func() error { return c.Update(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
			return p.write("patch", o, func() error { return c.Patch(ctx, o, patch, opts...) })
		},
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			return p.write("apply", o, func() error { return c.Apply(ctx, o, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			return p.write("patch "+sub+" of", o, func() error { return c.SubResource(sub).Patch(ctx, o, patch, opts...) })
		},
	})
}

func (p *tap) countBuild(j *batchv1.Job) {
	plan, err := job.PlanOf(j)
	if err != nil {
		panic(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.built == nil {
		p.built = map[string]int{}
	}
	p.built[plan.Key()]++
}

func (p *tap) read(do func() error) error {
	p.mu.Lock()
	killed := p.killed
	p.mu.Unlock()
	if killed {
		return errKilled
	}
	return do()
}

func (p *tap) write(verb string, object any, do func() error) error {
	p.mu.Lock()
	if p.killed {
		p.mu.Unlock()
		return errKilled
	}
	p.writes = append(p.writes, verb+" "+nameOf(object))
	p.killed = p.killAt > 0 && len(p.writes) >= p.killAt
	killed, reaches := p.killed, p.done
	p.mu.Unlock()
	if killed && !reaches {
		return errKilled
	}
	if err := do(); err != nil || !killed {
		return err
	}
	return errKilled
}

func nameOf(object any) string {
	named, _ := object.(interface{ GetName() string })
	kind := fmt.Sprintf("%T", object)
	if o, is := object.(runtime.Object); is {
		if gvk, err := apiutil.GVKForObject(o, scheme); err == nil {
			kind = gvk.Kind
		}
	}
	if kinded, is := object.(interface{ GetKind() string }); is {
		kind = kinded.GetKind()
	}
	if named == nil {
		return kind
	}
	return kind + " " + named.GetName()
}

// taken returns the writes so far, and forgets them.
func (p *tap) taken() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	writes := p.writes
	p.writes = nil
	return writes
}

// builds is how many Jobs were ever created.
func (p *tap) builds() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, count := range p.built {
		n += count
	}
	return n
}
