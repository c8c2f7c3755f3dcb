package apitest

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
	"github.com/gitfn/gitfn/controllers"
	"github.com/gitfn/gitfn/registry/tenant"
)

func (w *world) readSecret(name string) *corev1.Secret {
	w.t.Helper()
	s := &corev1.Secret{}
	w.Expect(w.client.Get(w.ctx, w.key(name), s)).To(Succeed())
	return s
}

func TestWhatANamespaceGets(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *controllers.Config) { c.TrustBundle = []byte("-----BEGIN CERTIFICATE-----\n") })
	w.function("hello", inline(handler))
	w.pass("hello")

	for name, access := range map[string]tenant.Access{controllers.SecretPush: tenant.Push, controllers.SecretPull: tenant.Pull} {
		s := w.readSecret(name)
		credential := w.config.RegistryKey.Credential(w.namespace, access)
		w.Expect(s.Type).To(Equal(corev1.SecretTypeDockerConfigJson))
		w.Expect(string(s.Data["username"])).To(Equal(credential.Username))
		w.Expect(string(s.Data["password"])).To(Equal(credential.Password))
		w.Expect(string(s.Data["isInternal"])).To(Equal("true"))
		w.Expect(string(s.Data["pushRegAddr"])).To(Equal(w.images.host))
		w.Expect(string(s.Data["pullRegAddr"])).To(Equal(pullAddress))
		w.Expect(string(s.Data[corev1.DockerConfigJsonKey])).To(And(ContainSubstring(w.images.host), ContainSubstring(pullAddress)))
	}
	account := &corev1.ServiceAccount{}
	w.Expect(w.client.Get(w.ctx, w.key(controllers.ServiceAccount), account)).To(Succeed())
	w.Expect(*account.AutomountServiceAccountToken).To(BeFalse())
	w.Expect(account.ImagePullSecrets).To(Equal([]corev1.LocalObjectReference{{Name: controllers.SecretPush}}))
	bundle := &corev1.ConfigMap{}
	w.Expect(w.client.Get(w.ctx, w.key(controllers.ConfigMapTrust), bundle)).To(Succeed())
	w.Expect(bundle.Data).To(HaveKeyWithValue("ca.crt", "-----BEGIN CERTIFICATE-----\n"))
	w.Expect(w.job().Spec.Template.Spec.ServiceAccountName).To(Equal(controllers.ServiceAccount))
}

func TestWhatANamespaceGetsComesBack(t *testing.T) {
	for _, row := range []struct {
		name   string
		change func(w *world) error
		back   func(w *world)
	}{
		{"a Secret was edited", func(w *world) error {
			s := w.readSecret(controllers.SecretPush)
			s.Data["password"] = []byte("forged")
			return w.client.Update(w.ctx, s)
		}, func(w *world) {
			w.Expect(string(w.readSecret(controllers.SecretPush).Data["password"])).To(Equal(w.config.RegistryKey.Credential(w.namespace, tenant.Push).Password))
		}},
		{"a Secret was deleted", func(w *world) error {
			return w.client.Delete(w.ctx, w.readSecret(controllers.SecretPull))
		}, func(w *world) { w.readSecret(controllers.SecretPull) }},
		{"the ServiceAccount was edited", func(w *world) error {
			account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: controllers.ServiceAccount}}
			return w.client.Patch(w.ctx, account, client.RawPatch("application/merge-patch+json", []byte(`{"automountServiceAccountToken":true}`)))
		}, func(w *world) {
			account := &corev1.ServiceAccount{}
			w.Expect(w.client.Get(w.ctx, w.key(controllers.ServiceAccount), account)).To(Succeed())
			w.Expect(*account.AutomountServiceAccountToken).To(BeFalse())
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			w, _ := servingWorld(t)
			w.tap.taken()
			w.pass("hello")
			w.Expect(w.tap.taken()).To(BeEmpty(), "what is right is left alone")
			w.Expect(row.change(w)).To(Succeed())
			w.pass("hello")
			row.back(w)
		})
	}
}

func TestSecretThatAUserKeeps(t *testing.T) {
	t.Parallel()
	w, _ := servingWorld(t)
	s := w.readSecret(controllers.SecretPush)
	s.Labels[functionv1.LabelManagedBy] = "user"
	s.Data["password"] = []byte("own")
	w.Expect(w.client.Update(w.ctx, s)).To(Succeed())
	w.pass("hello")
	w.Expect(string(w.readSecret(controllers.SecretPush).Data["password"])).To(Equal("own"))
}
