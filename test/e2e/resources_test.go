package e2e

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
)

// TestOutOfMemory lets an install script take more memory than its build has.
func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "memory")
	repo, commit := s.newRepository("fn", false, sample(t, "greedy", ""))
	s.apply(newFunction("fn", fromGit(repo.url, "/"), withBuildMemory("400Mi")))
	s.eventually(func(g Gomega) {
		fn := s.function("fn")
		g.Expect(fn.Status.Build).NotTo(BeNil())
		g.Expect(fn.Status.Build.Class).To(Equal("OutOfMemory"))
	})
	fn := s.function("fn")
	s.g.Expect(fn.Status.Build.Attempt).To(Equal(int32(1)))
	s.g.Expect(fn.Status.Build.EndedAt.Time).To(BeTemporally("<", s.killed("install").Add(10*time.Second)))
	s.g.Expect(condition(fn, functionv1.BuildReady)).To(HavePrefix("False JobFailed: OutOfMemory: "))
	s.g.Expect(condition(fn, functionv1.BuildReady)).To(ContainSubstring("spec.resourceConfiguration.build"), "what to do")
	s.g.Expect(fn.Status.Commit).To(Equal(commit))
	s.g.Expect(fn.Status.Build.NextTry).To(BeNil())
	s.noJobs()
	s.g.Expect(s.jobsSeen("fn")).To(Equal(1))
}

// killed is when a container of a build ended.
func (s *space) killed(container string) (at time.Time) {
	s.t.Helper()
	for _, sighting := range watched.pods.sightings(s.name) {
		for _, c := range decode[corev1.Pod](sighting.raw).Status.ContainerStatuses {
			if c.Name == container && c.State.Terminated != nil {
				at = c.State.Terminated.FinishedAt.Time
			}
		}
	}
	s.g.Expect(at).NotTo(BeZero(), "container %s has ended", container)
	return at
}

// TestPodRefused wants a build where a quota allows no Pods, and one elsewhere.
func TestPodRefused(t *testing.T) {
	t.Parallel()
	s, other := newSpace(t, "quota"), newSpace(t, "elsewhere")
	s.applyObject(map[string]any{
		"apiVersion": "v1", "kind": "ResourceQuota",
		"metadata": map[string]any{"name": "none"},
		"spec":     map[string]any{"hard": map[string]any{"pods": "0"}},
	})
	s.soon(time.Minute, func(g Gomega) {
		g.Expect(s.kubectl("get", "resourcequota", "none", "--output=jsonpath={.status.hard.pods}")).To(Equal("0"))
	}, "the quota is in force")
	s.apply(newFunction("fn", inline(handler("at last"), "")))
	admittedAt := time.Time{}
	s.eventually(func(g Gomega) {
		if admittedAt.IsZero() && mostAtOnce(watched.jobs, func(j batchv1.Job) bool { return j.Namespace == s.name && admitted(j) }) > 0 {
			admittedAt = time.Now()
		}
		fn := s.function("fn")
		g.Expect(fn.Status.Build).NotTo(BeNil())
		g.Expect(fn.Status.Build.Class).To(Equal("PodRefused"))
		g.Expect(condition(fn, functionv1.BuildReady)).To(HavePrefix("False JobFailed: PodRefused: "))
		g.Expect(condition(fn, functionv1.BuildReady)).To(ContainSubstring("exceeded quota: none"))
	})
	s.took("class PodRefused", admittedAt)
	s.g.Expect(time.Since(admittedAt)).To(BeNumerically("<", 10*time.Second))
	s.soon(10*time.Second, func(g Gomega) {
		for _, job := range present[batchv1.Job](watched.jobs, s.name) {
			g.Expect(admitted(job)).To(BeFalse(), "its slot is free")
		}
	})

	generation := other.apply(newFunction("fn", inline(handler("goes on"), "")))
	other.readyAt("fn", generation)
	other.answers("fn", "goes on")
	s.g.Expect(s.function("fn").Status.Build.Class).To(Equal("PodRefused"))

	s.kubectl("delete", "resourcequota", "none")
	s.readyAt("fn", 1)
	s.answers("fn", "at last")
	s.g.Expect(s.jobsSeen("fn")).To(Equal(1), "the Job waited")
}
