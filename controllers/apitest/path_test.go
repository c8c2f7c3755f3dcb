package apitest

import (
	"testing"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
	"github.com/gitfn/gitfn/builder"
	"github.com/gitfn/gitfn/builder/job"
)

const handler = "module.exports = { main: () => 'hello' }"

func TestNewFunction(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	commit := w.git.push("main", files{"hello/handler.js": handler, "README.md": "one"})
	tree := w.git.tree("main", "hello")
	created := w.function("hello")

	// A suspended Job comes first.
	fn, result := w.pass("hello")
	w.expect(fn,
		"Ready False JobCreated: waits for a build slot",
		"Reconciling True JobCreated: main@sha1:"+commit+" waits for a build slot",
		"ConfigurationReady True SourceUpdated: main@sha1:"+commit+", tree "+tree,
		"BuildReady Unknown JobCreated: waits for a build slot",
		"Running Unknown DeploymentWaiting: there is no image yet",
	)
	w.Expect(result.RequeueAfter).To(BeNumerically("<", pollInterval/2))
	w.Expect(fn.Status.ObservedGeneration).To(BeZero())
	w.Expect(fn.Status.Commit).To(Equal(commit))
	w.Expect(fn.Status.Build.State).To(Equal(functionv1.BuildQueued))
	w.Expect(fn.Status.Build.Causes).To(Equal([]string{"First"}))
	j := w.job()
	w.Expect(*j.Spec.Suspend).To(BeTrue())
	w.Expect(j.Labels).To(And(
		HaveKeyWithValue(functionv1.LabelFunctionName, "hello"),
		HaveKeyWithValue(functionv1.LabelManagedBy, functionv1.ManagedBy),
		HaveKeyWithValue(functionv1.LabelUUID, string(created.UID)),
	))
	w.Expect(j.OwnerReferences).To(HaveLen(1))
	w.Expect(j.OwnerReferences[0].UID).To(Equal(created.UID))
	plan, err := job.PlanOf(j)
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(plan).To(Equal(builder.Plan{
		Namespace: w.namespace, Name: "hello", Tree: tree, Runtime: "nodejs22",
		Base:       w.config.Registry.ForPush(w.functions.Runtimes["nodejs22"].Image),
		Recipe:     builder.Recipe,
		Repository: w.images.host + "/" + w.namespace + "/hello",
		Origin:     builder.Origin{URL: w.git.url, Commit: commit, BaseDir: "hello"},
	}))
	w.Expect(w.events.taken()).To(Equal([]string{
		"Normal SourceUpdated: found main@sha1:" + commit + ", tree " + tree,
		"Normal JobCreated: Job " + j.Name + " builds main@sha1:" + commit + ": First",
	}))

	// The queue admits it.
	_, err = w.queue.Reconcile(w.ctx, request)
	w.Expect(err).NotTo(HaveOccurred())
	j = w.job()
	w.Expect(*j.Spec.Suspend).To(BeFalse())
	w.started(j)
	pod := w.pod(j)
	fn, _ = w.pass("hello")
	w.expect(fn,
		"Ready False JobRunning: builds main@sha1:"+commit+": First",
		"Reconciling True JobRunning: builds",
		"ConfigurationReady True SourceUpdated: "+tree,
		"BuildReady Unknown JobRunning: builds",
		"Running Unknown DeploymentWaiting: there is no image yet",
	)

	// The image is there before the Pod ends: it rolls out at once.
	digest := w.pushes(j)
	fn, _ = w.pass("hello")
	w.expect(fn,
		"Ready False DeploymentWaiting: its controller has not looked yet",
		"Reconciling True DeploymentWaiting: its controller has not looked yet",
		"ConfigurationReady True SourceUpdated: "+tree,
		"BuildReady True JobFinished: image "+digest,
		"Running Unknown DeploymentWaiting: its controller has not looked yet",
	)
	w.Expect(fn.Status.History).To(HaveLen(1))
	entry := fn.Status.History[0]
	w.Expect(entry.BuiltAt.Time).To(BeTemporally("==", w.clock.Now()))
	w.Expect(entry.RolledOutAt).To(BeNil())
	entry.BuiltAt = nil
	w.Expect(entry).To(Equal(functionv1.HistoryEntry{
		Key: plan.Key(), Digest: digest, Revision: "main@sha1:" + commit, Commit: commit, Tree: tree,
		Runtime: "nodejs22", RuntimeImage: plan.Base, Author: "Ada Lovelace", Subject: "change 1", Why: "built: First",
	}))
	w.Expect(w.job().Name).To(Equal(j.Name), "its Pod has not told yet what it did")
	d := w.deployment("hello")
	image := pullAddress + "/" + w.namespace + "/hello@" + digest
	w.Expect(d.Spec.Template.Spec.Containers[0].Image).To(Equal(image))
	service := &corev1.Service{}
	w.Expect(w.client.Get(w.ctx, w.key("hello"), service)).To(Succeed())
	w.Expect(service.Spec.Selector).To(Equal(d.Spec.Selector.MatchLabels))

	// The Pod ends, the Deployment gets ready.
	w.ends(pod, builder.StagePush, builder.Report{Result: &builder.Result{Digest: digest, Cached: true}})
	w.rollsOut("hello")
	fn, result = w.pass("hello")
	w.serves(fn, "main@sha1:"+commit)
	w.Expect(result.RequeueAfter).To(BeNumerically("~", pollInterval, pollInterval/10))
	w.Expect(fn.Status.Image).To(Equal(image))
	w.Expect(fn.Status.Tree).To(Equal(tree))
	w.Expect(fn.Status.Runtime).To(Equal("nodejs22"))
	w.Expect(fn.Status.Replicas).To(Equal(int32(1)))
	w.Expect(fn.Status.PodSelector).To(ContainSubstring("function-name=hello"))
	w.Expect(fn.Status.Build.State).To(Equal(functionv1.BuildSucceeded))
	w.Expect(fn.Status.Build.DependenciesCached).To(BeTrue())
	w.Expect(fn.Status.Build.Job).To(BeEmpty())
	w.Expect(fn.Status.History[0].RolledOutAt).NotTo(BeNil())
	w.Expect(w.jobs()).To(BeEmpty())
	w.Expect(w.events.taken()).To(Equal([]string{
		"Normal JobFinished: image " + digest + " of main@sha1:" + commit + ", built: First",
		"Normal DeploymentCreated: Deployment hello is brought to main@sha1:" + commit,
		"Normal DeploymentReady: main@sha1:" + commit + " serves, image " + image,
	}))

	// From then on polls find nothing new, and write nothing.
	w.tap.taken()
	for range 3 {
		w.later(result.RequeueAfter)
		_, result = w.pass("hello")
		w.Expect(result.RequeueAfter).To(BeNumerically("~", pollInterval, pollInterval/10))
	}
	w.Expect(w.tap.taken()).To(BeEmpty())
	w.Expect(w.events.taken()).To(BeEmpty())
}

