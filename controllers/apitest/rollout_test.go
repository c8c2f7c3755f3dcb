package apitest

import (
	"encoding/json"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
)

func jsonOf(object any) string {
	text, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// servingWorld is a world with a Function that serves.
func servingWorld(t *testing.T, modify ...func(*functionv1.Function)) (*world, *functionv1.Function) {
	w := newWorld(t)
	w.git.push("main", files{"hello/handler.js": handler})
	w.function("hello", modify...)
	return w, w.runs("hello")
}

func TestRolloutThatFails(t *testing.T) {
	t.Parallel()
	w, served := servingWorld(t)
	w.git.push("main", files{"hello/handler.js": "throw 1"})
	w.later(pollInterval)
	w.pass("hello")
	w.builds(w.job())
	w.pass("hello")
	d := w.deployment("hello")
	d.Status.ObservedGeneration, d.Status.Replicas = d.Generation, 2
	d.Status.Conditions[1] = appsv1.DeploymentCondition{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded"}
	w.Expect(w.client.Status().Update(w.ctx, d)).To(Succeed())

	w.events.taken()
	fn, result := w.pass("hello")
	failed := "the new version did not become ready in time: 1 of 1 replicas available, 1 of an older version; " + served.Status.Revision + " goes on serving"
	w.expect(fn,
		"Ready False DeploymentFailed: "+failed,
		"Stalled True DeploymentFailed: "+failed,
		"ConfigurationReady True SourceUpdated",
		"BuildReady True JobFinished",
		"Running False DeploymentFailed: "+failed,
	)
	w.Expect(result.RequeueAfter).To(BeNumerically("~", pollInterval, pollInterval/10))
	w.Expect(fn.Status.Image).To(Equal(served.Status.Image))
	w.Expect(fn.Status.Revision).To(Equal(served.Status.Revision))
	w.Expect(w.events.taken()).To(ConsistOf(And(HavePrefix("Warning DeploymentFailed: "), HaveSuffix(failed))))

	// It recovers by itself as well as by a revert.
	w.rollsOut("hello")
	fn, _ = w.pass("hello")
	w.serves(fn, "main@sha1:"+fn.Status.Commit)
}

func TestChangeOfEnvAlone(t *testing.T) {
	t.Parallel()
	w, served := servingWorld(t)
	w.change("hello", withEnv("COLOUR", "blue"))
	fn, _ := w.pass("hello")
	w.expect(fn,
		"Ready False DeploymentWaiting: its controller has not looked yet",
		"Reconciling True DeploymentWaiting",
		"ConfigurationReady True SourceUpdated",
		"BuildReady True JobFinished",
		"Running Unknown DeploymentWaiting",
	)
	w.rollsOut("hello")
	fn, _ = w.pass("hello")
	w.serves(fn, served.Status.Revision)
	w.Expect(fn.Status.Image).To(Equal(served.Status.Image))
	w.Expect(w.deployment("hello").Spec.Template.Spec.Containers[0].Env).To(ContainElement(corev1.EnvVar{Name: "COLOUR", Value: "blue"}))
	w.Expect(w.tap.builds()).To(Equal(1))
}

func TestChangeOfReplicasAlone(t *testing.T) {
	t.Parallel()
	w, served := servingWorld(t)
	w.events.taken()
	w.change("hello", withReplicas(3))
	fn, _ := w.pass("hello")
	w.Expect(*w.deployment("hello").Spec.Replicas).To(Equal(int32(3)))
	w.serves(fn, served.Status.Revision)
	fn, _ = w.pass("hello") // the Deployment's controller has still not looked
	w.serves(fn, served.Status.Revision)
	w.rollsOut("hello")
	fn, _ = w.pass("hello")
	w.serves(fn, served.Status.Revision)
	w.Expect(fn.Status.Replicas).To(Equal(int32(3)))
	w.Expect(w.events.taken()).To(BeEmpty())

	// A new template in the same moment is a rollout all the same.
	w.change("hello", func(fn *functionv1.Function) { withReplicas(2)(fn); withEnv("COLOUR", "blue")(fn) })
	fn, _ = w.pass("hello")
	w.Expect(fn.Status.Conditions[0].Type).To(Equal("Reconciling"))
	w.change("hello", withReplicas(4))
	fn, _ = w.pass("hello")
	w.Expect(fn.Status.Conditions[0].Type).To(Equal("Reconciling"), "the template that was changed before is still on its way")
}

func TestForeignService(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	foreign := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "hello"},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "other"}, Ports: []corev1.ServicePort{{Port: 81, TargetPort: intstr.FromInt32(81)}}},
	}
	w.Expect(w.client.Create(w.ctx, foreign)).To(Succeed())
	w.git.push("main", files{"hello/handler.js": handler})
	w.function("hello")
	w.pass("hello")
	w.builds(w.job())
	fn, _ := w.pass("hello")
	w.expect(fn,
		"Ready False ServiceFailed: apply Service hello: it belongs to somebody else",
		"Stalled True ServiceFailed",
		"ConfigurationReady True SourceUpdated",
		"BuildReady True JobFinished",
		"Running False ServiceFailed: apply Service hello: it belongs to somebody else",
	)
	now := &corev1.Service{}
	w.Expect(w.client.Get(w.ctx, w.key("hello"), now)).To(Succeed())
	w.Expect(now.ResourceVersion).To(Equal(foreign.ResourceVersion))

	w.Expect(w.client.Delete(w.ctx, now)).To(Succeed())
	w.pass("hello")
	w.rollsOut("hello")
	fn, _ = w.pass("hello")
	w.serves(fn, fn.Status.Revision)
}

