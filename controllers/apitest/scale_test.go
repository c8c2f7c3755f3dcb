package apitest

import (
	"testing"

	. "github.com/onsi/gomega"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
)

func withScale(least, most int32) func(*functionv1.Function) {
	return func(fn *functionv1.Function) {
		fn.Spec.ScaleConfig = &functionv1.ScaleConfig{MinReplicas: &least, MaxReplicas: &most}
	}
}

// child reads a child that has the Function's name; there is nil when it is not there.
func child[T client.Object](w *world, object T) (T, bool) {
	w.t.Helper()
	err := w.client.Get(w.ctx, w.key("hello"), object)
	w.Expect(client.IgnoreNotFound(err)).To(Succeed())
	return object, !apierrors.IsNotFound(err)
}

func (w *world) autoscaler() (*autoscalingv1.HorizontalPodAutoscaler, bool) {
	return child(w, &autoscalingv1.HorizontalPodAutoscaler{})
}

func TestScaleConfig(t *testing.T) {
	for _, row := range []struct {
		name     string
		change   func(*functionv1.Function)
		replicas int32
		bounds   []int32 // of the autoscaler, if there is to be one
		budget   bool
	}{
		{"no bounds: spec.replicas, and nothing else", withReplicas(1), 1, nil, false},
		{"no bounds, several replicas: drains take one at a time", withReplicas(2), 2, nil, true},
		{"two bounds: an autoscaler", withScale(1, 3), 1, []int32{1, 3}, true},
		{"equal bounds: that many, and no autoscaler", withScale(2, 2), 2, nil, true},
		{"equal bounds and no replicas: none", func(fn *functionv1.Function) { withScale(2, 2)(fn); withReplicas(0)(fn) }, 0, nil, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			w, _ := servingWorld(t, row.change)
			w.Expect(*w.deployment("hello").Spec.Replicas).To(Equal(row.replicas))
			hpa, there := w.autoscaler()
			w.Expect(there).To(Equal(row.bounds != nil))
			if there {
				w.Expect([]int32{*hpa.Spec.MinReplicas, hpa.Spec.MaxReplicas}).To(Equal(row.bounds))
				w.Expect(*hpa.Spec.TargetCPUUtilizationPercentage).To(Equal(int32(50)))
				w.Expect(hpa.Spec.ScaleTargetRef).To(Equal(autoscalingv1.CrossVersionObjectReference{
					APIVersion: "serverless.kyma-project.io/v1alpha2", Kind: "Function", Name: "hello",
				}))
			}
			budget, there := child(w, &policyv1.PodDisruptionBudget{})
			w.Expect(there).To(Equal(row.budget))
			if there {
				w.Expect(budget.Spec.Selector.MatchLabels).To(HaveLen(4))
			}
		})
	}
}

func TestScaleConfigThatChanges(t *testing.T) {
	t.Parallel()
	w, served := servingWorld(t, withScale(1, 3))
	w.Expect(w.events.taken()).To(ContainElement("Normal HorizontalPodAutoscalerCreated: autoscaler hello keeps between 1 and 3 replicas, at 50% of the requested CPU"))

	// What somebody does to the autoscaler is undone; what its controller says of itself is nobody's business.
	hpa, _ := w.autoscaler()
	hpa.Status.CurrentReplicas = 1
	w.Expect(w.client.Status().Update(w.ctx, hpa)).To(Succeed())
	w.tap.taken()
	w.pass("hello")
	w.Expect(w.tap.taken()).To(BeEmpty())
	hpa, _ = w.autoscaler()
	hpa.Spec.MaxReplicas = 90
	w.Expect(w.client.Update(w.ctx, hpa)).To(Succeed())
	fn, _ := w.pass("hello")
	hpa, _ = w.autoscaler()
	w.Expect(hpa.Spec.MaxReplicas).To(Equal(int32(3)))
	w.serves(fn, served.Status.Revision)

	w.change("hello", withScale(2, 5))
	w.events.taken()
	fn, _ = w.pass("hello")
	w.serves(fn, served.Status.Revision)
	w.Expect(w.events.taken()).To(ConsistOf("Normal HorizontalPodAutoscalerUpdated: autoscaler hello keeps between 2 and 5 replicas, at 50% of the requested CPU"))

	w.change("hello", func(fn *functionv1.Function) { fn.Spec.ScaleConfig = nil })
	fn, _ = w.pass("hello")
	w.serves(fn, served.Status.Revision)
	_, there := w.autoscaler()
	w.Expect(there).To(BeFalse())
	_, there = child(w, &policyv1.PodDisruptionBudget{})
	w.Expect(there).To(BeFalse())
	w.Expect(w.tap.builds()).To(Equal(1))
}

// scale is what kubectl scale, an autoscaler and KEDA do.
func (w *world) scale(replicas int32) {
	w.t.Helper()
	fn := &functionv1.Function{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "hello"}}
	scale := &autoscalingv1.Scale{}
	w.Expect(w.client.SubResource("scale").Get(w.ctx, fn, scale)).To(Succeed())
	w.Expect(scale.Status.Selector).To(ContainSubstring("serverless.kyma-project.io/resource=deployment"))
	scale.Spec.Replicas = replicas
	w.Expect(w.client.SubResource("scale").Update(w.ctx, fn, client.WithSubResourceBody(scale))).To(Succeed())
}

func TestScaleByTheSubresource(t *testing.T) {
	t.Parallel()
	w, served := servingWorld(t, withScale(1, 3))
	w.events.taken()
	for _, row := range []struct {
		replicas int32
		says     string
	}{
		{3, "serves " + served.Status.Revision},
		{0, "serves " + served.Status.Revision + " with no Pod: spec.replicas is 0, and the autoscaler rests until it is more"},
		{1, "serves " + served.Status.Revision},
	} {
		w.scale(row.replicas)
		fn, _ := w.pass("hello") // the Deployment's controller has not looked yet
		w.Expect(*w.deployment("hello").Spec.Replicas).To(Equal(row.replicas))
		w.expect(fn,
			"Ready True DeploymentReady: "+row.says,
			"ConfigurationReady True SourceUpdated",
			"BuildReady True JobFinished",
			"Running True DeploymentReady: "+row.says,
		)
		w.rollsOut("hello")
		fn, _ = w.pass("hello")
		w.Expect(fn.Status.Replicas).To(Equal(row.replicas))
	}
	w.Expect(w.events.taken()).To(BeEmpty())
	w.Expect(w.tap.builds()).To(Equal(1))
}

func TestForeignAutoscaler(t *testing.T) {
	t.Parallel()
	w, served := servingWorld(t)
	foreign := &autoscalingv1.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "hello"},
		Spec:       autoscalingv1.HorizontalPodAutoscalerSpec{ScaleTargetRef: autoscalingv1.CrossVersionObjectReference{Kind: "Deployment", Name: "other", APIVersion: "apps/v1"}, MaxReplicas: 4},
	}
	w.Expect(w.client.Create(w.ctx, foreign)).To(Succeed())
	fn, _ := w.pass("hello")
	w.serves(fn, served.Status.Revision)
	w.change("hello", withScale(1, 3))
	fn, _ = w.pass("hello")
	w.Expect(fn.Status.Conditions).To(ContainElement(HaveField("Message", ContainSubstring("apply HorizontalPodAutoscaler hello: it belongs to somebody else"))))
	hpa, _ := w.autoscaler()
	w.Expect(hpa.Spec.MaxReplicas).To(Equal(int32(4)))
}
