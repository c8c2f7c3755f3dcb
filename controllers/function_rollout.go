package controllers

import (
	"context"
	"errors"
	"fmt"

	"github.com/fluxcd/pkg/runtime/conditions"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
	"github.com/gitfn/gitfn/rollout"
	"github.com/gitfn/gitfn/runtimes"
)

// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=services,verbs=get;list;watch;create;patch

// reconcileRollout brings the Deployment to the newest image that there is, and
// tells what serves. While there is no image for the wanted revision, the one
// that serves is kept in step with the spec.
func (r *FunctionReconciler) reconcileRollout(ctx context.Context, s *scope) error {
	entry := s.entry
	if pin := s.fn.Spec.Pin; pin != "" {
		if entry = pinnedEntry(s.fn, pin); entry == nil {
			err := fmt.Errorf("spec.pin: no revision of status.history begins with %q", pin)
			conditions.MarkFalse(s.fn, functionv1.Running, functionv1.ReasonInvalidFunctionSpec, "%s", err)
			return stalled(functionv1.ReasonInvalidFunctionSpec, err)
		}
	}
	if entry == nil {
		var err error
		if entry, err = r.told(ctx, s.fn); err != nil {
			return err
		}
	}
	if entry == nil {
		conditions.MarkUnknown(s.fn, functionv1.Running, functionv1.ReasonDeploymentWaiting, "there is no image yet")
		return nil
	}
	if err := r.ensureNamespace(ctx, s.fn.Namespace); err != nil {
		return err
	}
	settings := r.settings(s, entry)
	var err error
	if settings.SecretsSum, err = r.secretsSum(ctx, s.fn); err != nil {
		return err
	}
	s.fn.Status.PodSelector = labels.SelectorFromSet(rollout.Selector(settings)).String()
	deployment, err := r.applyChildren(ctx, s, settings)
	if err != nil {
		return err
	}
	return r.running(ctx, s, settings, entry, deployment)
}

// told is what the Deployment was last told to run: it may be on its way there,
// and a build that comes after it must not turn it back. Without a Deployment it
// is what served last, or was built last.
func (r *FunctionReconciler) told(ctx context.Context, fn *functionv1.Function) (*functionv1.HistoryEntry, error) {
	deployment := &appsv1.Deployment{}
	if err := r.Get(ctx, client.ObjectKeyFromObject(fn), deployment); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("look at Deployment %s: %w", fn.Name, err)
	}
	for _, container := range deployment.Spec.Template.Spec.Containers {
		if entry := imageEntry(fn, container.Image); entry != nil {
			return entry, nil
		}
	}
	if serving := servingEntry(fn); serving != nil {
		return serving, nil
	}
	if len(fn.Status.History) > 0 {
		return &fn.Status.History[0], nil
	}
	return nil, nil
}

// settings translates the Function for the rollout.
func (r *FunctionReconciler) settings(s *scope, entry *functionv1.HistoryEntry) rollout.Settings {
	fn := s.fn
	row, known := r.Runtimes[entry.Runtime]
	if !known {
		row = runtimes.Runtime{Name: entry.Runtime}
	}
	var profile string
	var own *corev1.ResourceRequirements
	if rc := fn.Spec.ResourceConfiguration; rc != nil && rc.Function != nil {
		profile, own = rc.Function.Profile, rc.Function.Resources
	}
	resources, profile := r.Config.FunctionResources(profile, own)
	fn.Status.FunctionResourceProfile = profile
	settings := rollout.Settings{
		Namespace: fn.Namespace, Name: fn.Name, UID: string(fn.UID),
		Owner:  *metav1.NewControllerRef(fn, functionv1.GroupVersion.WithKind("Function")),
		Labels: fn.Labels, PodLabels: fn.Spec.Labels, PodAnnotations: fn.Spec.Annotations,
		Image:    r.Config.Registry.Pull + "/" + fn.Namespace + "/" + fn.Name + "@" + entry.Digest,
		Revision: entry.Revision, Commit: entry.Commit, Tree: entry.Tree,
		Runtime: row, Env: fn.Spec.Env, Replicas: replicas(fn), Resources: resources,
		ServiceAccount: ServiceAccount,
		TraceEndpoint:  r.Config.TraceEndpoint, PublisherAddress: r.Config.PublisherAddress,
		PodSecurityContext: fn.Spec.PodSecurityContext, ContainerSecurityContext: fn.Spec.ContainerSecurityContext,
	}
	for _, mount := range fn.Spec.SecretMounts {
		settings.SecretMounts = append(settings.SecretMounts, rollout.SecretMount{SecretName: mount.SecretName, MountPath: mount.MountPath})
	}
	return settings
}

