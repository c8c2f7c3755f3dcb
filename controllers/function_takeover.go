package controllers

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
	"github.com/gitfn/gitfn/rollout"
)

// leaveTakes is how long the Service leaves Pods out before they are removed:
// until every node has heard of it, and what they were answering is answered.
const leaveTakes = 10 * time.Second

// takeovers remembers which Functions are being taken over from another
// controller. It is only in memory: a restart begins the waiting again. It is
// safe for concurrent use; the zero value is empty.
type takeovers struct{ m sync.Map }

// takeover is one on its way.
type takeover struct {
	// hash tells our Pods from the others.
	hash string
	// since is when the Service was told to leave the others out.
	since time.Time
	// told is set when somebody was told that another controller still works.
	told bool
}

func (t *takeovers) get(name types.NamespacedName) takeover {
	if state, found := t.m.Load(name); found {
		return state.(takeover)
	}
	return takeover{}
}

// only is the hash that the Service is to keep to, if any.
func (t takeover) only() string {
	if t.since.IsZero() {
		return ""
	}
	return t.hash
}

// takeOver removes what another controller of this API left of a Function: its
// Deployments, which have the same labels and names of their own, so that the
// Service finds their Pods too. That is only done while ours serves, and without a
// lost request: the Service leaves their Pods out first. What appears after our
// Deployment was not left but made: then that controller still works, and is
// told of, not fought. The result is a sentence about it.
func (r *FunctionReconciler) takeOver(ctx context.Context, s *scope, settings rollout.Settings, ours *appsv1.Deployment, pods []corev1.Pod) (string, error) {
	name := client.ObjectKeyFromObject(s.fn)
	state := r.takeovers.get(name)
	left, made, err := r.others(ctx, s.fn, ours)
	if err != nil {
		return "", err
	}
	if len(made) > 0 {
		note := fmt.Sprintf("another controller made %s for this Function: stop it, gitfn leaves it alone until then", strings.Join(made, ", "))
		if !state.told {
			r.event(s.fn, warning(functionv1.ReasonDeploymentWaiting, "TakeOver", "%s", note))
			state.told = true
			r.takeovers.m.Store(name, state)
		}
		return note, nil
	}
	foreign := 0
	for i := range pods {
		if !strings.HasPrefix(pods[i].Name, ours.Name+"-"+pods[i].Labels[appsv1.DefaultDeploymentUniqueLabelKey]+"-") {
			foreign++
		} else if imageOfPod(&pods[i]) == settings.Image {
			state.hash = pods[i].Labels[appsv1.DefaultDeploymentUniqueLabelKey]
		}
	}
	switch {
	case len(left) == 0 && (foreign == 0 || state.since.IsZero()):
		r.takeovers.m.Delete(name) // the next pass makes the Service whole again
		if !state.since.IsZero() {
			s.poll = min(s.poll, time.Second)
		}
		return "", nil
	case state.hash == "" && foreign > 0: // none of ours is there to serve
		return "", nil
	case state.since.IsZero():
		state.since = s.now
		r.event(s.fn, normal(functionv1.ReasonDeploymentUpdated, "TakeOver", "takes over from %d children of another controller", len(left)))
	}
	r.takeovers.m.Store(name, state)
	wait := leaveTakes - s.now.Sub(state.since)
	s.poll = min(s.poll, max(wait, time.Second))
	if wait > 0 {
		return "", nil
	}
	for _, child := range left {
		uid := child.GetUID()
		err := r.Delete(ctx, child, client.Preconditions{UID: &uid}, client.PropagationPolicy(metav1.DeletePropagationBackground))
		if client.IgnoreNotFound(err) != nil {
			return "", fmt.Errorf("remove %s, left by another controller: %w", child.GetName(), err)
		}
	}
	return "", nil
}

// others lists what bears a Function's labels and is not ours: what was left by
// who worked before us, and the names of what was made since.
func (r *FunctionReconciler) others(ctx context.Context, fn *functionv1.Function, ours *appsv1.Deployment) (left []client.Object, made []string, err error) {
	labels := rollout.InternalLabels(fn.Name, string(fn.UID))
	sort := func(kind string, child client.Object) {
		switch {
		case child.GetName() == fn.Name, !child.GetDeletionTimestamp().IsZero(), !metav1.IsControlledBy(child, fn):
		case child.GetCreationTimestamp().After(ours.CreationTimestamp.Time):
			made = append(made, kind+" "+child.GetName())
		default:
			left = append(left, child)
		}
	}
	deployments, autoscalers := &appsv1.DeploymentList{}, &autoscalingv1.HorizontalPodAutoscalerList{}
	for _, list := range []client.ObjectList{deployments, autoscalers} {
		if err := r.List(ctx, list, r.childrenOf(fn.Namespace, fn.Name, labels)...); err != nil {
			return nil, nil, fmt.Errorf("list what others left: %w", err)
		}
	}
	for i := range deployments.Items {
		sort(kindDeployment, &deployments.Items[i])
	}
	for i := range autoscalers.Items {
		sort(kindAutoscaler, &autoscalers.Items[i])
	}
	if len(left) == 0 {
		return nil, made, nil
	}
	// Inline sources stood in ConfigMaps, which nobody watches. Ours belong to builds.
	maps := &metav1.PartialObjectMetadataList{}
	maps.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
	if err := r.Live.List(ctx, maps, client.InNamespace(fn.Namespace), client.MatchingLabels(labels)); err != nil {
		return nil, nil, fmt.Errorf("list ConfigMaps that others left: %w", err)
	}
	for i := range maps.Items {
		if m := &maps.Items[i]; m.Labels[labelResource] != resourceBuild && metav1.IsControlledBy(m, fn) {
			m.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
			left = append(left, m)
		}
	}
	return left, made, nil
}

func imageOfPod(pod *corev1.Pod) string {
	for _, c := range pod.Spec.Containers {
		if c.Name == rollout.ContainerName {
			return c.Image
		}
	}
	return ""
}
