package controllers

import (
	"strconv"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// appliedMemo remembers what was applied last and what that made of the object,
// so that a pass that changes nothing makes no request, and what somebody else
// changed is noticed. It is empty after a restart: everything is applied once.
type appliedMemo struct{ m, rolled, asleep sync.Map }

// sumMemo remembers the sum of each Secret, and of which version it is. It is
// safe for concurrent use; the zero value is empty.
type sumMemo struct{ m sync.Map }

type sumState struct {
	version string
	sum     []byte
}

func (s *sumMemo) get(name types.NamespacedName, version string) ([]byte, bool) {
	if state, found := s.m.Load(name); found && state.(sumState).version == version {
		return state.(sumState).sum, true
	}
	return nil, false
}

func (s *sumMemo) put(name types.NamespacedName, version string, sum []byte) {
	s.m.Store(name, sumState{version, sum})
}

// The kinds of children.
const (
	kindDeployment = "Deployment"
	kindService    = "Service"
	kindAutoscaler = "HorizontalPodAutoscaler"
	kindBudget     = "PodDisruptionBudget"
)

type appliedKey struct {
	kind string
	name types.NamespacedName
}

type appliedState struct{ hash, version string }

// version tells apart states of an object by what users may change of it. The
// status of a Deployment moves all the time; its generation moves with its spec
// alone. A Service has no generation, but hardly a status either.
func version(object client.Object) string {
	if hpa, is := object.(*autoscalingv1.HorizontalPodAutoscaler); is {
		// It has no generation either, and its status moves with the load.
		return string(hpa.GetUID()) + "/" + hashOf([]any{hpa.Spec, hpa.Labels, hpa.OwnerReferences})
	}
	if generation := object.GetGeneration(); generation > 0 {
		return string(object.GetUID()) + "/" + strconv.FormatInt(generation, 10)
	}
	return string(object.GetUID()) + "@" + object.GetResourceVersion()
}

// current reports whether the live object is as gitfn applied it.
func (a *appliedMemo) current(kind string, live client.Object, hash string) bool {
	state, found := a.m.Load(appliedKey{kind, client.ObjectKeyFromObject(live)})
	return found && state == appliedState{hash, version(live)}
}

func (a *appliedMemo) remember(kind string, object client.Object, hash string) {
	a.m.Store(appliedKey{kind, client.ObjectKeyFromObject(object)}, appliedState{hash, version(object)})
}

// rolls notes that a generation of a Deployment has another Pod template than
// the one before.
func (a *appliedMemo) rolls(d *appsv1.Deployment) {
	a.rolled.Store(client.ObjectKeyFromObject(d), d.Generation)
}

// settled returns the Deployment for judging its rollout. Generations whose Pod
// template is the old one, as when it is only scaled, are no rollout: what its
// controller last said holds for them too.
func (a *appliedMemo) settled(d *appsv1.Deployment) *appsv1.Deployment {
	name := client.ObjectKeyFromObject(d)
	if d.Status.ObservedGeneration >= d.Generation {
		a.rolled.LoadOrStore(name, d.Generation)
		return d
	}
	if since, known := a.rolled.Load(name); known && d.Status.ObservedGeneration >= since.(int64) {
		d = d.DeepCopy()
		d.Generation = d.Status.ObservedGeneration
	}
	return d
}

// wakes reports whether a Deployment comes from zero replicas, which somebody
// wanted, and none has come up since.
func (a *appliedMemo) wakes(d *appsv1.Deployment) bool {
	name := client.ObjectKeyFromObject(d)
	switch {
	case *d.Spec.Replicas == 0:
		a.asleep.Store(name, true)
		return false
	case d.Status.AvailableReplicas > 0:
		a.asleep.Delete(name)
		return false
	}
	_, asleep := a.asleep.Load(name)
	return asleep
}

func (a *appliedMemo) forget(name types.NamespacedName) {
	a.rolled.Delete(name)
	a.asleep.Delete(name)
	for _, kind := range []string{kindDeployment, kindService, kindAutoscaler, kindBudget} {
		a.m.Delete(appliedKey{kind, name})
	}
}
