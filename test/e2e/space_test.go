package e2e

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
)

// space is the namespace of one test.
type space struct {
	t    *testing.T
	g    *WithT
	name string
}

// newSpace makes a namespace that enforces Pod Security "restricted". It goes
// with the test, which tells what was in it if it has failed.
func newSpace(t *testing.T, name string) *space {
	t.Helper()
	s := &space{t: t, g: NewWithT(t), name: "e2e-" + name + "-" + strings.ToLower(rand.Text()[:5])}
	t.Cleanup(func() {
		if t.Failed() {
			s.dump()
		}
		_, _ = kubectl(t.Context(), "", "delete", "namespace", s.name, "--wait=false")
	})
	s.applyObject(map[string]any{
		"apiVersion": "v1", "kind": "Namespace",
		"metadata": map[string]any{"name": s.name, "labels": map[string]string{
			"pod-security.kubernetes.io/enforce":         "restricted",
			"pod-security.kubernetes.io/enforce-version": "latest",
		}},
	})
	return s
}

// kubectl runs kubectl on the cluster. The error holds what it complained about.
func kubectl(ctx context.Context, stdin string, args ...string) (string, error) {
	// Cleanups talk to the cluster too, when the test's context is over.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, facts.Kubectl, append([]string{"--kubeconfig", facts.Kubeconfig}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	var complaints strings.Builder
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		return string(out), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(complaints.String()))
	}
	return string(out), nil
}

// kubectl runs kubectl in the namespace, and must work.
func (s *space) kubectl(args ...string) string {
	s.t.Helper()
	out, err := kubectl(s.t.Context(), "", append([]string{"--namespace", s.name}, args...)...)
	s.g.Expect(err).NotTo(HaveOccurred())
	return out
}

// applyObject applies an object and returns what the cluster made of it.
func (s *space) applyObject(object any) []byte {
	s.t.Helper()
	text, err := json.Marshal(object)
	s.g.Expect(err).NotTo(HaveOccurred())
	out, err := kubectl(s.t.Context(), string(text), "--namespace", s.name, "apply", "--server-side", "--force-conflicts", "--field-manager=e2e", "--output=json", "--filename=-")
	s.g.Expect(err).NotTo(HaveOccurred())
	return []byte(out)
}

// secret writes a Secret.
func (s *space) secret(name string, data map[string]string) {
	s.t.Helper()
	s.secretOf(corev1.SecretTypeOpaque, name, data)
}

// secretOf writes a Secret of a type.
func (s *space) secretOf(kind corev1.SecretType, name string, data map[string]string) {
	s.t.Helper()
	s.applyObject(map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": kind,
		"metadata": map[string]any{"name": name}, "stringData": data,
	})
}

// secretValue reads a key of a Secret.
func (s *space) secretValue(name, key string) string {
	s.t.Helper()
	secret := decode[corev1.Secret](json.RawMessage(s.kubectl("get", "secret", name, "--output=json")))
	s.g.Expect(secret.Data).To(HaveKey(key), "Secret %s", name)
	return string(secret.Data[key])
}

// eventually is gomega's, with times for a machine of two cores that builds and
// runs everything: what is waited for comes much sooner as a rule.
func (s *space) eventually(check func(g Gomega), what ...any) {
	s.t.Helper()
	s.g.Eventually(check).WithTimeout(3*time.Minute).WithPolling(50*time.Millisecond).Should(Succeed(), what...)
}

// soon is for what must not take long.
func (s *space) soon(limit time.Duration, check func(g Gomega), what ...any) {
	s.t.Helper()
	s.g.Eventually(check).WithTimeout(limit).WithPolling(50*time.Millisecond).Should(Succeed(), what...)
}

// dump tells what is in the namespace, and what the manager said last.
func (s *space) dump() {
	ctx := s.t.Context()
	for _, args := range [][]string{
		{"get", "functions", "--output=yaml"},
		{"get", "pods,jobs,deployments,replicasets,services,configmaps", "--output=wide"},
		{"get", "events", "--sort-by=.metadata.creationTimestamp"},
		{"logs", "--selector=serverless.kyma-project.io/function-name", "--all-containers", "--prefix", "--tail=20", "--ignore-errors"},
		{"logs", "deployment/gitfn-manager", "--tail=60"},
	} {
		namespace := s.name
		if args[1] == "deployment/gitfn-manager" {
			namespace = system
		}
		out, err := kubectl(ctx, "", append([]string{"--namespace", namespace}, args...)...)
		if err != nil {
			out += err.Error()
		}
		s.t.Logf("--- kubectl --namespace %s %s\n%s", namespace, strings.Join(args, " "), out)
	}
}

// took logs how long a part of a test took.
func (s *space) took(what string, since time.Time) {
	s.t.Helper()
	s.t.Logf("%5.1fs  %s", time.Since(since).Seconds(), what)
}
