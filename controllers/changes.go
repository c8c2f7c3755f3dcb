package controllers

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
)

// wakeWithin is how long the Functions of a change may take to be woken. Those
// that are left find it at their next poll.
const wakeWithin = 10 * time.Second

// Changed wakes the Functions of a repository that one of them found changed: all
// that follow the reference, or all if it is empty. It is gitsource.Options.Changed.
func (w *Waker) Changed(url, reference string) {
	functions := &functionv1.FunctionList{}
	if err := w.List(context.Background(), functions, client.MatchingFields{indexURL: url}); err != nil {
		logf.Log.Error(err, "list Functions of a change")
		return
	}
	late := time.NewTimer(wakeWithin)
	defer late.Stop()
	for i := range functions.Items {
		fn := &functions.Items[i]
		if reference != "" && fn.Spec.Source.GitRepository.Reference != reference {
			continue
		}
		select {
		case w.Wake <- event.TypedGenericEvent[types.NamespacedName]{Object: client.ObjectKeyFromObject(fn)}:
		case <-late.C:
			return
		}
	}
}

// The priorities of passes. A commit to a repository of thousands of Functions
// wakes them all: what one of them then has to do comes before the looks of the
// others, and polls come last.
const (
	priorityLook = handler.LowPriority / 2
	priorityPoll = handler.LowPriority
)

// busy reports whether a Function is about to do something, so that what wakes it
// is no mere look.
func (r *FunctionReconciler) busy(ctx context.Context, name types.NamespacedName) bool {
	fn := &functionv1.Function{}
	if err := r.Get(ctx, name, fn); err != nil || fn.Status.Build == nil {
		return false
	}
	return fn.Status.Build.State == functionv1.BuildQueued || fn.Status.Build.State == functionv1.BuildRunning
}
