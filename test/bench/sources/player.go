package main

import (
	"context"
	"fmt"
	"sync"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/gitfn/gitfn/builder"
	"github.com/gitfn/gitfn/builder/job"
)

// player stands for the rest of Kubernetes: builds end well as soon as they may run, and what is rolled out is there
// at once.
type player struct {
	client.Client
	ended chan error

	mu     sync.Mutex
	builds map[types.UID]bool // every Job that was allowed to run
}

func startPlayer(ctx context.Context, config *rest.Config, scheme *runtime.Scheme) (*player, error) {
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme, Metrics: server.Options{BindAddress: "0"},
		Controller: ctrlconfig.Controller{SkipNameValidation: ptr.To(true)}, // each row has a player
	})
	if err != nil {
		return nil, fmt.Errorf("start the player: %w", err)
	}
	p := &player{Client: mgr.GetClient(), ended: make(chan error, 1), builds: map[types.UID]bool{}}
	for kind, do := range map[client.Object]func(context.Context, types.NamespacedName) error{
		&batchv1.Job{}: p.build, &appsv1.Deployment{}: p.rollOut,
	} {
		reconciler := reconcilerFunc(func(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
			return ctrl.Result{}, do(ctx, request.NamespacedName)
		})
		if err := ctrl.NewControllerManagedBy(mgr).For(kind).Complete(reconciler); err != nil {
			return nil, fmt.Errorf("start the player: %w", err)
		}
	}
	go func() { p.ended <- mgr.Start(ctx) }()
	return p, nil
}

type reconcilerFunc func(context.Context, ctrl.Request) (ctrl.Result, error)

// Reconcile calls the function.
func (f reconcilerFunc) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	return f(ctx, request)
}

func (p *player) wait() error { return <-p.ended }

// built is how many Jobs were allowed to run so far.
func (p *player) built() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.builds)
}

// build brings a Job that may run to its good end. Its Pod goes when it goes.
func (p *player) build(ctx context.Context, at types.NamespacedName) error {
	j := &batchv1.Job{}
	if err := p.Get(ctx, at, j); apierrors.IsNotFound(err) {
		return p.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(at.Namespace), client.MatchingLabels{batchv1.JobNameLabel: at.Name}, client.GracePeriodSeconds(0))
	} else if err != nil {
		return err
	}
	if j.Spec.Suspend != nil && *j.Spec.Suspend || !j.DeletionTimestamp.IsZero() || j.Status.StartTime != nil {
		return nil
	}
	digest, err := push(ctx, j)
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.builds[j.UID] = true
	p.mu.Unlock()
	if err := p.pod(ctx, j, builder.Report{Result: &builder.Result{Digest: digest}}); err != nil {
		return client.IgnoreNotFound(err)
	}
	now := metav1.Now()
	j.Status.StartTime = &now
	return client.IgnoreNotFound(p.Status().Update(ctx, j))
}

// push puts some image where a Job says that it will push.
func push(ctx context.Context, j *batchv1.Job) (string, error) {
	plan, err := job.PlanOf(j)
	if err != nil {
		return "", err
	}
	image, err := random.Image(64, 1)
	if err != nil {
		return "", err
	}
	reference, err := name.ParseReference(plan.Pin(), name.Insecure)
	if err != nil {
		return "", err
	}
	if err := remote.Write(reference, image, remote.WithContext(ctx)); err != nil {
		return "", fmt.Errorf("push %s: %w", reference, err)
	}
	digest, err := image.Digest()
	return digest.String(), err
}

// pod makes the Pod of a Job, which has ended with a report.
func (p *player) pod(ctx context.Context, j *batchv1.Job, report builder.Report) error {
	template := j.Spec.Template.DeepCopy()
	pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.Namespace, pod.Name = j.Namespace, j.Name+"-0"
	pod.Labels[batchv1.JobNameLabel] = j.Name
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(j, batchv1.SchemeGroupVersion.WithKind("Job"))}
	if err := p.Create(ctx, pod); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	pod.Status.Phase = corev1.PodSucceeded
	for _, c := range pod.Spec.Containers {
		ended := &corev1.ContainerStateTerminated{FinishedAt: metav1.Now()}
		if c.Name == string(builder.StagePush) {
			ended.Message = string(report.Encode())
		}
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, State: corev1.ContainerState{Terminated: ended},
		})
	}
	return p.Status().Update(ctx, pod)
}

// rollOut brings a Deployment to its end.
func (p *player) rollOut(ctx context.Context, at types.NamespacedName) error {
	d := &appsv1.Deployment{}
	if err := p.Get(ctx, at, d); err != nil || d.Status.ObservedGeneration == d.Generation {
		return client.IgnoreNotFound(err)
	}
	n := *d.Spec.Replicas
	d.Status = appsv1.DeploymentStatus{
		ObservedGeneration: d.Generation, Replicas: n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n,
		Conditions: []appsv1.DeploymentCondition{
			{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue, Reason: "MinimumReplicasAvailable"},
			{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable"},
		},
	}
	return client.IgnoreNotFound(p.Status().Update(ctx, d))
}
