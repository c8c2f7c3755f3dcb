package controllers

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlbuilder "sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
	"github.com/gitfn/gitfn/gitsource"
)

// Errors back off from a second to five minutes, each Function for itself.
const (
	firstBackoff = time.Second
	lastBackoff  = 5 * time.Minute
)

// indexURL finds Functions by the normalised URL of their repository, and
// indexSecret by the Secrets that they read. indexFunction finds children by the
// name of their Function.
const (
	indexURL      = "source.url"
	indexSecret   = "source.secret"
	indexFunction = "function"
)

// CacheOptions keep in memory only what belongs to Functions.
func CacheOptions() cache.Options {
	ours := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{functionv1.LabelManagedBy: functionv1.ManagedBy})}
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&appsv1.Deployment{}:                     ours,
			&corev1.Service{}:                        ours,
			&autoscalingv1.HorizontalPodAutoscaler{}: ours,
			&policyv1.PodDisruptionBudget{}:          ours,
			&corev1.Pod{}:                            ours,
			&batchv1.Job{}:                           ours,
		},
	}
}

// SetupWithManager connects the reconciler to what wakes it. wake carries names
// of Functions to look at, from hints and from the queue.
func (r *FunctionReconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, workers int, wake <-chan event.TypedGenericEvent[types.NamespacedName]) error {
	if err := indexFunctions(ctx, mgr); err != nil {
		return err
	}
	r.metadata, r.indexed = mgr.GetCache(), true
	bySecret := handler.EnqueueRequestsFromMapFunc(r.functionsOfSecret)
	byLabel := handler.EnqueueRequestsFromMapFunc(functionOfLabels)
	return ctrl.NewControllerManagedBy(mgr).
		Named("function").
		For(&functionv1.Function{}, ctrlbuilder.WithPredicates(predicate.Or(
			predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, predicate.LabelChangedPredicate{},
		))).
		Owns(&appsv1.Deployment{}).
		Owns(&corev1.Service{}).
		Owns(&batchv1.Job{}).
		Owns(&autoscalingv1.HorizontalPodAutoscaler{}, ctrlbuilder.WithPredicates(changedBySomebody)).
		Owns(&policyv1.PodDisruptionBudget{}, ctrlbuilder.WithPredicates(changedBySomebody)).
		Watches(&corev1.Pod{}, byLabel).
		WatchesMetadata(&corev1.Secret{}, bySecret).
		WatchesRawSource(source.TypedChannel(wake, handler.TypedFuncs[types.NamespacedName, reconcile.Request]{GenericFunc: r.woken})).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstBackoff, lastBackoff),
		}).
		Complete(r)
}

// SetupWithManager connects the admitter to every build Job and Pod.
func (r *QueueReconciler) SetupWithManager(mgr ctrl.Manager) error {
	one := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []reconcile.Request {
		if object.GetLabels()[labelResource] != resourceBuild {
			return nil
		}
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: "builds"}}}
	})
	return ctrl.NewControllerManagedBy(mgr).
		Named("queue").
		Watches(&batchv1.Job{}, one).
		Watches(&corev1.Pod{}, one).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: 1, // the cap holds because nobody else admits
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](100*time.Millisecond, 10*time.Second),
		}).
		Complete(r)
}

func indexFunctions(ctx context.Context, mgr ctrl.Manager) error {
	indexer := mgr.GetFieldIndexer()
	for _, kind := range []client.Object{&corev1.Pod{}, &batchv1.Job{}, &appsv1.Deployment{}, &autoscalingv1.HorizontalPodAutoscaler{}} {
		if err := indexer.IndexField(ctx, kind, indexFunction, func(object client.Object) []string {
			return []string{object.GetLabels()[functionv1.LabelFunctionName]}
		}); err != nil {
			return err
		}
	}
	if err := indexer.IndexField(ctx, &functionv1.Function{}, indexURL, func(object client.Object) []string {
		git := object.(*functionv1.Function).Spec.Source.GitRepository
		if git == nil {
			return nil
		}
		if url, err := gitsource.NormalizeURL(git.URL); err == nil {
			return []string{url}
		}
		return nil
	}); err != nil {
		return err
	}
	return indexer.IndexField(ctx, &functionv1.Function{}, indexSecret, func(object client.Object) []string {
		fn := object.(*functionv1.Function)
		return append(podSecrets(fn), sourceSecrets(fn)...)
	})
}

// childrenOf lists what bears the labels among a Function's children. Looking
// through all of a namespace for each of its Functions would cost the square of
// their number.
func (r *FunctionReconciler) childrenOf(namespace, name string, labels map[string]string) []client.ListOption {
	options := []client.ListOption{client.InNamespace(namespace), client.MatchingLabels(labels)}
	if r.indexed {
		options = append(options, client.MatchingFields{indexFunction: name})
	}
	return options
}

// sourceSecrets are the Secrets that the source of a Function names.
func sourceSecrets(fn *functionv1.Function) (names []string) {
	git := fn.Spec.Source.GitRepository
	if git != nil && git.Auth != nil {
		names = append(names, git.Auth.SecretName)
	}
	if git != nil && git.Verification != nil {
		names = append(names, git.Verification.SecretName)
	}
	return names
}

// functionsOfSecret wakes the Functions that read a Secret to fetch, to build or
// in their Pods, and those whose credentials of the registry it holds.
func (r *FunctionReconciler) functionsOfSecret(ctx context.Context, secret client.Object) []reconcile.Request {
	options := []client.ListOption{client.InNamespace(secret.GetNamespace())}
	switch secret.GetName() {
	case SecretPackages, SecretPush, SecretPull: // all of the namespace
	default:
		options = append(options, client.MatchingFields{indexSecret: secret.GetName()})
	}
	functions := &functionv1.FunctionList{}
	if err := r.List(ctx, functions, options...); err != nil {
		return nil // the cache is closing
	}
	requests := make([]reconcile.Request, 0, len(functions.Items))
	for i := range functions.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&functions.Items[i])})
	}
	return requests
}

func functionOfLabels(_ context.Context, object client.Object) []reconcile.Request {
	name := object.GetLabels()[functionv1.LabelFunctionName]
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: object.GetNamespace(), Name: name}}}
}

// woken queues a Function that somebody woke by name.
func (r *FunctionReconciler) woken(ctx context.Context, e event.TypedGenericEvent[types.NamespacedName], queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	request := reconcile.Request{NamespacedName: e.Object}
	if byPriority, is := queue.(priorityqueue.PriorityQueue[reconcile.Request]); is && !r.busy(ctx, e.Object) {
		byPriority.AddWithOpts(priorityqueue.AddOpts{Priority: ptr.To(priorityLook)}, request)
		return
	}
	queue.Add(request)
}
