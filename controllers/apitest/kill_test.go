package apitest

import (
	"fmt"
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
	"github.com/gitfn/gitfn/builder"
	"github.com/gitfn/gitfn/builder/job"
)

// TestKilledAtAnyWrite kills the manager at its first write, at its second, and
// so on, once before the write and once right after it, and lets another one go
// on. Whenever it happens, what comes of it is the same.
func TestKilledAtAnyWrite(t *testing.T) {
	for _, row := range []struct {
		name   string
		source func(*functionv1.Function)
		broken bool
	}{
		{name: "a Function from Git", source: func(*functionv1.Function) {}},
		{name: "an inline Function", source: inline(handler)},
		{name: "a build that fails for good", source: func(*functionv1.Function) {}, broken: true},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			scene := func(t *testing.T, p *tap) *world {
				w := newWorld(t)
				w.git.push("main", files{"hello/handler.js": handler})
				w.function("hello", row.source)
				w.start(p)
				w.playOut("hello", row.broken)
				return w
			}
			whole := &tap{}
			scene(t, whole)
			writes := whole.taken()
			NewWithT(t).Expect(len(writes)).To(BeNumerically(">", 8))
			for n := range writes {
				for _, done := range []bool{false, true} {
					when := map[bool]string{false: "before", true: "after"}[done]
					t.Run(fmt.Sprintf("%s %d, %s", when, n+1, writes[n]), func(t *testing.T) {
						t.Parallel()
						p := &tap{killAt: n + 1, done: done}
						w := scene(t, p)
						w.Expect(p.killed).To(BeTrue())
						w.Expect(w.tap).NotTo(BeIdenticalTo(p))
						for _, jobs := range w.tap.built {
							w.Expect(jobs+p.builds()).To(Equal(1), "builds of one key")
						}
						w.Expect(p.builds() + w.tap.builds()).To(Equal(1))
						w.Expect(w.jobs()).To(BeEmpty())
						w.Expect(w.configMaps()).To(BeEmpty())
						fn := w.look("hello")
						w.Expect(fn.Status.Build.Attempt).To(Equal(int32(1)))
						if row.broken {
							w.Expect(fn.Status.History).To(BeEmpty())
							w.Expect(conditions.GetReason(fn, functionv1.BuildReady)).To(Equal(functionv1.ReasonJobFailed))
							return
						}
						w.Expect(fn.Status.History).To(HaveLen(1))
						w.Expect(fn.Status.History[0].Why).To(Equal("built: First"))
						w.serves(fn, fn.Status.History[0].Revision)
					})
				}
			}
		})
	}
}

// playOut makes manager and cluster take turns until the Function is at rest
// and nothing of a build is left. A killed manager is followed by another.
func (w *world) playOut(name string, broken bool) {
	w.t.Helper()
	for range 60 {
		_, functionErr := w.try(name)
		_, queueErr := w.queue.Reconcile(w.ctx, request)
		if w.tap.killed {
			w.start(&tap{})
			continue
		}
		w.Expect(functionErr).NotTo(HaveOccurred())
		w.Expect(queueErr).NotTo(HaveOccurred())
		fn := w.look(name)
		resting := conditions.IsReady(fn) || conditions.IsTrue(fn, meta.StalledCondition)
		moved := w.clusterMoves(name, broken)
		if resting && !moved && len(w.jobs()) == 0 {
			return
		}
		w.later(time.Second)
	}
	w.t.Fatalf("no rest: %+v", w.look(name).Status)
}

// clusterMoves moves the rest of the cluster by one step for each Job and Deployment.
func (w *world) clusterMoves(name string, broken bool) (moved bool) {
	for _, j := range w.jobs() {
		moved = w.jobMoves(&j, broken) || moved
	}
	d := &appsv1.Deployment{}
	if err := w.client.Get(w.ctx, w.key(name), d); err == nil && d.Status.ObservedGeneration < d.Generation {
		w.rollsOut(name)
		moved = true
	}
	return moved
}

func (w *world) jobMoves(j *batchv1.Job, broken bool) bool {
	if *j.Spec.Suspend {
		return false
	}
	if j.Status.StartTime == nil {
		w.started(j)
		w.pod(j)
		return true
	}
	pod := w.podOf(j)
	if pod.Status.ContainerStatuses[1].State.Terminated != nil || pod.Status.Phase == corev1.PodSucceeded {
		return false
	}
	if broken {
		w.ends(pod, builder.StageInstall, builder.Report{Error: &builder.StepError{Class: builder.ClassInstallFailed, Message: "it went wrong"}})
		return true
	}
	plan, err := job.PlanOf(j)
	w.Expect(err).NotTo(HaveOccurred())
	if digest, err := w.functions.Images.Digest(w.ctx, plan.Pin()); err == nil {
		w.ends(pod, builder.StagePush, builder.Report{Result: &builder.Result{Digest: digest}})
	} else {
		w.pushes(j)
	}
	return true
}

func (w *world) podOf(j *batchv1.Job) *corev1.Pod {
	w.t.Helper()
	pods := &corev1.PodList{}
	w.Expect(w.client.List(w.ctx, pods, client.InNamespace(w.namespace))).To(Succeed())
	for i := range pods.Items {
		if metav1.IsControlledBy(&pods.Items[i], j) {
			return &pods.Items[i]
		}
	}
	w.t.Fatalf("Job %s has no Pod", j.Name)
	return nil
}

// configMaps are the names of the ConfigMaps that builds read.
func (w *world) configMaps() (names []string) {
	w.t.Helper()
	list := &corev1.ConfigMapList{}
	w.Expect(w.client.List(w.ctx, list, client.InNamespace(w.namespace), client.HasLabels{functionv1.LabelFunctionName})).To(Succeed())
	for _, c := range list.Items {
		names = append(names, c.Name)
	}
	return names
}

// TestStaleCache lets a reconciler see a Function as it was before its build
// was known to have failed, after the Job has gone.
func TestStaleCache(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.git.push("main", files{"hello/handler.js": handler})
	w.function("hello")
	before, _ := w.pass("hello")
	w.fails(w.job(), builder.StageInstall, builder.ClassInstallFailed)
	w.pass("hello")
	w.Expect(w.jobs()).To(BeEmpty())

	w.functions.Client = stale{w.functions.Client, before}
	result, err := w.try("hello")
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(result.RequeueAfter).To(BeNumerically("~", time.Second, time.Second))
	w.Expect(w.jobs()).To(BeEmpty())
	w.Expect(w.tap.builds()).To(Equal(1))
}
