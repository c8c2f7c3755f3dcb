package apitest

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
	"github.com/gitfn/gitfn/builder"
	"github.com/gitfn/gitfn/controllers"
)

// brokenWorld is a world with a Function whose newest commit does not build.
func brokenWorld(t *testing.T, served bool) *world {
	w := newWorld(t)
	w.git.push("main", files{"hello/handler.js": handler})
	w.function("hello")
	if served {
		w.runs("hello")
		w.git.push("main", files{"hello/handler.js": "syntax error"})
		w.later(pollInterval)
	}
	w.pass("hello")
	w.fails(w.job(), builder.StageInstall, builder.ClassInstallFailed)
	return w
}

func TestBrokenCommitIsBuiltOnce(t *testing.T) {
	t.Parallel()
	w := brokenWorld(t, true)
	served := w.look("hello").Status.Revision
	fn, result := w.pass("hello")
	w.expect(fn,
		"Ready False JobFailed: InstallFailed: it went wrong\nnpm error 42",
		"Stalled True JobFailed: InstallFailed: it went wrong\nnpm error 42",
		"ConfigurationReady True SourceUpdated: main@",
		"BuildReady False JobFailed: InstallFailed: it went wrong\nnpm error 42",
		"Running True DeploymentReady: serves "+served,
	)
	w.Expect(fn.Status.ObservedGeneration).To(Equal(fn.Generation))
	w.Expect(fn.Status.Build.State).To(Equal(functionv1.BuildFailed))
	w.Expect(fn.Status.Build.Output).To(Equal("npm error 42"))
	w.Expect(fn.Status.Build.NextTry).To(BeNil())
	w.Expect(w.jobs()).To(BeEmpty(), "the status remembers, not the Job")
	w.Expect(w.events.taken()).To(ContainElement("Warning JobFailed: InstallFailed: it went wrong"))

	w.tap.taken()
	for over := w.clock.Now().Add(2 * time.Hour); w.clock.Now().Before(over); {
		w.Expect(result.RequeueAfter).To(BeNumerically("~", pollInterval, pollInterval/10))
		w.later(result.RequeueAfter)
		_, result = w.pass("hello")
	}
	w.Expect(w.tap.builds()).To(Equal(2), "the good one and the broken one")
	w.Expect(w.tap.taken()).To(BeEmpty())
	w.Expect(w.events.taken()).To(BeEmpty())

	w.git.push("main", files{"hello/handler.js": handler + "// mended"})
	w.later(result.RequeueAfter)
	w.pass("hello")
	w.builds(w.job())
	w.pass("hello")
	w.rollsOut("hello")
	fn, _ = w.pass("hello")
	w.serves(fn, "main@sha1:"+fn.Status.Commit)
}

func TestBrokenCommitIsTriedAgain(t *testing.T) {
	for _, row := range []struct {
		name    string
		change  func(w *world)
		attempt int32
	}{
		{"a Secret of the packages came: it builds", func(w *world) { w.secret(controllers.SecretPackages, map[string]string{".npmrc": "x"}) }, 2},
		{"the rebuild annotation came: it builds", func(w *world) {
			w.change("hello", func(fn *functionv1.Function) {
				fn.Annotations = map[string]string{functionv1.AnnotationRebuild: "now"}
			})
		}, 1}, // of another key
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			w := brokenWorld(t, false)
			w.pass("hello")
			w.later(pollInterval)
			w.pass("hello")
			w.Expect(w.jobs()).To(BeEmpty())
			row.change(w)
			w.later(pollInterval)
			fn, _ := w.pass("hello")
			w.Expect(fn.Status.Build.Attempt).To(Equal(row.attempt))
			w.builds(w.job())
			w.pass("hello")
			w.Expect(w.look("hello").Status.History).To(HaveLen(1))
		})
	}
}

// TestSecretMendedWhileBuilding wants that a change which the build did not see
// yet counts as one.
func TestSecretMendedWhileBuilding(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.git.push("main", files{"hello/handler.js": handler})
	w.function("hello")
	w.pass("hello")
	j := w.job()
	w.secret(controllers.SecretPackages, map[string]string{".npmrc": "x"})
	w.fails(j, builder.StageInstall, builder.ClassDependencyAuth)
	w.pass("hello")
	w.pass("hello")
	w.Expect(w.tap.builds()).To(Equal(2))
	w.fails(w.job(), builder.StageInstall, builder.ClassDependencyAuth)
	for range 5 {
		w.later(pollInterval)
		w.pass("hello")
	}
	w.Expect(w.tap.builds()).To(Equal(2))
}