// applyChildren writes Service and Deployment where they are not as they should be.
func (r *FunctionReconciler) applyChildren(ctx context.Context, s *scope, settings rollout.Settings) (*appsv1.Deployment, error) {
	settings.Only = r.takeovers.get(client.ObjectKeyFromObject(s.fn)).only()
	if _, err := r.applyChild(ctx, s, kindService, &corev1.Service{}, rollout.Service(settings)); err != nil {
		return nil, r.childFailed(s, functionv1.ReasonServiceFailed, err)
	}
	live := &appsv1.Deployment{}
	before, err := r.applyChild(ctx, s, kindDeployment, live, rollout.Deployment(settings))
	if err != nil {
		return nil, r.childFailed(s, functionv1.ReasonDeploymentFailed, err)
	}
	r.tellRollout(s, before.(*appsv1.Deployment), live, settings.Revision)
	if err := r.reconcileScale(ctx, s, settings); err != nil {
		return nil, r.childFailed(s, functionv1.ReasonDeploymentFailed, err)
	}
	return live, nil
}

// tellRollout tells of a Deployment with new Pods. One that is only scaled is none.
func (r *FunctionReconciler) tellRollout(s *scope, before, live *appsv1.Deployment, revision string) {
	if before.UID == live.UID && equality.Semantic.DeepEqual(before.Spec.Template, live.Spec.Template) {
		r.applied.settled(before)
		return
	}
	reason := functionv1.ReasonDeploymentUpdated
	if before.UID == "" {
		reason = functionv1.ReasonDeploymentCreated
	}
	r.applied.rolls(live)
	r.event(s.fn, normal(reason, "Rollout", "Deployment %s is brought to %s", live.Name, revision))
}

// errForeign is a child's name taken by somebody else.
var errForeign = errors.New("it belongs to somebody else: rename it or the Function")

