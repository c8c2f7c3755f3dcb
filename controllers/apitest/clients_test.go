package apitest

import (
	"context"
	"sync/atomic"

	"sigs.k8s.io/controller-runtime/pkg/client"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
)

// stale is a client whose cache is behind: it shows a Function as it was.
type stale struct {
	client.Client
	was *functionv1.Function
}

// Get reads an object.
func (s stale) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if fn, is := o.(*functionv1.Function); is && key == client.ObjectKeyFromObject(s.was) {
		s.was.DeepCopyInto(fn)
		return nil
	}
	return s.Client.Get(ctx, key, o, opts...)
}

// conflicting is a client whose first patches meet a conflict.
type conflicting struct {
	client.Client
	left *atomic.Int32
}

// Patch patches an object.
func (c conflicting) Patch(ctx context.Context, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
	if c.left.Add(-1) >= 0 {
		return conflict(o)
	}
	return c.Client.Patch(ctx, o, patch, opts...)
}
