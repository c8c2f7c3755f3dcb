package e2e

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
)

// TestQueue wants twelve builds at once, where three may run. It counts Jobs of
// the whole cluster.
func TestQueue(t *testing.T) {
	const wanted, cap = 12, 3
	s := newSpace(t, "queue")
	files := map[string]string{}
	for i := range wanted {
		files[fmt.Sprintf("fn-%02d/handler.js", i)] = handler(fmt.Sprintf("answer %d", i))
	}
	repo, commit := s.newRepository("many", false, files)
	list := map[string]any{"apiVersion": "v1", "kind": "List"}
	var items []any
	for i := range wanted {
		items = append(items, newFunction(fmt.Sprintf("fn-%02d", i), fromGit(repo.url, fmt.Sprintf("fn-%02d", i))))
	}
	list["items"] = items
	began := time.Now()
	s.applyObject(list)

	for i := range wanted {
		s.ready(fmt.Sprintf("fn-%02d", i), commit)
	}
	s.took("all twelve run", began)
	for i := range wanted {
		s.answers(fmt.Sprintf("fn-%02d", i), fmt.Sprintf("answer %d", i))
	}
	s.noJobs()
	s.g.Expect(watched.jobs.uids(s.name)).To(HaveLen(wanted), "one build for each")
	s.g.Expect(mostAtOnce(watched.jobs, admitted)).To(BeNumerically("<=", cap), "Jobs with a slot at one time")
	s.g.Expect(mostAtOnce(watched.jobs, func(job batchv1.Job) bool { return job.Namespace == s.name && admitted(job) })).
		To(Equal(cap), "the slots are used")
	s.g.Expect(mostAtOnce(watched.pods, building)).To(BeNumerically("<=", cap), "build Pods at one time")

	last := int32(0)
	for _, sighting := range watched.functions.sightings(s.name) {
		if build := decode[functionv1.Function](sighting.raw).Status.Build; build != nil && build.State == functionv1.BuildQueued {
			last = max(last, build.QueuePosition)
		}
	}
	s.g.Expect(last).To(BeNumerically(">", 1), "the last place that a Function ever told")
	s.soon(time.Minute, func(g Gomega) {
		for _, pod := range present[corev1.Pod](watched.pods, s.name) {
			g.Expect(pod.Labels[labelResource]).NotTo(Equal("build"), "Pod %s is left", pod.Name)
		}
	})
}