func TestChildrenOfAPredecessor(t *testing.T) {
	t.Parallel()
	w, old := servingWorld(t)
	w.Expect(w.client.Delete(w.ctx, old)).To(Succeed())
	_, err := w.try("hello")
	w.Expect(err).NotTo(HaveOccurred())
	w.function("hello")
	fn, _ := w.pass("hello") // nothing has collected the children yet
	w.expect(fn,
		"Ready False DeploymentWaiting: Service hello is being deleted",
		"Reconciling True DeploymentWaiting",
		"ConfigurationReady True SourceUpdated",
		"BuildReady True JobFinished",
		"Running Unknown DeploymentWaiting: Service hello is being deleted",
	)
	w.Expect(fn.Status.History[0].Why).To(Equal("found in the registry"))
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "hello"}}
	w.Expect(w.client.Delete(w.ctx, service)).To(Succeed())
	w.Expect(w.client.Delete(w.ctx, w.deployment("hello"))).To(Succeed())
	w.pass("hello")
	w.rollsOut("hello")
	fn, _ = w.pass("hello")
	w.serves(fn, old.Status.Revision)
	w.Expect(w.tap.builds()).To(Equal(1))
}

func TestDrift(t *testing.T) {
	for _, row := range []struct {
		name   string
		change func(w *world) error
	}{
		{"the Deployment is scaled", func(w *world) error {
			return w.client.Patch(w.ctx, w.deployment("hello"), rawPatch(`{"spec":{"replicas":7}}`))
		}},
		{"the Deployment has another image", func(w *world) error {
			return w.client.Patch(w.ctx, w.deployment("hello"), rawPatch(`{"spec":{"template":{"spec":{"containers":[{"name":"function","image":"evil"}]}}}}`))
		}},
		{"the Deployment is deleted", func(w *world) error { return w.client.Delete(w.ctx, w.deployment("hello")) }},
		{"the Service has another port", func(w *world) error {
			s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "hello"}}
			return w.client.Patch(w.ctx, s, rawPatch(`{"spec":{"ports":[{"name":"http","port":80,"targetPort":1}]}}`))
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			w, served := servingWorld(t)
			was, service := w.deployment("hello").Spec, &corev1.Service{}
			w.Expect(row.change(w)).To(Succeed())
			w.pass("hello")
			w.rollsOut("hello")
			fn, _ := w.pass("hello")
			w.serves(fn, served.Status.Revision)
			w.Expect(w.deployment("hello").Spec).To(Equal(was))
			w.Expect(w.client.Get(w.ctx, w.key("hello"), service)).To(Succeed())
			w.Expect(service.Spec.Ports[0].TargetPort.IntValue()).To(Equal(8080))
			w.Expect(w.tap.builds()).To(Equal(1))
		})
	}
}

