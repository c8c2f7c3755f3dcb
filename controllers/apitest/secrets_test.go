package apitest

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
)

func withSecretEnv(fn *functionv1.Function) {
	ref := &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "shop"}, Key: "token"}
	fn.Spec.Env = []corev1.EnvVar{{Name: "TOKEN", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: ref}}}
}

func withSecretMount(fn *functionv1.Function) {
	fn.Spec.SecretMounts = []functionv1.SecretMount{{SecretName: "shop", MountPath: "/shop"}}
}

func TestSecretsOfPods(t *testing.T) {
	for _, row := range []struct {
		name   string
		change func(*functionv1.Function)
		rolls  bool
	}{
		{"a Secret in env changes: the Pods are replaced", withSecretEnv, true},
		{"a mounted Secret changes: the Pods are replaced", withSecretMount, true},
		{"a Secret that no Pod reads changes: nothing happens", func(*functionv1.Function) {}, false},
		{"the Function says no: nothing happens", func(fn *functionv1.Function) {
			withSecretEnv(fn)
			fn.Annotations = map[string]string{functionv1.AnnotationSecretRollout: "false"}
		}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.git.push("main", files{"hello/handler.js": handler})
			w.secret("shop", map[string]string{"token": "canary-1"})
			w.function("hello", row.change)
			served := w.runs("hello")
			first := w.deployment("hello").Spec.Template

			w.tap.taken()
			w.pass("hello")
			w.Expect(w.tap.taken()).To(BeEmpty(), "nothing has changed")

			w.secret("shop", map[string]string{"token": "canary-2"})
			w.pass("hello")
			second := w.deployment("hello").Spec.Template
			if !row.rolls {
				w.Expect(second).To(Equal(first))
				return
			}
			w.Expect(second).NotTo(Equal(first))
			w.rollsOut("hello")
			fn, _ := w.pass("hello")
			w.serves(fn, served.Status.Revision)

			// What comes back is what was.
			w.secret("shop", map[string]string{"token": "canary-1"})
			w.pass("hello")
			w.Expect(w.deployment("hello").Spec.Template).To(Equal(first))
			w.Expect(jsonOf(w.deployment("hello"))).NotTo(ContainSubstring("canary"))
			w.Expect(w.tap.builds()).To(Equal(1))
		})
	}
}

func TestSecretOfPodsThatIsReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.git.push("main", files{"hello/handler.js": handler})
	w.secret("shop", map[string]string{"token": "one"})
	w.function("hello", withSecretMount)
	served := w.runs("hello")
	first := w.deployment("hello").Spec.Template

	w.Expect(w.client.Delete(w.ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "shop"}})).To(Succeed())
	fn, _ := w.pass("hello")
	w.serves(fn, served.Status.Revision)
	w.Expect(w.deployment("hello").Spec.Template).To(Equal(first), "a Pod without its Secret could not start")

	w.secret("shop", map[string]string{"token": "one"})
	fn, _ = w.pass("hello")
	w.serves(fn, served.Status.Revision)
	w.Expect(w.deployment("hello").Spec.Template).To(Equal(first), "it has the same content as before")
}
