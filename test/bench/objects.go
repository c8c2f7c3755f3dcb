package main

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Labels that gitfn puts on what it makes for a Function.
const (
	labelFunction = "serverless.kyma-project.io/function-name"
	labelResource = "serverless.kyma-project.io/resource"
)

var functionKind = schema.GroupVersionKind{Group: "serverless.kyma-project.io", Version: "v1alpha2", Kind: "Function"}

// watched are the kinds that are recorded.
func watched() []client.ObjectList {
	functions := &unstructured.UnstructuredList{}
	functions.SetGroupVersionKind(functionKind.GroupVersion().WithKind("FunctionList"))
	return []client.ObjectList{
		functions, &batchv1.JobList{}, &corev1.PodList{}, &corev1.ServiceList{},
		&appsv1.DeploymentList{}, &discoveryv1.EndpointSliceList{},
	}
}

// that matches objects of a type, with labels, that are as asked and not gone.
func that[T client.Object](with labels.Set, is func(T) bool) match {
	return func(s sighting) bool {
		object, kind := s.object.(T)
		return kind && !s.gone && labels.SelectorFromSet(with).Matches(labels.Set(object.GetLabels())) && is(object)
	}
}

func there[T client.Object](T) bool { return true }

// Conditions on Jobs.

func admitted(job *batchv1.Job) bool { return job.Spec.Suspend != nil && !*job.Spec.Suspend }

func jobHas(condition batchv1.JobConditionType) func(*batchv1.Job) bool {
	return func(job *batchv1.Job) bool {
		return slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
			return c.Type == condition && c.Status == corev1.ConditionTrue
		})
	}
}

// Conditions on Pods.

func scheduled(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" }

// running is true once kubelet has said of all containers that they started.
func running(pod *corev1.Pod) bool {
	for _, status := range pod.Status.ContainerStatuses {
		if status.State.Running == nil && status.State.Terminated == nil {
			return false
		}
	}
	return len(pod.Status.ContainerStatuses) > 0
}

func ended(container string) func(*corev1.Pod) bool {
	return func(pod *corev1.Pod) bool {
		return slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
			return (container == "" || c.Name == container) && c.State.Terminated != nil
		})
	}
}

func ready(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// serves matches the EndpointSlice in which a Pod is ready.
func serves(pod *corev1.Pod) match {
	return that(nil, func(slice *discoveryv1.EndpointSlice) bool {
		return slices.ContainsFunc(slice.Endpoints, func(e discoveryv1.Endpoint) bool {
			return e.TargetRef != nil && e.TargetRef.UID == pod.UID && e.Conditions.Ready != nil && *e.Conditions.Ready
		})
	})
}

// Conditions on Functions.

func aFunction(name string, is func(*unstructured.Unstructured) bool) match {
	return that(nil, func(fn *unstructured.Unstructured) bool {
		return fn.GetKind() == functionKind.Kind && fn.GetName() == name && is(fn)
	})
}

func readyFunction(fn *unstructured.Unstructured) bool {
	observed, _, _ := unstructured.NestedInt64(fn.Object, "status", "observedGeneration")
	conditions, _, _ := unstructured.NestedSlice(fn.Object, "status", "conditions")
	return observed == fn.GetGeneration() && slices.ContainsFunc(conditions, func(c any) bool {
		condition, _ := c.(map[string]any)
		return condition["type"] == "Ready" && condition["status"] == "True"
	})
}

// keyOf is the beginning of a build's key, with which the name of its Job ends.
func keyOf(job string) string {
	_, key, _ := strings.Cut(job, "-build-")
	key, _, _ = strings.Cut(key, "-") // a further attempt has its number there
	return key
}

// knowsDigest is true once status.history has the digest of what a Job builds.
func knowsDigest(job string) func(*unstructured.Unstructured) bool {
	return func(fn *unstructured.Unstructured) bool {
		history, _, _ := unstructured.NestedSlice(fn.Object, "status", "history")
		return slices.ContainsFunc(history, func(e any) bool {
			entry, _ := e.(map[string]any)
			key, _ := entry["key"].(string)
			digest, _ := entry["digest"].(string)
			return strings.HasPrefix(key, keyOf(job)) && digest != ""
		})
	}
}

// tidied is true once the outcome of a Job has been read.
func tidied(job string) func(*unstructured.Unstructured) bool {
	return func(fn *unstructured.Unstructured) bool {
		build, _, _ := unstructured.NestedMap(fn.Object, "status", "build")
		key, _ := build["key"].(string)
		return strings.HasPrefix(key, keyOf(job)) && build["state"] == "Succeeded" && build["job"] == nil
	}
}

// cached is whether the last build found its dependencies in the registry.
func cached(fn *unstructured.Unstructured) bool {
	found, _, _ := unstructured.NestedBool(fn.Object, "status", "build", "dependenciesCached")
	return found
}
