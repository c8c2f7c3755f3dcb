package controllers

import (
	"context"
	"errors"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	"github.com/fluxcd/pkg/runtime/patch"
	"github.com/fluxcd/pkg/runtime/reconcile"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
	"github.com/gitfn/gitfn/builder"
	"github.com/gitfn/gitfn/gitsource"
	"github.com/gitfn/gitfn/runtimes"
)

// FieldOwner is the name under which gitfn owns the fields that it writes.
const FieldOwner = "gitfn"

// safetyNet is how long a Function that waits for a watch event waits at most.
const safetyNet = 20 * time.Second

// shortly is when to read again what was old: a cache is behind by less.
const shortly = 100 * time.Millisecond

// GitRemote is what the reconciler asks of Git. gitsource.Client is one.
type GitRemote interface {
	Resolve(ctx context.Context, repo gitsource.Repository, wanted gitsource.Selection, maxAge time.Duration) (gitsource.Revision, error)
}

// ImageRegistry is what the reconciler asks of a registry. registry.Client is one.
type ImageRegistry interface {
	// Digest returns the digest of a reference, or an error that matches
	// registry.ErrNotFound if and only if the registry says that there is none.
	Digest(ctx context.Context, reference string) (string, error)
}

// FunctionReconciler brings Functions from their source to a running
// Deployment. It alone writes their status.
type FunctionReconciler struct {
	client.Client
	// Live reads past the cache: Secrets, and what must be true before a build.
	Live     client.Reader
	Recorder events.EventRecorder
	Clock    clock.PassiveClock
	Git      GitRemote
	Images   ImageRegistry
	Runtimes runtimes.Catalogue
	Config   Config
	// Hints and Queue carry reasons to look again.
	Hints *Hints
	Queue *Places
	// Metrics may be nil.
	Metrics *Metrics

	// metadata reads names and versions of Secrets and the like from the cache;
	// the client would ask for them, as it does for Secrets. Nil is the client.
	metadata client.Reader
	// indexed is set where the cache finds children by the name of their Function.
	indexed   bool
	applied   appliedMemo
	sums      sumMemo
	takeovers takeovers
	secrets   secretMemo
	paces     paces
}

// scope holds what one pass learns of a Function. A later step reads what an
// earlier one wrote.
type scope struct {
	fn      *functionv1.Function
	patcher *patch.SerialPatcher // made when something is to be written
	// saved is the Function as it was read, or saved last.
	saved *functionv1.Function
	now   time.Time
	// poll is the time to the next look at the source. A result with just this
	// time is a success, see finish.
	poll time.Duration

	runtime  runtimes.Runtime
	revision gitsource.Revision
	files    map[string]string // of an inline source
	plan     builder.Plan
	// entry is the history's entry of the plan, nil while there is no image.
	entry *functionv1.HistoryEntry
	// after is done when the status is written: what must not be lost if it is
	// not, such as a Job whose failure is remembered there.
	after []func(context.Context) error
}

// +kubebuilder:rbac:groups=serverless.kyma-project.io,resources=functions,verbs=get;list;watch
// +kubebuilder:rbac:groups=serverless.kyma-project.io,resources=functions/status,verbs=get;patch;update
// +kubebuilder:rbac:groups=serverless.kyma-project.io,resources=functions/finalizers,verbs=update
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch

