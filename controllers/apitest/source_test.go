package apitest

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
)

func TestCredentials(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.git.push("main", files{"hello/handler.js": handler})
	w.function("hello", withSecret("fn-git"))
	w.git.set(func(s *gitServer) { s.password = "right" })

	refused := func(message string) {
		t.Helper()
		fn, _ := w.pass("hello")
		w.expect(fn,
			"Ready False SourceUpdateFailed: GitAuth: ",
			"Stalled True SourceUpdateFailed: GitAuth: ",
			"ConfigurationReady False SourceUpdateFailed: "+message,
			"Running Unknown DeploymentWaiting: there is no image yet",
		)
		w.Expect(fn.Status.Conditions[0].Message).To(ContainSubstring("check Secret fn-git"))
		w.Expect(fn.Status.Source.Class).To(Equal("GitAuth"))
		w.Expect(w.events.taken()).To(ConsistOf(HavePrefix("Warning SourceUpdateFailed: GitAuth: ")))
		w.later(pollInterval)
		w.pass("hello")
		w.Expect(w.events.taken()).To(BeEmpty(), "nothing has changed")
	}
	refused("GitAuth: read credentials: there is no Secret fn-git in namespace " + w.namespace)
	w.secret("fn-git", map[string]string{"username": "ci"})
	refused("GitAuth: read credentials: the Secret has no key password")
	w.secret("fn-git", map[string]string{"username": "ci", "password": "wrong"})
	refused("GitAuth: ask " + w.git.url + ": user or token refused (401)")

	w.secret("fn-git", map[string]string{"username": "ci", "password": "right"})
	w.pass("hello")
	w.builds(w.job())
	w.pass("hello")
	w.rollsOut("hello")
	fn, _ := w.pass("hello")
	w.serves(fn, "main@sha1:"+fn.Status.Commit)
	w.Expect(fn.Status.Source).To(BeNil())
	generation := w.deployment("hello").Generation

	// A password that was changed takes nothing down.
	served := fn.Status.Revision
	w.git.set(func(s *gitServer) { s.password = "new" })
	w.later(pollInterval)
	fn, _ = w.pass("hello")
	w.expect(fn,
		"Ready False SourceUpdateFailed: GitAuth: ",
		"Stalled True SourceUpdateFailed: GitAuth: ",
		"ConfigurationReady False SourceUpdateFailed: GitAuth: ",
		"BuildReady True JobFinished: image",
		"Running True DeploymentReady: serves "+served,
	)
	w.Expect(w.deployment("hello").Generation).To(Equal(generation))
}

// TestTypesOfSecrets takes what kubectl create secret makes of a type, if it is of the right one.
func TestTypesOfSecrets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.git.push("main", files{"hello/handler.js": handler})
	w.git.set(func(s *gitServer) { s.password = "right" })
	w.typedSecret("basic", corev1.SecretTypeBasicAuth, map[string]string{"username": "ci", "password": "right"})
	w.typedSecret("ssh", corev1.SecretTypeSSHAuth, map[string]string{"ssh-privatekey": "PEM"})
	w.function("hello", withSecret("ssh"))
	fn, _ := w.pass("hello")
	w.expect(fn,
		"Ready False SourceUpdateFailed: GitAuth: ",
		"Stalled True SourceUpdateFailed: GitAuth: ",
		"ConfigurationReady False SourceUpdateFailed: GitAuth: read credentials: Secret ssh has type kubernetes.io/ssh-auth, which goes with auth.type key, not with basic",
		"Running Unknown DeploymentWaiting: there is no image yet",
	)
	w.change("hello", withSecret("basic"))
	w.pass("hello")
	w.builds(w.job())
	j := w.job()
	w.Expect(jsonOf(j)).To(And(ContainSubstring(`"--git-auth=basic"`), ContainSubstring(`"secretName":"basic"`)))
}

