package apitest

import (
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
	"github.com/gitfn/gitfn/builder"
	"github.com/gitfn/gitfn/gitsource"
)

// TestPasswordIsNowhere lets a password go through all that happens to a
// Function, good and bad, and looks for it in all that can be read afterwards.
func TestPasswordIsNowhere(t *testing.T) {
	t.Parallel()
	const canary = "c4n4ry+/p4ss"
	w := newWorld(t)
	var mu sync.Mutex
	var seen strings.Builder
	w.ctx = logf.IntoContext(w.ctx, funcr.New(func(prefix, args string) {
		mu.Lock()
		defer mu.Unlock()
		seen.WriteString(prefix + args + "\n")
	}, funcr.Options{Verbosity: 1})) // the most that the manager logs; from 8 on, client-go logs Secrets
	look := func() {
		if _, err := w.functions.Reconcile(w.ctx, ctrl.Request{NamespacedName: w.key("hello")}); err != nil {
			seen.WriteString(err.Error() + "\n")
		}
		if _, err := w.queue.Reconcile(w.ctx, request); err != nil {
			seen.WriteString(err.Error() + "\n")
		}
		for _, list := range []client.ObjectList{&functionv1.FunctionList{}, &corev1.ConfigMapList{}, &corev1.ServiceAccountList{}, &corev1.ServiceList{}, &corev1.EventList{}} {
			w.Expect(w.client.List(w.ctx, list, client.InNamespace(w.namespace))).To(Succeed())
			seen.WriteString(jsonOf(list))
		}
		seen.WriteString(jsonOf(w.jobs()) + strings.Join(w.events.taken(), "\n"))
	}

	w.git.push("main", files{"hello/handler.js": handler})
	w.secret("fn-git", map[string]string{"username": "ci", "password": canary})
	w.git.set(func(s *gitServer) { s.password = "another" })
	w.function("hello", withSecret("fn-git"))
	look() // refused
	w.git.set(func(s *gitServer) { s.password, s.broken = canary, true })
	w.later(pollInterval)
	look() // away
	w.git.set(func(s *gitServer) { s.broken = false })
	w.later(pollInterval)
	w.images.answer.Store(401)
	look()
	w.images.answer.Store(0)
	look()
	j := w.job()
	w.started(j)
	w.ends(w.pod(j), builder.StageFetch, builder.Report{Error: &builder.StepError{Class: builder.ClassGitAuth, Message: "refused"}})
	look()
	w.git.push("main", files{"hello/handler.js": handler + "// two"})
	w.later(pollInterval)
	look()
	j = w.job()
	w.started(j)
	w.ends(w.pod(j), builder.StagePush, reportOf(w.pushes(j)))
	look()
	w.rollsOut("hello")
	look()
	seen.WriteString(jsonOf(w.deployment("hello")))

	w.Expect(seen.String()).To(ContainSubstring("GitAuth"), "the test must see something")
	w.Expect(seen.String()).To(ContainSubstring("serves main@sha1:"))
	for _, form := range []string{canary, "c4n4ry", "Y2k6YzRuNHJ5" /* base64 of ci:c4n4ry */, "YzRuNHJ5" /* of c4n4ry */} {
		before, _, found := strings.Cut(seen.String(), form)
		w.Expect(found).To(BeFalse(), "%s after …%s", form, before[max(0, len(before)-300):])
	}
}

// TestNothingOfASecretIsTold puts a canary into every key of a Secret, for every kind.
func TestNothingOfASecretIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.git.push("main", files{"hello/handler.js": handler})
	w.git.set(func(s *gitServer) { s.password = "another" })
	all := map[string]string{}
	for _, key := range gitsource.SecretKeys() {
		all[key] = "c4n4ry-" + key
	}
	without := func(keys ...string) map[string]string {
		rest := maps.Clone(all)
		for _, key := range keys {
			delete(rest, key)
		}
		return rest
	}
	var seen strings.Builder
	for i, row := range []struct {
		kind functionv1.AuthType
		keys map[string]string
		says string
	}{
		{functionv1.AuthBasic, all, "tls.crt and tls.key are no certificate and its key"},
		{functionv1.AuthBasic, without("tls.crt", "tls.key"), "proxy cannot be used"},
		{functionv1.AuthBasic, without("tls.crt", "tls.key", "proxy"), "noProxy, but no key proxy"},
		{functionv1.AuthBasic, without("tls.crt", "tls.key", "proxy", "noProxy"), "CA bundle: it holds no certificate"},
		{functionv1.AuthBasic, without("tls.crt", "tls.key", "proxy", "noProxy", "ca.crt"), "user or token refused (401)"},
		{functionv1.AuthKey, without("tls.crt", "tls.key", "proxy", "noProxy"), "has key and ssh-privatekey, and they differ"},
		{functionv1.AuthKey, without("tls.crt", "tls.key", "proxy", "noProxy", "key"), "the Secret holds an SSH key, which serves ssh URLs only"},
		{functionv1.AuthGitHubApp, without("tls.crt", "tls.key", "proxy", "noProxy"), "githubAppInstallationID is no number"},
	} {
		name := fmt.Sprint("fn-", i)
		w.secret(name, row.keys)
		w.function(name, withSecret(name), func(fn *functionv1.Function) { fn.Spec.Source.GitRepository.Auth.Type = row.kind })
		fn, _ := w.pass(name)
		w.Expect(fn.Status.Source.Class).To(Equal("GitAuth"))
		w.Expect(jsonOf(fn.Status)).To(And(ContainSubstring(row.says), ContainSubstring("check Secret "+name)), name)
		seen.WriteString(jsonOf(fn) + strings.Join(w.events.taken(), "\n"))
	}
	w.Expect(seen.String()).NotTo(ContainSubstring("c4n4ry"))
}
