package e2e

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
)

// TestDelete takes a Function away that serves, and that builds its next version.
func TestDelete(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "delete")
	fn := newFunction("fn", inline(handler("one"), ""))
	generation := s.apply(fn)
	s.readyAt("fn", generation)
	s.answers("fn", "one")
	const kinds = "deployments,replicasets,services,horizontalpodautoscalers,jobs,configmaps,pods"
	selector := "--selector=" + functionv1.LabelFunctionName + "=fn"
	fn.Spec.Source.Inline.Dependencies = fmt.Sprintf(`{"name": "fn", "version": "1.0.0", "dependencies": {"lodash": "^4.17.21"}, "scripts": {"postinstall": %q}}`, sleeps(2*time.Minute))
	s.apply(fn)
	s.eventually(func(g Gomega) {
		g.Expect(s.jobsSeen("fn")).To(Equal(2))
		build := s.function("fn").Status.Build
		g.Expect(build).NotTo(BeNil())
		g.Expect(build.State).To(Equal(functionv1.BuildRunning))
	})
	s.g.Expect(s.kubectl("get", kinds, selector, "--output=name")).To(And(
		ContainSubstring("deployment"), ContainSubstring("service/"), ContainSubstring("job"), ContainSubstring("configmap/"), ContainSubstring("pod/")))
	s.kubectl("delete", "function", "fn")
	s.eventually(func(g Gomega) {
		left, err := kubectl(t.Context(), "", "--namespace", s.name, "get", kinds, selector, "--output=name")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(left).To(BeEmpty(), "what is left of the Function")
	})
	s.g.Expect(s.jobsSeen("fn")).To(Equal(2), "nothing is built after that")
}