func TestSourceThatCannotBeRead(t *testing.T) {
	for _, row := range []struct {
		name, class, message string
		change               func(w *world, fn *functionv1.Function)
	}{
		{"no such branch", "RefNotFound", `resolve reference "gone"`, func(_ *world, fn *functionv1.Function) {
			fn.Spec.Source.GitRepository.Reference = "gone"
		}},
		{"no such directory", "RefNotFound", `find base directory "gone"`, func(_ *world, fn *functionv1.Function) {
			fn.Spec.Source.GitRepository.BaseDir = "gone"
		}},
		{"no such path to include", "RefNotFound", `find include "gone"`, func(_ *world, fn *functionv1.Function) {
			fn.Spec.Source.GitRepository.Include = []functionv1.Include{{Path: "gone"}}
		}},
		{"an include that collides", "SourceInvalid", `"handler.js" is there already`, func(_ *world, fn *functionv1.Function) {
			fn.Spec.Source.GitRepository.Include = []functionv1.Include{{Path: "hello/handler.js"}}
		}},
		{"an include that leads out", "SourceInvalid", `to "../x"`, func(_ *world, fn *functionv1.Function) {
			fn.Spec.Source.GitRepository.Include = []functionv1.Include{{Path: "hello", To: "../x"}}
		}},
		{"no such repository", "RefNotFound", "no such repository (404)", func(w *world, fn *functionv1.Function) {
			fn.Spec.Source.GitRepository.URL = strings.Replace(w.git.url, "fn.git", "gone.git", 1)
		}},
		{"a private repository and no Secret", "GitAuth", "name a Secret in spec.source.gitRepository.auth", func(w *world, _ *functionv1.Function) {
			w.git.set(func(s *gitServer) { s.password = "right" })
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.git.push("main", files{"hello/handler.js": handler})
			w.function("hello", func(fn *functionv1.Function) { row.change(w, fn) })
			fn, result := w.pass("hello")
			w.expect(fn,
				"Ready False SourceUpdateFailed: "+row.class,
				"Stalled True SourceUpdateFailed: "+row.class,
				"ConfigurationReady False SourceUpdateFailed: "+row.message,
				"Running Unknown DeploymentWaiting: there is no image yet",
			)
			w.Expect(fn.Status.ObservedGeneration).To(Equal(fn.Generation))
			w.Expect(fn.Status.Source.Class).To(Equal(row.class))
			w.Expect(result.RequeueAfter).To(BeNumerically("~", pollInterval, pollInterval/10))
			w.Expect(w.jobs()).To(BeEmpty())
		})
	}
}

func TestServerAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.git.push("main", files{"hello/handler.js": handler})
	w.function("hello")
	served := w.runs("hello").Status.Revision
	w.git.set(func(s *gitServer) { s.broken = true })
	w.later(pollInterval)
	fn, result := w.pass("hello")
	w.Expect(result.RequeueAfter).To(BeNumerically("~", 31*time.Second, 2*time.Second))
	w.expect(fn,
		"Ready False ProgressingWithRetry: SourceUnavailable: ",
		"Reconciling True ProgressingWithRetry: SourceUnavailable: ",
		"ConfigurationReady False SourceUpdateFailed: SourceUnavailable: ask "+w.git.url+": the server answers 503; "+served+" goes on serving",
		"BuildReady True JobFinished: image",
		"Running True DeploymentReady: serves "+served,
	)
	w.git.set(func(s *gitServer) { s.broken = false })
	w.later(pollInterval)
	fn, _ = w.pass("hello")
	w.serves(fn, served)
}