// applyChild applies a child, unless the live one is as it was applied last. It
// leaves in live what the child is now, and returns what it was before.
func (r *FunctionReconciler) applyChild(ctx context.Context, s *scope, kind string, live, want client.Object) (before client.Object, err error) {
	hash := hashOf(want)
	err = r.Get(ctx, client.ObjectKeyFromObject(want), live)
	if apierrors.IsNotFound(err) {
		// The cache holds only what bears our labels.
		err = r.Live.Get(ctx, client.ObjectKeyFromObject(want), live)
	}
	switch {
	case client.IgnoreNotFound(err) != nil:
		return nil, fmt.Errorf("look at %s %s: %w", kind, want.GetName(), err)
	case err == nil && (!live.GetDeletionTimestamp().IsZero() || ofPredecessor(live, s.fn)):
		return nil, wait(0, functionv1.ReasonDeploymentWaiting, fmt.Sprintf("%s %s is being deleted", kind, want.GetName()))
	case err == nil && !metav1.IsControlledBy(live, s.fn):
		return nil, fmt.Errorf("apply %s %s: %w", kind, want.GetName(), errForeign)
	case err == nil && r.applied.current(kind, live, hash):
		return live, nil
	}
	before = live.DeepCopyObject().(client.Object)
	applied, err := r.apply(ctx, want)
	if err != nil {
		return nil, err
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(applied.Object, live); err != nil {
		return nil, fmt.Errorf("read %s %s: %w", kind, want.GetName(), err)
	}
	r.applied.remember(kind, live, hash)
	return before, nil
}

// ofPredecessor reports whether a child belongs to a Function of this name that
// was deleted: it goes soon.
func ofPredecessor(child client.Object, fn *functionv1.Function) bool {
	owner := metav1.GetControllerOf(child)
	return owner != nil && owner.Kind == "Function" && owner.Name == fn.Name && owner.UID != fn.UID
}

func (r *FunctionReconciler) childFailed(s *scope, reason string, err error) error {
	var waiting *waitError
	if errors.As(err, &waiting) {
		conditions.MarkUnknown(s.fn, functionv1.Running, waiting.reason, "%s", waiting.why)
		return err
	}
	if conditions.GetMessage(s.fn, functionv1.Running) != err.Error() {
		r.event(s.fn, warning(reason, "Rollout", "%s", err))
	}
	conditions.MarkFalse(s.fn, functionv1.Running, reason, "%s", err)
	if apierrors.IsInvalid(err) || errors.Is(err, errForeign) {
		return stalled(reason, err)
	}
	return err
}

// running says what serves and how the rollout goes.
func (r *FunctionReconciler) running(ctx context.Context, s *scope, settings rollout.Settings, entry *functionv1.HistoryEntry, deployment *appsv1.Deployment) error {
	pods := &corev1.PodList{}
	if err := r.List(ctx, pods, r.childrenOf(s.fn.Namespace, s.fn.Name, rollout.Selector(settings))...); err != nil {
		return fmt.Errorf("list Pods: %w", err)
	}
	fn := s.fn
	fn.Status.Replicas = deployment.Status.Replicas
	health := rollout.Assess(r.applied.settled(deployment), settings.Image, pods.Items)
	if r.applied.wakes(deployment) && health.Starting {
		health.State, health.Reason = rollout.Ready, functionv1.ReasonDeploymentReady // it is as somebody wanted it
	}
	message := health.Message
	switch health.State {
	case rollout.Ready:
		r.serves(s, settings, entry)
		message = readyMessage(fn)
		note, err := r.takeOver(ctx, s, settings, deployment, pods.Items)
		if note != "" {
			message += "; " + note
		}
		conditions.MarkTrue(fn, functionv1.Running, health.Reason, "%s", message)
		return err
	case rollout.Failed:
		if serving := servingEntry(fn); serving != nil && serving != entry {
			message += "; " + serving.Revision + " goes on serving"
		}
		if !conditions.IsFalse(fn, functionv1.Running) {
			r.event(fn, warning(health.Reason, "Rollout", "%s", message))
		}
		conditions.MarkFalse(fn, functionv1.Running, health.Reason, "%s", message)
		return stalled(health.Reason, errors.New(message))
	}
	if fn.Status.Revision != "" && fn.Status.Image != settings.Image {
		message += "; " + fn.Status.Revision + " serves"
	}
	conditions.MarkUnknown(fn, functionv1.Running, health.Reason, "%s", message)
	return wait(0, health.Reason, message)
}

// serves notes that the wanted image runs.
func (r *FunctionReconciler) serves(s *scope, settings rollout.Settings, entry *functionv1.HistoryEntry) {
	status := &s.fn.Status
	if status.Image != settings.Image {
		now := metav1.NewTime(s.now)
		entry.RolledOutAt = &now
		r.event(s.fn, normal(functionv1.ReasonDeploymentReady, "Rollout", "%s serves, image %s", entry.Revision, settings.Image))
	}
	status.Image, status.Tree = settings.Image, entry.Tree
	status.Revision = entry.Revision
	status.Runtime, status.RuntimeImage, status.RuntimeImageOverride = entry.Runtime, entry.RuntimeImage, s.fn.Spec.RuntimeImageOverride
	if s.entry == entry {
		// The same tree may have come by another commit since it was built.
		status.Revision = revisionName(s.revision)
	}
}