// Reconcile makes one pass over one Function.
func (r *FunctionReconciler) Reconcile(ctx context.Context, req ctrl.Request) (result ctrl.Result, err error) {
	fn := &functionv1.Function{}
	if err := r.Get(ctx, req.NamespacedName, fn); err != nil {
		if apierrors.IsNotFound(err) {
			r.Hints.forget(req.NamespacedName)
			r.applied.forget(req.NamespacedName)
			r.takeovers.m.Delete(req.NamespacedName)
			r.paces.forget(req.NamespacedName)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !fn.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil // children go with their owner
	}
	if fn.Spec.Suspend {
		return ctrl.Result{}, r.suspended(ctx, fn)
	}
	functionv1.Default(fn)
	s := &scope{fn: fn, saved: fn.DeepCopy(), now: r.Clock.Now(), poll: jittered(r.Config.PollInterval)}
	defer func() { result, err = r.finish(ctx, s, err) }()

	if err := r.reconcileSpec(s); err != nil {
		return ctrl.Result{}, err
	}
	err = r.reconcileSource(ctx, s)
	if err == nil {
		err = r.reconcileBuild(ctx, s)
	}
	if errors.Is(err, errOutdated) {
		return ctrl.Result{}, err
	}
	// What has an image is kept running, in step with the spec, whatever
	// happened to the source or the build.
	if rolloutErr := r.reconcileRollout(ctx, s); err == nil {
		err = rolloutErr
	}
	return ctrl.Result{}, err
}

// waitError ends a pass that goes on by itself: at a watch event, or after a
// time. It is progress, not a fault.
type waitError struct {
	after  time.Duration
	reason string
	why    string
}

func (e *waitError) Error() string { return e.why }

// wait ends a pass until something happens, at the latest after the time given;
// zero means safetyNet.
func wait(after time.Duration, reason, why string) error {
	if after <= 0 {
		after = safetyNet
	}
	return &waitError{after, reason, why}
}

// errOutdated ends a pass over a Function that has changed since. What it learned
// is no news, so that nothing of it is written.
var errOutdated = errors.New("the Function has changed since it was read")

// stalledError ends a pass that nothing but a change cures: of the spec, of the
// source or of a Secret. The source is still polled.
type stalledError struct {
	reason string
	err    error
}

func (e *stalledError) Error() string { return e.err.Error() }
func (e *stalledError) Unwrap() error { return e.err }

func stalled(reason string, err error) error { return &stalledError{reason, err} }

// finish turns the end of a pass into conditions, one patch and a result. It is
// the only place that writes status, with save.
func (r *FunctionReconciler) finish(ctx context.Context, s *scope, err error) (ctrl.Result, error) {
	if errors.Is(err, errOutdated) {
		return ctrl.Result{RequeueAfter: shortly}, nil
	}
	var (
		waiting *waitError
		stuck   *stalledError
		result  = ctrl.Result{RequeueAfter: s.poll, Priority: ptr.To(priorityPoll)}
	)
	switch {
	case errors.As(err, &waiting):
		result.RequeueAfter, result.Priority, err = min(waiting.after, s.poll-time.Nanosecond), ptr.To(0), nil
		conditions.MarkReconciling(s.fn, waiting.reason, "%s", waiting.why)
	case errors.As(err, &stuck):
		err = nil
		conditions.MarkStalled(s.fn, stuck.reason, "%s", stuck.Error())
	case err != nil:
		result = ctrl.Result{}
		conditions.MarkReconciling(s.fn, meta.ProgressingWithRetryReason, "%s", err)
	default:
		conditions.Delete(s.fn, meta.StalledCondition)
	}
	isSuccess := func(res ctrl.Result, err error) bool { return err == nil && res.RequeueAfter == s.poll }
	err = reconcile.NewResultFinalizer(isSuccess, readyMessage(s.fn), readySummary).Finalize(s.fn, result, err)

	if saveErr := r.save(ctx, s); saveErr != nil {
		return ctrl.Result{}, kerrors.NewAggregate([]error{err, saveErr})
	}
	for _, do := range s.after {
		if afterErr := do(ctx); afterErr != nil {
			return ctrl.Result{}, kerrors.NewAggregate([]error{err, afterErr})
		}
	}
	if err != nil {
		return ctrl.Result{}, err // backs off
	}
	return result, nil
}

// save writes the status as it stands. A step calls it in the middle of a pass
// only where something must be remembered before the next thing is done.
func (r *FunctionReconciler) save(ctx context.Context, s *scope) error {
	// A patcher would find that nothing is to be written, at a third of what a pass
	// costs, and turns the Function into a map of fields already when it is made.
	if s.fn.Status.ObservedGeneration == s.fn.Generation && equality.Semantic.DeepEqual(s.fn, s.saved) {
		return nil
	}
	if s.patcher == nil {
		s.patcher = patch.NewSerialPatcher(s.saved, r.Client)
	}
	options := reconcile.AddPatchOptions(s.fn, nil, readySummary.Owned, FieldOwner)
	err := s.patcher.Patch(ctx, s.fn, options...)
	if err == nil {
		s.saved = s.fn.DeepCopy()
	}
	return kerrors.FilterOut(err, apierrors.IsNotFound)
}
