package main

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

func newJob(uid, version string, suspended bool) *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name: uid + "-build-0123456789", UID: types.UID(uid), ResourceVersion: version,
			Labels: map[string]string{labelFunction: "pushed", labelResource: "build"},
		},
		Spec: batchv1.JobSpec{Suspend: ptr.To(suspended)},
	}
}

func TestRecorder(t *testing.T) {
	g := NewWithT(t)
	r := newRecorder()
	r.add(sighting{object: newJob("old", "1", true)})
	from := r.mark()
	r.add(sighting{object: newJob("old", "1", true)})
	g.Expect(r.mark()).To(Equal(from), "what a new watch repeats is no news")
	r.add(sighting{object: newJob("old", "2", false)})
	r.add(sighting{object: newJob("new", "3", true)})

	s, found := r.find(from, buildJob("pushed", admitted))
	g.Expect(found).To(BeTrue())
	g.Expect(s.object.GetUID()).To(BeEquivalentTo("old"))
	_, found = r.find(from, r.new(from, buildJob("pushed", admitted)))
	g.Expect(found).To(BeFalse(), "the admitted one was there before the mark")
	_, found = r.find(from, buildJob("another", there[*batchv1.Job]))
	g.Expect(found).To(BeFalse())

	awaited := make(chan sighting)
	go func() {
		s, _ := r.await(t.Context(), "a Job to be admitted", from, r.new(from, buildJob("pushed", admitted)))
		awaited <- s
	}()
	r.add(sighting{object: newJob("new", "4", false)})
	g.Eventually(awaited).Should(Receive(WithTransform(func(s sighting) types.UID { return s.object.GetUID() }, BeEquivalentTo("new"))))

	r.add(sighting{object: newJob("new", "5", false), gone: true})
	_, found = r.find(r.mark()-1, buildJob("pushed", there[*batchv1.Job]))
	g.Expect(found).To(BeFalse(), "what is gone is not there")
}

func TestAwaitSaysWhatItWaitedFor(t *testing.T) {
	g := NewWithT(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err := newRecorder().await(ctx, "Function hello to be Ready", 0, aFunction("hello", readyFunction))
	g.Expect(err).To(MatchError(context.DeadlineExceeded))
	g.Expect(err).To(MatchError(ContainSubstring("wait for Function hello to be Ready")))
}

func newStatus(status map[string]any) *unstructured.Unstructured {
	fn := &unstructured.Unstructured{Object: map[string]any{"status": status}}
	fn.SetGroupVersionKind(functionKind)
	fn.SetName("pushed")
	fn.SetGeneration(2)
	return fn
}

func TestFunctions(t *testing.T) {
	const job, retried = "pushed-build-0123456789", "pushed-build-0123456789-2"
	key := "0123456789abcdef"
	ready := []any{map[string]any{"type": "Running", "status": "True"}, map[string]any{"type": "Ready", "status": "True"}}
	for _, row := range []struct {
		name   string
		status map[string]any
		is     func(*unstructured.Unstructured) bool
		want   bool
	}{
		{"nothing is known yet", nil, knowsDigest(job), false},
		{"the digest of another key is known", map[string]any{"history": []any{map[string]any{"key": "fedcba", "digest": "sha256:1"}}}, knowsDigest(job), false},
		{"the digest is known", map[string]any{"history": []any{map[string]any{"key": key, "digest": "sha256:1"}}}, knowsDigest(job), true},
		{"the digest of a further attempt is known", map[string]any{"history": []any{map[string]any{"key": key, "digest": "sha256:1"}}}, knowsDigest(retried), true},
		{"the Job has not been read", map[string]any{"build": map[string]any{"key": key, "state": "Succeeded", "job": job}}, tidied(job), false},
		{"the Job has been read", map[string]any{"build": map[string]any{"key": key, "state": "Succeeded"}}, tidied(job), true},
		{"the last build's Job has been read", map[string]any{"build": map[string]any{"key": "fedcba", "state": "Succeeded"}}, tidied(job), false},
		{"Ready, but of the last generation", map[string]any{"observedGeneration": int64(1), "conditions": ready}, readyFunction, false},
		{"Ready", map[string]any{"observedGeneration": int64(2), "conditions": ready}, readyFunction, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(aFunction("pushed", row.is)(sighting{object: newStatus(row.status)})).To(Equal(row.want))
			g.Expect(aFunction("another", row.is)(sighting{object: newStatus(row.status)})).To(BeFalse())
		})
	}
}

func TestRunning(t *testing.T) {
	g := NewWithT(t)
	started := corev1.ContainerStatus{Name: "fetch", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	over := corev1.ContainerStatus{Name: "push", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}
	waiting := corev1.ContainerStatus{Name: "install"}
	pod := func(all ...corev1.ContainerStatus) *corev1.Pod {
		return &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: all}}
	}
	g.Expect(running(pod())).To(BeFalse(), "kubelet has said nothing yet")
	g.Expect(running(pod(started, waiting))).To(BeFalse())
	g.Expect(running(pod(started, over))).To(BeTrue())
	g.Expect(ended("push")(pod(started, over))).To(BeTrue())
	g.Expect(ended("fetch")(pod(started, over))).To(BeFalse())
}
