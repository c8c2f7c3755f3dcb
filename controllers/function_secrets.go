package controllers

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
	"github.com/gitfn/gitfn/rollout"
)

// memoBytes bounds what the memo of Secrets holds.
const memoBytes = 8 << 20

// secretMemo remembers the Secrets that sources are read with: a thousand private
// Functions would have theirs read a thousand times at every poll. One counts
// only while its version is what the watched metadata shows. It holds nothing
// that the Git client does not hold as well. It is safe for concurrent use; the
// zero value is empty.
type secretMemo struct {
	mu   sync.Mutex
	held map[types.NamespacedName]*corev1.Secret
	size int
}

func (m *secretMemo) get(name types.NamespacedName, version string) *corev1.Secret {
	m.mu.Lock()
	defer m.mu.Unlock()
	if secret := m.held[name]; secret != nil && secret.ResourceVersion == version {
		return secret
	}
	return nil
}

func (m *secretMemo) put(name types.NamespacedName, secret *corev1.Secret) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drop(name)
	for other := range m.held {
		if m.size+bytesOf(secret) <= memoBytes {
			break
		}
		m.drop(other)
	}
	if m.held == nil {
		m.held = map[types.NamespacedName]*corev1.Secret{}
	}
	m.held[name] = secret
	m.size += bytesOf(secret)
}

// drop forgets a Secret. The caller holds mu.
func (m *secretMemo) drop(name types.NamespacedName) {
	if secret := m.held[name]; secret != nil {
		m.size -= bytesOf(secret)
		delete(m.held, name)
	}
}

func bytesOf(secret *corev1.Secret) int {
	bytes := 1 << 10
	for key, value := range secret.Data {
		bytes += len(key) + len(value)
	}
	return bytes
}

// sourceSecret reads a Secret that a source needs, unless the one that is
// remembered has not changed since. What it returns must not be changed.
func (r *FunctionReconciler) sourceSecret(ctx context.Context, name types.NamespacedName) (*corev1.Secret, error) {
	seen := &metav1.PartialObjectMetadata{}
	seen.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	if r.metadata != nil && r.metadata.Get(ctx, name, seen) == nil {
		if secret := r.secrets.get(name, seen.ResourceVersion); secret != nil {
			return secret, nil
		}
	}
	secret := &corev1.Secret{}
	if err := r.Live.Get(ctx, name, secret); err != nil {
		r.secrets.mu.Lock()
		defer r.secrets.mu.Unlock()
		r.secrets.drop(name)
		return nil, err
	}
	secret.ManagedFields, secret.Annotations = nil, nil // kubectl keeps a copy there
	r.secrets.put(name, secret)
	return secret, nil
}

// podSecrets names the Secrets that a Function's Pods read, each once, sorted.
func podSecrets(fn *functionv1.Function) []string {
	names := map[string]bool{}
	for _, variable := range fn.Spec.Env {
		if from := variable.ValueFrom; from != nil && from.SecretKeyRef != nil {
			names[from.SecretKeyRef.Name] = true
		}
	}
	for _, mount := range fn.Spec.SecretMounts {
		names[mount.SecretName] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// secretsSum stands for the content of the Secrets that a Function's Pods read:
// it is another when one of them changes, and tells nothing of what is in them.
// A Secret that is not there changes nothing: it would only bring Pods that
// cannot start, and whoever replaces a Secret deletes it first.
func (r *FunctionReconciler) secretsSum(ctx context.Context, fn *functionv1.Function) (string, error) {
	names := podSecrets(fn)
	if len(names) == 0 || fn.Annotations[functionv1.AnnotationSecretRollout] == "false" {
		return "", nil
	}
	mac := hmac.New(sha256.New, r.Config.RegistryKey.Derive("sums of secrets"))
	for _, name := range names {
		sum, err := r.secretSum(ctx, types.NamespacedName{Namespace: fn.Namespace, Name: name})
		if apierrors.IsNotFound(err) {
			r.sums.m.Delete(types.NamespacedName{Namespace: fn.Namespace, Name: name})
			return r.lastSum(ctx, fn)
		}
		if err != nil {
			return "", fmt.Errorf("look at Secret %s: %w", name, err)
		}
		fmt.Fprintf(mac, "%d:%s%s", len(name), name, sum)
	}
	return hex.EncodeToString(mac.Sum(nil)[:16]), nil
}

// secretSum reads a Secret only when its version is not the one read last.
func (r *FunctionReconciler) secretSum(ctx context.Context, name types.NamespacedName) ([]byte, error) {
	seen := &metav1.PartialObjectMetadata{}
	seen.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	if err := r.versions().Get(ctx, name, seen); err != nil {
		return nil, err
	}
	if sum, known := r.sums.get(name, version(seen)); known {
		return sum, nil
	}
	secret := &corev1.Secret{}
	if err := r.Live.Get(ctx, name, secret); err != nil {
		return nil, err
	}
	mac := hmac.New(sha256.New, r.Config.RegistryKey.Derive("sums of secrets"))
	for _, key := range slices.Sorted(maps.Keys(secret.Data)) {
		fmt.Fprintf(mac, "%d:%s%d:%s", len(key), key, len(secret.Data[key]), secret.Data[key])
	}
	sum := mac.Sum(nil)
	r.sums.put(name, version(secret), sum)
	return sum, nil
}

// lastSum is the sum that the Deployment has.
func (r *FunctionReconciler) lastSum(ctx context.Context, fn *functionv1.Function) (string, error) {
	deployment := &appsv1.Deployment{}
	if err := r.Get(ctx, client.ObjectKeyFromObject(fn), deployment); client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("look at Deployment %s: %w", fn.Name, err)
	}
	return deployment.Spec.Template.Annotations[rollout.AnnotationSecrets], nil
}
