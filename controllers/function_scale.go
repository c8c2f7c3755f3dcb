package controllers

import (
	"context"
	"fmt"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
	"github.com/gitfn/gitfn/rollout"
)

// +kubebuilder:rbac:groups=autoscaling,resources=horizontalpodautoscalers,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch;create;patch;delete

// scales reports whether an autoscaler decides on the Function's replicas.
func scales(fn *functionv1.Function) bool {
	bounds := fn.Spec.ScaleConfig
	return bounds != nil && *bounds.MinReplicas < *bounds.MaxReplicas
}

// replicas is how many Pods there should be: spec.replicas, which an autoscaler
// writes too. Bounds that are equal say it by themselves, unless it is 0.
func replicas(fn *functionv1.Function) int32 {
	if bounds := fn.Spec.ScaleConfig; bounds != nil && !scales(fn) && *fn.Spec.Replicas > 0 {
		return *bounds.MinReplicas
	}
	return *fn.Spec.Replicas
}

// reconcileScale keeps the autoscaler and the disruption budget where the spec
// wants them, and removes them where it does not.
func (r *FunctionReconciler) reconcileScale(ctx context.Context, s *scope, settings rollout.Settings) error {
	most := settings.Replicas
	var autoscaler client.Object
	if bounds := s.fn.Spec.ScaleConfig; bounds != nil {
		most = max(most, *bounds.MaxReplicas)
		scale := rollout.Scale{Min: *bounds.MinReplicas, Max: *bounds.MaxReplicas, TargetCPU: r.Config.TargetCPU}
		if hpa := rollout.Autoscaler(settings, scale); hpa != nil {
			autoscaler = hpa
		}
	}
	live := &autoscalingv1.HorizontalPodAutoscaler{}
	before, err := r.applyOrDelete(ctx, s, kindAutoscaler, live, autoscaler)
	if err != nil {
		return err
	}
	r.tellScale(s, before, live)
	var budget client.Object
	if pdb := rollout.DisruptionBudget(settings, most); pdb != nil {
		budget = pdb
	}
	_, err = r.applyOrDelete(ctx, s, kindBudget, &policyv1.PodDisruptionBudget{}, budget)
	return err
}

// tellScale tells of an autoscaler that is new, or has other bounds.
func (r *FunctionReconciler) tellScale(s *scope, before client.Object, live *autoscalingv1.HorizontalPodAutoscaler) {
	if before == nil || version(before) == version(live) {
		return
	}
	reason := functionv1.ReasonHorizontalPodAutoscalerUpdated
	if before.GetUID() == "" {
		reason = functionv1.ReasonHorizontalPodAutoscalerCreated
	}
	r.event(s.fn, normal(reason, "Scale", "autoscaler %s keeps between %d and %d replicas, at %d%% of the requested CPU",
		live.Name, *live.Spec.MinReplicas, live.Spec.MaxReplicas, *live.Spec.TargetCPUUtilizationPercentage))
}

// applyOrDelete applies a child that is wanted, as applyChild does, and deletes
// ours that is not. A foreign one of that name is in the way of the first only.
func (r *FunctionReconciler) applyOrDelete(ctx context.Context, s *scope, kind string, live, want client.Object) (before client.Object, err error) {
	if want != nil {
		return r.applyChild(ctx, s, kind, live, want)
	}
	err = r.Get(ctx, client.ObjectKeyFromObject(s.fn), live)
	if apierrors.IsNotFound(err) || err == nil && !metav1.IsControlledBy(live, s.fn) {
		return nil, nil
	}
	if err == nil {
		uid := live.GetUID()
		err = client.IgnoreNotFound(r.Delete(ctx, live, client.Preconditions{UID: &uid}))
	}
	if err != nil {
		return nil, fmt.Errorf("remove %s %s: %w", kind, s.fn.Name, err)
	}
	return nil, nil
}

// changedBySomebody leaves out what moves only with an object's status: an
// autoscaler's does with every measurement.
var changedBySomebody = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	return version(e.ObjectOld) != version(e.ObjectNew)
}}