func TestSuspend(t *testing.T) {
	t.Parallel()
	w, served := servingWorld(t)
	w.change("hello", func(fn *functionv1.Function) { fn.Spec.Suspend = true })
	w.git.push("main", files{"hello/handler.js": handler + "// two"})
	asked := w.git.refsRequests()
	w.later(pollInterval)
	w.events.taken()
	for range 3 {
		w.tap.taken()
		result, err := w.try("hello")
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(result).To(BeZero())
	}
	w.Expect(w.tap.taken()).To(BeEmpty())
	w.Expect(w.git.refsRequests()).To(Equal(asked))
	fn := w.look("hello")
	says := "suspended: serves " + served.Status.Revision + ", and nothing else is looked at"
	w.expect(fn,
		"Ready True Suspended: "+says,
		"ConfigurationReady True SourceUpdated", "BuildReady True JobFinished",
		"Running True DeploymentReady: serves "+served.Status.Revision,
	)
	w.Expect(fn.Status.ObservedGeneration).To(Equal(fn.Generation))
	w.Expect(w.events.taken()).To(Equal([]string{"Normal Suspended: " + says}))
	fn.Status.Conditions, served.Status.Conditions, fn.Status.ObservedGeneration = nil, nil, served.Status.ObservedGeneration
	w.Expect(fn.Status).To(Equal(served.Status), "nothing else changes")

	w.change("hello", func(fn *functionv1.Function) { fn.Spec.Suspend = false })
	w.pass("hello")
	w.Expect(w.jobs()).To(HaveLen(1))
	w.builds(w.job())
	w.pass("hello")
	w.rollsOut("hello")
	fn, _ = w.pass("hello")
	w.serves(fn, "main@sha1:"+fn.Status.Commit)
}

func TestSuspendedBeforeAnythingServes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.git.push("main", files{"hello/handler.js": handler})
	w.function("hello", func(fn *functionv1.Function) { fn.Spec.Suspend = true })
	_, err := w.try("hello")
	w.Expect(err).NotTo(HaveOccurred())
	fn := w.look("hello")
	w.expect(fn,
		"Ready False Suspended: suspended, and nothing serves: set spec.suspend to false",
		"Stalled True Suspended: suspended, and nothing serves",
	)
	w.Expect(fn.Status.ObservedGeneration).To(Equal(fn.Generation))
	w.Expect(w.git.refsRequests()).To(BeZero())
	w.change("hello", func(fn *functionv1.Function) { fn.Spec.Suspend = false })
	fn, _ = w.pass("hello")
	w.Expect(w.jobs()).To(HaveLen(1))
	w.expect(fn,
		"Ready False JobCreated", "Reconciling True JobCreated", "ConfigurationReady True SourceUpdated",
		"BuildReady Unknown JobCreated", "Running Unknown DeploymentWaiting",
	)
}

func TestPin(t *testing.T) {
	t.Parallel()
	w, first := servingWorld(t)
	second := w.git.push("main", files{"hello/handler.js": handler + "// two"})
	w.later(pollInterval)
	w.runs("hello")
	w.change("hello", func(fn *functionv1.Function) { fn.Spec.Pin = first.Status.Commit[:12] })
	w.pass("hello")
	w.rollsOut("hello")
	fn, _ := w.pass("hello")
	w.Expect(fn.Status.Image).To(Equal(first.Status.Image))
	w.Expect(fn.Status.Commit).To(Equal(second), "it goes on following")
	w.expect(fn,
		"Ready True DeploymentReady: serves "+first.Status.Revision,
		"ConfigurationReady True SourceUpdated: main@sha1:"+second,
		"BuildReady True JobFinished",
		"Running True DeploymentReady: serves "+first.Status.Revision,
	)
	w.change("hello", func(fn *functionv1.Function) { fn.Spec.Pin = "0000000" })
	fn, _ = w.pass("hello")
	w.expect(fn,
		`Ready False InvalidFunctionSpec: spec.pin: no revision of status.history begins with "0000000"`,
		"Stalled True InvalidFunctionSpec: spec.pin",
		"ConfigurationReady True SourceUpdated",
		"BuildReady True JobFinished",
		"Running False InvalidFunctionSpec: spec.pin",
	)
	w.change("hello", func(fn *functionv1.Function) { fn.Spec.Pin = "" })
	w.pass("hello")
	w.rollsOut("hello")
	fn, _ = w.pass("hello")
	w.serves(fn, "main@sha1:"+second)
}

// rawPatch is a strategic merge patch as kubectl sends it.
type rawPatch string

// Type is what the API server does with the patch.
func (rawPatch) Type() types.PatchType { return types.StrategicMergePatchType }

// Data is the patch.
func (p rawPatch) Data(client.Object) ([]byte, error) { return []byte(p), nil }