func TestFailureThatPasses(t *testing.T) {
	for _, class := range []builder.Class{builder.ClassRegistryUnavailable, builder.ClassNodeLost} {
		t.Run(string(class), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.git.push("main", files{"hello/handler.js": handler})
			w.function("hello")
			w.pass("hello")
			for attempt, delay := range []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute} {
				w.fails(w.job(), builder.StagePush, class)
				fn, result := w.pass("hello")
				w.expect(fn,
					"Ready False JobFailed: "+string(class),
					"Reconciling True JobFailed: "+string(class),
					"ConfigurationReady True SourceUpdated",
					"BuildReady False JobFailed: "+string(class)+": it went wrong",
					"Running Unknown DeploymentWaiting: there is no image yet",
				)
				w.Expect(fn.Status.Build.Attempt).To(Equal(int32(attempt + 1)))
				w.Expect(fn.Status.Build.NextTry.Sub(w.clock.Now())).To(Equal(delay))
				w.Expect(result.RequeueAfter).To(BeNumerically("<=", delay))
				w.later(delay - time.Second)
				w.pass("hello")
				w.Expect(w.jobs()).To(BeEmpty())
				w.later(time.Second)
				w.pass("hello")
				w.Expect(w.tap.builds()).To(Equal(attempt + 2))
			}
			w.builds(w.job())
			fn, _ := w.pass("hello")
			w.Expect(fn.Status.Build.State).To(Equal(functionv1.BuildSucceeded))
			w.Expect(fn.Status.Build.NextTry).To(BeNil())
			w.Expect(fn.Status.Build.Class).To(BeEmpty())
		})
	}
}

func TestRegistryThatDoesNotSay(t *testing.T) {
	for _, row := range []struct {
		name   string
		answer int32
		class  string
	}{
		{"503: it could not be asked", 503, "RegistryUnavailable: look for the image of tree"},
		{"500: it could not be asked", 500, "RegistryUnavailable: look for the image of tree"},
		{"401: the credential was refused", 401, "RegistryAuth: look for the image of tree"},
		{"403: the credential was refused", 403, "RegistryAuth: look for the image of tree"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.git.push("main", files{"hello/handler.js": handler})
			w.function("hello")
			w.images.answer.Store(row.answer)
			for range 3 {
				fn, _ := w.failing("hello")
				w.expect(fn,
					"Ready False ProgressingWithRetry: "+row.class,
					"Reconciling True ProgressingWithRetry: "+row.class,
					"ConfigurationReady True SourceUpdated",
					"BuildReady Unknown JobRunning: "+row.class,
					"Running Unknown DeploymentWaiting: there is no image yet",
				)
			}
			w.Expect(w.jobs()).To(BeEmpty())
			w.images.answer.Store(0) // and it has no such image
			w.pass("hello")
			w.Expect(w.jobs()).To(HaveLen(1))
		})
	}
}

func TestRegistryAwayWhileServing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.git.push("main", files{"hello/handler.js": handler})
	w.function("hello")
	served := w.runs("hello").Status.Revision
	w.images.answer.Store(503)
	w.later(pollInterval)
	fn, _ := w.pass("hello") // what the history knows, nobody is asked for
	w.serves(fn, served)
	w.git.push("main", files{"hello/handler.js": handler + "// two"})
	w.later(pollInterval)
	fn, _ = w.failing("hello")
	w.expect(fn,
		"Ready False ProgressingWithRetry: RegistryUnavailable",
		"Reconciling True ProgressingWithRetry: RegistryUnavailable",
		"ConfigurationReady True SourceUpdated",
		"BuildReady Unknown JobRunning: RegistryUnavailable",
		"Running True DeploymentReady: serves "+served,
	)
}

// secret writes a Secret of the namespace, or its new content.
func (w *world) secret(name string, content map[string]string) {
	w.t.Helper()
	w.typedSecret(name, corev1.SecretTypeOpaque, content)
}

func (w *world) typedSecret(name string, kind corev1.SecretType, content map[string]string) {
	w.t.Helper()
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}, Type: kind, StringData: content}
	if err := w.client.Create(w.ctx, s); err != nil {
		w.Expect(w.client.Get(w.ctx, w.key(name), s)).To(Succeed())
		s.StringData = content
		w.Expect(w.client.Update(w.ctx, s)).To(Succeed())
	}
}
