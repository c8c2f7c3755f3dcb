package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/gitfn/gitfn/registry/tenant"
)

const (
	// labelLeader is what the Services of the hint endpoints select.
	labelLeader = "serverless.kyma-project.io/leader"
	// secretRegistryKey holds the key that all credentials of the internal
	// registry derive from; the registry's gateway mounts it.
	secretRegistryKey = "gitfn-registry-key"
)

// self is the manager's own place in the cluster.
type self struct {
	client         client.Client
	live           client.Reader
	namespace, pod string
}

// +kubebuilder:rbac:groups="",namespace=gitfn-system,resources=pods,verbs=get;patch
// +kubebuilder:rbac:groups="",namespace=gitfn-system,resources=secrets,verbs=get;create
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=gitfn-system,resources=leases,verbs=get;create;update;patch

// Start marks the Pod as the leader, so that hints reach it and no other. The
// controller manager calls it once it leads.
func (s *self) Start(ctx context.Context) error {
	logf.FromContext(ctx).Info("leads", "pod", s.pod)
	return s.label(ctx, "true")
}

// unlabel takes the mark off that a start before this one left: a manager that
// loses its lease exits.
func (s *self) unlabel(ctx context.Context) error { return s.label(ctx, "") }

func (s *self) label(ctx context.Context, value string) error {
	if s.pod == "" {
		return nil
	}
	pod := &corev1.Pod{}
	if err := s.live.Get(ctx, types.NamespacedName{Namespace: s.namespace, Name: s.pod}, pod); err != nil {
		return fmt.Errorf("read own Pod: %w", err)
	}
	before := pod.DeepCopy()
	delete(pod.Labels, labelLeader)
	if value != "" {
		metav1.SetMetaDataLabel(&pod.ObjectMeta, labelLeader, value)
	}
	if err := s.client.Patch(ctx, pod, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("label own Pod: %w", err)
	}
	return nil
}

// registryKey reads the key of the registry's credentials, and makes it at the
// first start.
func (s *self) registryKey(ctx context.Context) (tenant.Key, error) {
	name := types.NamespacedName{Namespace: s.namespace, Name: secretRegistryKey}
	secret := &corev1.Secret{}
	err := s.live.Get(ctx, name, secret)
	if apierrors.IsNotFound(err) {
		secret = &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: secretRegistryKey},
			Data:       map[string][]byte{"key": tenant.NewKey().Encode()},
		}
		if err = s.client.Create(ctx, secret); apierrors.IsAlreadyExists(err) {
			err = s.live.Get(ctx, name, secret) // another replica was faster
		}
	}
	if err != nil {
		return tenant.Key{}, fmt.Errorf("read Secret %s: %w", secretRegistryKey, err)
	}
	return tenant.ParseKey(secret.Data["key"])
}
