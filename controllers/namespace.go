package controllers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
	"github.com/gitfn/gitfn/registry/tenant"
)

// +kubebuilder:rbac:groups="",resources=secrets;serviceaccounts;configmaps,verbs=get;list;watch;create;patch;delete

// ensureNamespace gives a namespace what its Functions need: credentials for
// its own part of the registry, a ServiceAccount that brings them to nodes, and
// the trust bundle. What is there and as it was applied costs no request.
func (r *FunctionReconciler) ensureNamespace(ctx context.Context, namespace string) error {
	for _, want := range r.namespaceObjects(namespace) {
		hash, kind := hashOf(want), want.GetObjectKind().GroupVersionKind().Kind
		have := &metav1.PartialObjectMetadata{}
		have.SetGroupVersionKind(want.GetObjectKind().GroupVersionKind())
		err := r.versions().Get(ctx, client.ObjectKeyFromObject(want), have)
		switch {
		case err == nil && r.applied.current(kind, have, hash):
			continue
		case err == nil && have.Labels[functionv1.LabelManagedBy] == "user":
			continue // whoever says so keeps it as it is
		case err != nil && !apierrors.IsNotFound(err):
			return fmt.Errorf("look at %s %s: %w", kind, want.GetName(), err)
		}
		applied, err := r.apply(ctx, want)
		if err != nil {
			return err
		}
		r.applied.remember(kind, applied, hash)
	}
	return nil
}

// versions reads the metadata of objects whose content is not kept in memory.
func (r *FunctionReconciler) versions() client.Reader {
	if r.metadata != nil {
		return r.metadata
	}
	return r.Client
}

func (r *FunctionReconciler) namespaceObjects(namespace string) []client.Object {
	named := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app.kubernetes.io/managed-by": FieldOwner}}
	}
	off := false
	objects := []client.Object{
		r.registrySecret(named(SecretPush), tenant.Push),
		r.registrySecret(named(SecretPull), tenant.Pull),
		&corev1.ServiceAccount{
			TypeMeta:                     metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
			ObjectMeta:                   named(ServiceAccount),
			ImagePullSecrets:             []corev1.LocalObjectReference{{Name: SecretPush}},
			AutomountServiceAccountToken: &off,
		},
	}
	if len(r.Config.TrustBundle) > 0 {
		objects = append(objects, &corev1.ConfigMap{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
			ObjectMeta: named(ConfigMapTrust),
			Data:       map[string]string{"ca.crt": string(r.Config.TrustBundle)},
		})
	}
	return objects
}

// registrySecret has the keys that the contract of the registry Secret names.
func (r *FunctionReconciler) registrySecret(meta metav1.ObjectMeta, access tenant.Access) *corev1.Secret {
	credential, address := r.Config.RegistryKey.Credential(meta.Namespace, access), r.Config.Registry
	hosts := map[string]tenant.Credential{address.Push: credential, address.Pull: credential}
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: meta,
		Type:       corev1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{
			corev1.DockerConfigJsonKey: tenant.DockerConfig(hosts),
			"isInternal":               []byte("true"),
			"pushRegAddr":              []byte(address.Push),
			"pullRegAddr":              []byte(address.Pull),
			"registryAddress":          []byte(address.Push),
			"serverAddress":            []byte(address.Push),
			"username":                 []byte(credential.Username),
			"password":                 []byte(credential.Password),
		},
	}
}

func hashOf(object any) string {
	text, err := json.Marshal(object)
	if err != nil {
		panic(err) // API types always marshal
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// apply writes an object by server-side apply, and returns what that made of
// it. The object needs its TypeMeta.
func (r *FunctionReconciler) apply(ctx context.Context, object client.Object) (*unstructured.Unstructured, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, fmt.Errorf("apply %s: %w", object.GetName(), err)
	}
	// An empty status is not ours, nor an empty time.
	delete(fields, "status")
	unstructured.RemoveNestedField(fields, "metadata", "creationTimestamp")
	unstructured.RemoveNestedField(fields, "spec", "template", "metadata", "creationTimestamp")
	u := &unstructured.Unstructured{Object: fields}
	if err := r.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(FieldOwner), client.ForceOwnership); err != nil {
		return nil, fmt.Errorf("apply %s %s: %w", u.GetKind(), u.GetName(), err)
	}
	return u, nil
}
