package apitest

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
)

// others makes what another controller makes of a Function, under names of its
// own and with our labels.
func (w *world) others(fn *functionv1.Function) (d *appsv1.Deployment, pod *corev1.Pod) {
	w.t.Helper()
	labels := map[string]string{
		functionv1.LabelFunctionName: fn.Name, functionv1.LabelManagedBy: functionv1.ManagedBy, functionv1.LabelUUID: string(fn.UID),
	}
	object := metav1.ObjectMeta{
		Namespace: w.namespace, GenerateName: fn.Name + "-", Labels: labels,
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(fn, functionv1.GroupVersion.WithKind("Function"))},
	}
	selector := map[string]string{"serverless.kyma-project.io/resource": "deployment"}
	for key, value := range labels {
		selector[key] = value
	}
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: selector},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "function", Image: "old"}}},
	}
	d = &appsv1.Deployment{ObjectMeta: object, Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: selector}, Template: template}}
	w.Expect(w.client.Create(w.ctx, d)).To(Succeed())
	pod = w.replicaPod(d.Name+"-77f9", "77f9", d.Spec.Template)
	target := autoscalingv1.CrossVersionObjectReference{APIVersion: functionv1.GroupVersion.String(), Kind: "Function", Name: fn.Name}
	for _, child := range []client.Object{
		&autoscalingv1.HorizontalPodAutoscaler{ObjectMeta: object, Spec: autoscalingv1.HorizontalPodAutoscalerSpec{ScaleTargetRef: target, MaxReplicas: 2}},
		&corev1.ConfigMap{ObjectMeta: object},
	} {
		w.Expect(w.client.Create(w.ctx, child)).To(Succeed())
	}
	return d, pod
}

// replicaPod makes a Pod as the ReplicaSet of that name and hash does.
func (w *world) replicaPod(replicaSet, hash string, template corev1.PodTemplateSpec) *corev1.Pod {
	w.t.Helper()
	pod := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
	pod.Namespace, pod.Name = w.namespace, replicaSet+"-abcde"
	pod.Labels["pod-template-hash"] = hash
	pod.Spec.ServiceAccountName = "default"
	serviceAccount := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "default"}}
	w.Expect(client.IgnoreAlreadyExists(w.client.Create(w.ctx, serviceAccount))).To(Succeed())
	w.Expect(w.client.Create(w.ctx, pod)).To(Succeed())
	return pod
}

func (w *world) selector() map[string]string {
	service := &corev1.Service{}
	w.Expect(w.client.Get(w.ctx, w.key("hello"), service)).To(Succeed())
	return service.Spec.Selector
}

// left counts the children of others.
func (w *world) left() int {
	w.t.Helper()
	n := 0
	for _, list := range []client.ObjectList{&appsv1.DeploymentList{}, &autoscalingv1.HorizontalPodAutoscalerList{}, &corev1.ConfigMapList{}} {
		objects := &metav1.PartialObjectMetadataList{}
		kinds, _, err := scheme.ObjectKinds(list)
		w.Expect(err).NotTo(HaveOccurred())
		objects.SetGroupVersionKind(kinds[0])
		w.Expect(w.client.List(w.ctx, objects, client.InNamespace(w.namespace), client.MatchingLabels{functionv1.LabelFunctionName: "hello"})).To(Succeed())
		for i := range objects.Items {
			if objects.Items[i].Name != "hello" && objects.Items[i].Labels["serverless.kyma-project.io/resource"] != "build" {
				n++
			}
		}
	}
	return n
}

func TestTakingOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.git.push("main", files{"hello/handler.js": handler})
	w.function("hello")
	fn := &functionv1.Function{}
	w.Expect(w.client.Get(w.ctx, w.key("hello"), fn)).To(Succeed())
	_, theirs := w.others(fn)
	w.Expect(w.left()).To(Equal(3))

	// While ours does not serve, nothing is taken away.
	w.pass("hello")
	w.builds(w.job())
	w.pass("hello")
	w.Expect(w.left()).To(Equal(3))
	w.Expect(w.selector()).To(HaveLen(4))

	w.replicaPod("hello-55c1", "55c1", w.deployment("hello").Spec.Template)
	w.rollsOut("hello")
	fn, result := w.pass("hello")
	w.serves(fn, fn.Status.Revision)
	w.Expect(result.RequeueAfter).To(BeNumerically("<=", 10*time.Second))
	w.Expect(w.left()).To(Equal(3))

	w.pass("hello")
	w.Expect(w.selector()).To(HaveKeyWithValue("pod-template-hash", "55c1"), "their Pods are left out, and go on")
	w.Expect(w.left()).To(Equal(3))
	w.later(11 * time.Second)
	fn, _ = w.pass("hello")
	w.serves(fn, fn.Status.Revision)
	w.Expect(w.left()).To(BeZero())
	w.pass("hello")
	w.Expect(w.selector()).To(HaveKey("pod-template-hash"), "their Pod is still there")

	w.Expect(w.client.Delete(w.ctx, theirs, client.GracePeriodSeconds(0))).To(Succeed())
	w.pass("hello")
	fn, _ = w.pass("hello")
	w.Expect(w.selector()).To(HaveLen(4))
	w.serves(fn, fn.Status.Revision)
	w.tap.taken()
	w.pass("hello")
	w.Expect(w.tap.taken()).To(BeEmpty())
	w.Expect(w.events.taken()).To(ContainElement("Normal DeploymentUpdated: takes over from 3 children of another controller"))
}

func TestAnotherControllerAtWork(t *testing.T) {
	t.Parallel()
	w, served := servingWorld(t)
	w.events.taken()
	// Times of creation have whole seconds.
	w.Eventually(func() bool {
		return time.Now().Truncate(time.Second).After(w.deployment("hello").CreationTimestamp.Time)
	}, 5*time.Second).Should(BeTrue())
	d, _ := w.others(served)
	fn, _ := w.pass("hello")
	says := "Running True DeploymentReady: serves " + served.Status.Revision + "; another controller made Deployment " + d.Name
	w.expect(fn,
		"Ready True DeploymentReady: serves "+served.Status.Revision,
		"ConfigurationReady True SourceUpdated",
		"BuildReady True JobFinished",
		says,
	)
	w.pass("hello")
	w.Expect(w.events.taken()).To(ConsistOf(HavePrefix("Warning DeploymentWaiting: another controller made Deployment " + d.Name)))
	w.Expect(w.left()).To(Equal(3))
	w.Expect(w.selector()).To(HaveLen(4))
}
