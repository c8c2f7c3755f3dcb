package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
)

// newFunction is a Function of nodejs22.
func newFunction(name string, modify ...func(*functionv1.FunctionSpec)) *functionv1.Function {
	fn := &functionv1.Function{
		TypeMeta:   metav1.TypeMeta{APIVersion: functionv1.GroupVersion.String(), Kind: "Function"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       functionv1.FunctionSpec{Runtime: "nodejs22"},
	}
	for _, m := range modify {
		m(&fn.Spec)
	}
	return fn
}

// fromGit follows the branch main, with a look every two seconds.
func fromGit(url, baseDir string) func(*functionv1.FunctionSpec) {
	return func(spec *functionv1.FunctionSpec) {
		spec.Source = functionv1.Source{GitRepository: &functionv1.GitRepository{
			URL: url, BaseDir: baseDir, Reference: "main",
			Interval: &metav1.Duration{Duration: 2 * time.Second},
		}}
	}
}

func withInterval(interval time.Duration) func(*functionv1.FunctionSpec) {
	return func(spec *functionv1.FunctionSpec) {
		spec.Source.GitRepository.Interval = &metav1.Duration{Duration: interval}
	}
}

func withAuth(secret string) func(*functionv1.FunctionSpec) {
	return withAuthOf(functionv1.AuthBasic, secret)
}

func withAuthOf(kind functionv1.AuthType, secret string) func(*functionv1.FunctionSpec) {
	return func(spec *functionv1.FunctionSpec) {
		spec.Source.GitRepository.Auth = &functionv1.RepositoryAuth{Type: kind, SecretName: secret}
	}
}

func withReference(reference string) func(*functionv1.FunctionSpec) {
	return func(spec *functionv1.FunctionSpec) { spec.Source.GitRepository.Reference = reference }
}

func inline(source, dependencies string) func(*functionv1.FunctionSpec) {
	return func(spec *functionv1.FunctionSpec) {
		spec.Source = functionv1.Source{Inline: &functionv1.Inline{Source: source, Dependencies: dependencies}}
	}
}

func withBuildMemory(limit string) func(*functionv1.FunctionSpec) {
	return func(spec *functionv1.FunctionSpec) {
		spec.ResourceConfiguration = &functionv1.ResourceConfiguration{Build: &functionv1.ResourceRequirements{
			Resources: &corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("100Mi")},
				Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(limit)},
			},
		}}
	}
}

// handler is a handler that answers with a text.
func handler(answer string) string {
	return fmt.Sprintf("module.exports = { main: function (event, context) { return %q; } }\n", answer)
}

// apply applies a Function and returns its generation.
func (s *space) apply(fn *functionv1.Function) int64 {
	s.t.Helper()
	applied := decode[functionv1.Function](s.applyObject(fn))
	return applied.Generation
}

// function is a Function as seen last; the zero value if it is not there.
func (s *space) function(name string) functionv1.Function {
	fn, _ := lookUp[functionv1.Function](watched.functions, s.name, name)
	return fn
}

// deployment is the Deployment of a Function as seen last.
func (s *space) deployment(name string) appsv1.Deployment {
	d, _ := lookUp[appsv1.Deployment](watched.deployments, s.name, name)
	return d
}

// servingPods are the UIDs of the Pods of a Function that are not going.
func (s *space) servingPods(name string) (uids []string) {
	for _, pod := range present[corev1.Pod](watched.pods, s.name) {
		if pod.Labels[functionv1.LabelFunctionName] == name && pod.Labels[labelResource] != "build" && pod.DeletionTimestamp == nil {
			uids = append(uids, string(pod.UID))
		}
	}
	return uids
}

// jobsSeen counts the build Jobs that a Function ever had.
func (s *space) jobsSeen(name string) int {
	seen := map[string]bool{}
	for _, sighting := range watched.jobs.sightings(s.name) {
		if decode[batchv1.Job](sighting.raw).Labels[functionv1.LabelFunctionName] == name {
			seen[sighting.uid] = true
		}
	}
	return len(seen)
}

// replicaSets are the UIDs of the ReplicaSets that a Function ever had.
func (s *space) replicaSets(name string) (uids []string) {
	seen := map[string]bool{}
	for _, sighting := range watched.replicaSets.sightings(s.name) {
		if !seen[sighting.uid] && decode[appsv1.ReplicaSet](sighting.raw).Labels[functionv1.LabelFunctionName] == name {
			seen[sighting.uid] = true
			uids = append(uids, sighting.uid)
		}
	}
	return uids
}

// The conditions of a Function that runs what it should.
func beReady(g Gomega, fn functionv1.Function) {
	for _, kind := range []string{functionv1.ConfigurationReady, functionv1.BuildReady, functionv1.Running, "Ready"} {
		g.Expect(condition(fn, kind)).To(HavePrefix("True"), kind)
	}
	for _, kind := range []string{"Reconciling", "Stalled"} {
		g.Expect(meta.FindStatusCondition(fn.Status.Conditions, kind)).To(BeNil(), kind)
	}
}

// condition is a condition in one line: "True JobFinished: image …".
func condition(fn functionv1.Function, kind string) string {
	c := meta.FindStatusCondition(fn.Status.Conditions, kind)
	if c == nil {
		return "absent"
	}
	return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
}

// ready waits until a Function runs a commit of the branch main.
func (s *space) ready(name, commit string) functionv1.Function {
	s.t.Helper()
	return s.readyOn(name, "main", commit)
}

// readyOn waits until a Function runs a commit that it found by a reference.
func (s *space) readyOn(name, reference, commit string) functionv1.Function {
	s.t.Helper()
	began := time.Now()
	var fn functionv1.Function
	s.eventually(func(g Gomega) {
		fn = s.function(name)
		g.Expect(fn.Status.Commit).To(Equal(commit), "status.commit of %s", name)
		g.Expect(fn.Status.Revision).To(Equal(reference+"@sha1:"+commit), "status.revision of %s", name)
		beReady(g, fn)
	}, "Function %s/%s runs commit %s", s.name, name, commit)
	s.took(name+" runs "+commit[:7], began)
	return fn
}

// readyAt waits until a Function runs a generation of its spec.
func (s *space) readyAt(name string, generation int64) functionv1.Function {
	s.t.Helper()
	began := time.Now()
	var fn functionv1.Function
	s.eventually(func(g Gomega) {
		fn = s.function(name)
		g.Expect(fn.Status.ObservedGeneration).To(BeNumerically(">=", generation), "status.observedGeneration of %s", name)
		beReady(g, fn)
	}, "Function %s/%s runs generation %d", s.name, name, generation)
	s.took(fmt.Sprintf("%s runs generation %d", name, generation), began)
	return fn
}

// digest is what stands behind the @ of an image.
func digest(image string) string {
	_, digest, _ := strings.Cut(image, "@")
	return digest
}

// noJobs is what a namespace looks like when builds are over.
func (s *space) noJobs() {
	s.t.Helper()
	s.soon(time.Minute, func(g Gomega) {
		g.Expect(present[batchv1.Job](watched.jobs, s.name)).To(BeEmpty(), "Jobs left")
	})
	var list batchv1.JobList
	s.g.Expect(json.Unmarshal([]byte(s.kubectl("get", "jobs", "--output=json")), &list)).To(Succeed())
	s.g.Expect(list.Items).To(BeEmpty(), "Jobs left")
}
