package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
)

// killManager takes the manager's Pods away without a warning.
func (s *space) killManager() {
	s.t.Helper()
	_, err := kubectl(s.t.Context(), "", "--namespace", system, "delete", "pod",
		"--selector=app.kubernetes.io/component=manager", "--grace-period=0", "--force", "--wait=false")
	s.g.Expect(err).NotTo(HaveOccurred())
	s.t.Cleanup(s.managerIsBack)
}

// managerIsBack waits until the manager works: only the leader is in the
// Service of the hints.
func (s *space) managerIsBack() {
	s.soon(2*time.Minute, func(g Gomega) {
		response, err := once.Post(facts.HookURL, "application/json", strings.NewReader("{}"))
		g.Expect(err).NotTo(HaveOccurred())
		response.Body.Close()
		g.Expect(response.StatusCode).To(Equal(401))
	}, "the manager does not come back")
}

// withScript is a Function with a dependency of its own that has an install script.
func withScript(source, script string) map[string]string {
	return map[string]string{
		"handler.js":       source,
		"package.json":     `{"name": "fn", "version": "1.0.0", "dependencies": {"own": "file:./own"}}`,
		"own/package.json": fmt.Sprintf(`{"name": "own", "version": "1.0.0", "scripts": {"postinstall": %q}}`, script),
	}
}

// sleeps is an install script that takes its time.
func sleeps(d time.Duration) string {
	return fmt.Sprintf("node -e 'setTimeout(() => {}, %d)'", d.Milliseconds())
}

// slowStart answers after a start that takes some seconds.
func slowStart(answer string) string {
	return "Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 4000);\n" + handler(answer)
}

// TestManagerKilled kills the manager while a build runs and while a rollout does.
func TestManagerKilled(t *testing.T) {
	s := newSpace(t, "killed")
	repo, first := s.newRepository("fn", false, withScript(handler("one"), sleeps(4*time.Second)))
	s.apply(newFunction("fn", fromGit(repo.url, "/")))

	s.eventually(func(g Gomega) {
		build := s.function("fn").Status.Build
		g.Expect(build).NotTo(BeNil())
		g.Expect(build.State).To(Equal(functionv1.BuildRunning))
	})
	s.killManager()
	s.ready("fn", first)
	s.answers("fn", "one")
	s.g.Expect(s.jobsSeen("fn")).To(Equal(1), "nothing is built twice")
	s.noJobs()

	client := s.callSteadily("fn")
	before := s.deployment("fn").Generation
	second := repo.push("start slowly", map[string]string{"handler.js": slowStart("two")})
	s.eventually(func(g Gomega) { g.Expect(s.deployment("fn").Generation).To(BeNumerically(">", before)) })
	s.killManager()
	fn := s.ready("fn", second)
	s.answers("fn", "two")
	client.sawOnly(t, "one", "two")
	s.g.Expect(s.jobsSeen("fn")).To(Equal(2), "nothing is built twice")
	s.noJobs()
	s.g.Expect(s.replicaSets("fn")).To(HaveLen(2), "nothing is rolled out twice")
	s.g.Expect(fn.Status.History).To(HaveLen(2))
	for _, sighting := range watched.functions.sightings(s.name) {
		if build := decode[functionv1.Function](sighting.raw).Status.Build; build != nil {
			s.g.Expect(build.Attempt).To(BeNumerically("<=", 1))
		}
	}
}

// takeAway stops a part of gitfn, until the test is over or bringBack.
func (s *space) takeAway(deployment string) {
	s.t.Helper()
	s.t.Cleanup(func() { s.bringBack(deployment) })
	selector, err := kubectl(s.t.Context(), "", "--namespace", system, "get", "deployment", deployment,
		"--output=go-template={{range $k, $v := .spec.selector.matchLabels}}{{$k}}={{$v}},{{end}}")
	s.g.Expect(err).NotTo(HaveOccurred())
	_, err = kubectl(s.t.Context(), "", "--namespace", system, "scale", "deployment/"+deployment, "--replicas=0")
	s.g.Expect(err).NotTo(HaveOccurred())
	_, err = kubectl(s.t.Context(), "", "--namespace", system, "wait", "pod", "--selector="+strings.TrimSuffix(selector, ","), "--for=delete", "--timeout=90s")
	s.g.Expect(err).NotTo(HaveOccurred())
}