func TestSpecThatOnlyAChangeCures(t *testing.T) {
	for _, row := range []struct {
		name, message string
		change        func(fn *functionv1.Function)
	}{
		{"unknown runtime", `spec.runtime: there is no runtime "cobol" on this cluster; there are [nodejs20 nodejs22 nodejs24 nodejs26 python312 python313]`, func(fn *functionv1.Function) {
			fn.Spec.Runtime = "cobol"
		}},
		{"credentials in the URL", "spec.source.gitRepository.url: check URL: user information belongs into a Secret", func(fn *functionv1.Function) {
			fn.Spec.Source.GitRepository.URL = "https://ci:hunter2@git.example/fn.git"
		}},
		{"an option for SSH", "spec.source.gitRepository.url: check URL: a host or a path that begins with - is refused", func(fn *functionv1.Function) {
			fn.Spec.Source.GitRepository.URL = "git@git.example:--upload-pack=date"
		}},
		{"a schedule that is none", `spec.source.gitRepository.schedule: read schedule "TZ=UTC"`, func(fn *functionv1.Function) {
			fn.Spec.Source.GitRepository.Schedule = "TZ=UTC"
		}},
		{"a name that no Service may have", "metadata.name: Invalid value", func(fn *functionv1.Function) { fn.Name = "1.a" }},
		{"a label that is none", "spec.labels", func(fn *functionv1.Function) { fn.Spec.Labels = map[string]string{"a b": "c"} }},
		{"dependencies that are no JSON", "spec.source.inline.dependencies: Invalid value", func(fn *functionv1.Function) {
			fn.Spec.Source = functionv1.Source{Inline: &functionv1.Inline{Source: handler, Dependencies: "{"}}
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			name := w.function("hello", row.change).Name
			fn, result := w.pass(name)
			w.expect(fn,
				"Ready False InvalidFunctionSpec: "+row.message,
				"Stalled True InvalidFunctionSpec: "+row.message,
				"ConfigurationReady False InvalidFunctionSpec: "+row.message,
			)
			w.Expect(fn.Status.ObservedGeneration).To(Equal(fn.Generation))
			w.Expect(result.RequeueAfter).To(BeNumerically("~", pollInterval, pollInterval/10))
			events := w.events.taken()
			w.Expect(events).To(ConsistOf(ContainSubstring(row.message)))
			w.Expect(strings.Join(events, "")).NotTo(ContainSubstring("hunter2"))
			w.Expect(jsonOf(fn.Status)).NotTo(ContainSubstring("hunter2"))
			w.later(pollInterval)
			w.pass(name)
			w.Expect(w.events.taken()).To(BeEmpty())
		})
	}
}

func TestInvalidSpecLeavesWhatServes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.git.push("main", files{"hello/handler.js": handler})
	w.function("hello")
	served := w.runs("hello")
	generation := w.deployment("hello").Generation
	w.change("hello", func(fn *functionv1.Function) { fn.Spec.Runtime = "cobol" })
	fn, _ := w.pass("hello")
	w.expect(fn,
		"Ready False InvalidFunctionSpec: cobol",
		"Stalled True InvalidFunctionSpec: cobol",
		"ConfigurationReady False InvalidFunctionSpec: cobol",
		"BuildReady True JobFinished: image",
		"Running True DeploymentReady: serves "+served.Status.Revision,
	)
	w.Expect(w.deployment("hello").Generation).To(Equal(generation))
	w.change("hello", func(fn *functionv1.Function) { fn.Spec.Runtime = "nodejs22" })
	fn, _ = w.pass("hello")
	w.serves(fn, served.Status.Revision)
}

func TestRuntimeImageOverride(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.git.push("main", files{"hello/handler.js": handler})
	w.function("hello", func(fn *functionv1.Function) { fn.Spec.RuntimeImageOverride = pullAddress + "/own/base:1" })
	fn, _ := w.pass("hello")
	w.expect(fn,
		"Ready False JobFailed: spec.runtimeImageOverride: there is no image "+pullAddress+"/own/base:1",
		"Stalled True JobFailed: spec.runtimeImageOverride",
		"ConfigurationReady True SourceUpdated",
		"BuildReady False JobFailed: spec.runtimeImageOverride",
		"Running Unknown DeploymentWaiting: there is no image yet",
	)
	digest := w.images.push(w.images.host + "/own/base:1")
	fn = w.runs("hello")
	w.Expect(fn.Status.RuntimeImage).To(Equal(w.images.host + "/own/base:1@" + digest))
	w.Expect(fn.Status.RuntimeImageOverride).To(Equal(pullAddress + "/own/base:1"))
}