func TestCommitOutsideBaseDir(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.git.push("main", files{"hello/handler.js": handler, "README.md": "one"})
	w.function("hello")
	w.runs("hello")
	generation := w.deployment("hello").Generation

	second := w.git.push("main", files{"hello/handler.js": handler, "README.md": "two"})
	w.later(pollInterval)
	fn, _ := w.pass("hello")
	w.serves(fn, "main@sha1:"+second)
	w.Expect(fn.Status.Commit).To(Equal(second))
	w.Expect(fn.Status.History).To(HaveLen(1))
	w.Expect(fn.Status.History[0].Commit).To(Equal(first))
	w.Expect(w.deployment("hello").Generation).To(Equal(generation))
	w.Expect(w.tap.builds()).To(Equal(1))
}

func TestChangeAndRevert(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.git.push("main", files{"hello/handler.js": handler})
	w.function("hello")
	old := w.runs("hello").Status.Image

	second := w.git.push("main", files{"hello/handler.js": handler + "// two"})
	w.later(pollInterval)
	fn, _ := w.pass("hello")
	w.expect(fn,
		"Ready False JobCreated: main@sha1:"+second+" waits for a build slot",
		"Reconciling True JobCreated: waits",
		"ConfigurationReady True SourceUpdated: main@sha1:"+second,
		"BuildReady Unknown JobCreated: waits",
		"Running True DeploymentReady: serves main@sha1:"+first,
	)
	w.Expect(fn.Status.Build.Causes).To(Equal([]string{"Source"}))
	w.builds(w.job())
	fn, _ = w.pass("hello")
	w.Expect(fn.Status.Image).To(Equal(old), "the new image does not serve yet")
	w.rollsOut("hello")
	fn, _ = w.pass("hello")
	w.serves(fn, "main@sha1:"+second)
	w.Expect(fn.Status.Image).NotTo(Equal(old))
	w.Expect(fn.Status.History).To(HaveLen(2))

	third := w.git.push("main", files{"hello/handler.js": handler})
	w.later(pollInterval)
	w.pass("hello")
	w.rollsOut("hello")
	fn, _ = w.pass("hello")
	w.serves(fn, "main@sha1:"+third)
	w.Expect(fn.Status.Image).To(Equal(old))
	w.Expect(fn.Status.History).To(HaveLen(2))
	w.Expect(w.tap.builds()).To(Equal(2), "the revert builds nothing")
}