func (s *space) bringBack(deployment string) {
	s.t.Helper()
	_, err := kubectl(s.t.Context(), "", "--namespace", system, "scale", "deployment/"+deployment, "--replicas=1")
	s.g.Expect(err).NotTo(HaveOccurred())
	_, err = kubectl(s.t.Context(), "", "--namespace", system, "rollout", "status", "deployment/"+deployment, "--timeout=120s")
	s.g.Expect(err).NotTo(HaveOccurred())
}

// TestRegistryAway pushes while nobody can tell whether there is an image: that
// is no reason to build, and no reason to stop serving.
func TestRegistryAway(t *testing.T) {
	s := newSpace(t, "registry")
	repo, first := s.newRepository("fn", false, map[string]string{"handler.js": handler("one")})
	s.apply(newFunction("fn", fromGit(repo.url, "/")))
	s.ready("fn", first)
	s.answers("fn", "one")
	s.noJobs()
	client := s.callSteadily("fn")
	s.takeAway("serverless-docker-registry")

	second := repo.push("two", map[string]string{"handler.js": handler("two")})
	s.eventually(func(g Gomega) {
		fn := s.function("fn")
		g.Expect(fn.Status.Commit).To(Equal(second))
		g.Expect(condition(fn, functionv1.BuildReady)).To(ContainSubstring(": RegistryUnavailable: "))
		g.Expect(condition(fn, "Ready")).To(HavePrefix("False"))
	})
	s.g.Expect(s.jobsSeen("fn")).To(Equal(1), "nothing is built")
	began := time.Now()
	s.bringBack("serverless-docker-registry")
	s.ready("fn", second)
	s.took("runs since the registry is back", began)
	s.answers("fn", "two")
	client.sawOnly(t, "one", "two")
}

// TestServingNeedsNobody starts a Function's Pod anew while the manager and the
// Git server are away.
func TestServingNeedsNobody(t *testing.T) {
	s := newSpace(t, "alone")
	repo, commit := s.newRepository("fn", false, map[string]string{"handler.js": handler("alone")})
	s.apply(newFunction("fn", fromGit(repo.url, "/")))
	s.ready("fn", commit)
	s.answers("fn", "alone")
	pods := s.podsAtRest("fn")

	s.t.Cleanup(s.managerIsBack)
	s.t.Cleanup(func() { s.g.Expect(localcluster("start", "--name", *clusterName, "git")).To(Succeed()) })
	s.g.Expect(localcluster("stop", "--name", *clusterName, "git")).To(Succeed())
	_, err := once.Get(facts.GitHTTP + "/healthz")
	s.g.Expect(err).To(HaveOccurred(), "the Git server is away")
	s.eventually(func(g Gomega) {
		fn := s.function("fn")
		g.Expect(condition(fn, functionv1.ConfigurationReady)).To(HavePrefix("False SourceUpdateFailed: SourceUnavailable: "))
		g.Expect(condition(fn, functionv1.Running)).To(HavePrefix("True"), "it serves all the same")
	})
	s.takeAway("gitfn-manager")

	s.kubectl("delete", "pod", "--selector="+functionv1.LabelFunctionName+"=fn", "--wait=false")
	s.eventually(func(g Gomega) {
		g.Expect(s.servingPods("fn")).To(HaveLen(1))
		g.Expect(s.servingPods("fn")).NotTo(Equal(pods))
		g.Expect(s.deployment("fn").Status.ReadyReplicas).To(Equal(int32(1)))
	})
	s.answers("fn", "alone")
}
