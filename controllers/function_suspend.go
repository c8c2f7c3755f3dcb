package controllers

import (
	"context"
	"slices"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
)

// suspended says that a Function is left as it is. What serves goes on doing so,
// which is all that is wanted of it: it is ready. Where nothing serves, nothing
// will until somebody changes the spec: it is stalled. The other conditions say
// what they said when it was looked at last.
func (r *FunctionReconciler) suspended(ctx context.Context, fn *functionv1.Function) error {
	s := &scope{fn: fn, saved: fn.DeepCopy()}
	before := conditions.GetReason(fn, meta.ReadyCondition)
	conditions.Delete(fn, meta.ReconcilingCondition)
	for _, condition := range slices.Clone(fn.GetConditions()) { // they hold for this generation as well
		conditions.Set(fn, condition.DeepCopy())
	}
	if conditions.IsTrue(fn, functionv1.Running) {
		conditions.Delete(fn, meta.StalledCondition)
		conditions.MarkTrue(fn, meta.ReadyCondition, functionv1.ReasonSuspended, "suspended: %s, and nothing else is looked at", readyMessage(fn))
	} else {
		conditions.MarkStalled(fn, functionv1.ReasonSuspended, "suspended, and nothing serves: set spec.suspend to false")
		conditions.MarkFalse(fn, meta.ReadyCondition, functionv1.ReasonSuspended, "suspended, and nothing serves: set spec.suspend to false")
	}
	if before != functionv1.ReasonSuspended {
		r.event(fn, normal(functionv1.ReasonSuspended, "Suspend", "%s", conditions.GetMessage(fn, meta.ReadyCondition)))
	}
	return r.save(ctx, s)
}