func TestPushWhileBuilding(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.git.push("main", files{"hello/handler.js": handler})
	w.function("hello")
	w.pass("hello")
	old := w.job()

	second := w.git.push("main", files{"hello/handler.js": handler + "// two"})
	w.later(pollInterval)
	w.pass("hello")
	plan, err := job.PlanOf(w.job())
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(plan.Origin.Commit).To(Equal(second))
	w.Expect(w.job().UID).NotTo(Equal(old.UID))
}

func TestPushWhileRollingOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.git.push("main", files{"hello/handler.js": handler})
	w.function("hello")
	w.runs("hello")
	w.git.push("main", files{"hello/handler.js": handler + "// two"})
	w.later(pollInterval)
	w.pass("hello")
	digest := w.builds(w.job())
	w.pass("hello")
	w.Expect(w.deployment("hello").Spec.Template.Spec.Containers[0].Image).To(HaveSuffix(digest))

	w.git.push("main", files{"hello/handler.js": handler + "// three"})
	w.later(pollInterval)
	w.pass("hello")
	w.Expect(w.deployment("hello").Spec.Template.Spec.Containers[0].Image).To(HaveSuffix(digest), "a build must not turn a rollout back")
}

func TestImageThatOnlyTheRegistryKnows(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.git.push("main", files{"hello/handler.js": handler})
	w.function("hello")
	w.pass("hello")
	waiting := w.job()
	digest := w.pushes(waiting) // by another cluster

	fn, _ := w.pass("hello")
	w.Expect(fn.Status.History[0].Digest).To(Equal(digest))
	w.Expect(w.jobs()).To(BeEmpty(), "a Job that waits for a slot is not needed any more")
}

func TestImageOfABuildThatFailed(t *testing.T) {
	t.Parallel()
	w := brokenWorld(t, false)
	j := w.job()
	w.pass("hello")
	w.pushes(j) // by another cluster
	w.later(pollInterval)
	fn, _ := w.pass("hello")
	w.Expect(fn.Status.Build).To(BeNil())
	w.Expect(fn.Status.History[0].Why).To(Equal("found in the registry"))
}

func TestJobThatEndsWithoutAWord(t *testing.T) {
	for _, row := range []struct {
		name, class, message string
		kind                 batchv1.JobConditionType
		reason               string
	}{
		{"the Pod is gone: NodeLost", "NodeLost", "gone without a word", batchv1.JobFailed, "BackoffLimitExceeded"},
		{"the deadline is over: Timeout", "Timeout", "longer than its deadline", batchv1.JobFailed, batchv1.JobReasonDeadlineExceeded},
		{"complete, and no image: RegistryUnavailable", "RegistryUnavailable", "the registry has none", batchv1.JobComplete, batchv1.JobReasonCompletionsReached},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.git.push("main", files{"hello/handler.js": handler})
			w.function("hello")
			w.pass("hello")
			j := w.job()
			w.admit(j)
			w.jobEnds(j, row.kind, row.reason)
			fn, _ := w.pass("hello")
			w.Expect(fn.Status.Build.Class).To(Equal(row.class))
			w.Expect(fn.Status.Build.Message).To(ContainSubstring(row.message))
			w.Expect(w.jobs()).To(BeEmpty())
		})
	}
}
