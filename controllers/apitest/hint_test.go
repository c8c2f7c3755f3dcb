package apitest

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
	"github.com/gitfn/gitfn/builder/job"
	"github.com/gitfn/gitfn/gitsource"
	"github.com/gitfn/gitfn/gitsource/receiver"
)

// indexed is a client that finds Functions as the manager's cache does: by the
// index of their URLs, in one namespace or in all.
type indexed struct {
	client.Client
	functions []functionv1.Function
}

// List lists Functions.
func (x indexed) List(_ context.Context, l client.ObjectList, opts ...client.ListOption) error {
	options := client.ListOptions{}
	options.ApplyOptions(opts)
	url, _ := options.FieldSelector.RequiresExactMatch("source.url")
	for _, fn := range x.functions {
		if fn.Spec.Source.GitRepository == nil || options.Namespace != "" && options.Namespace != fn.Namespace {
			continue
		}
		if have, err := gitsource.NormalizeURL(fn.Spec.Source.GitRepository.URL); err == nil && have == url {
			l.(*functionv1.FunctionList).Items = append(l.(*functionv1.FunctionList).Items, fn)
		}
	}
	return nil
}

// woken returns the Functions that were woken, in order.
func (w *world) woken() (names []string) {
	w.waker.Flush(w.ctx)
	for len(w.wake) > 0 {
		name := (<-w.wake).Object
		names = append(names, name.Name)
	}
	slices.Sort(names)
	return names
}

// hook pushes a hint to the receiver and returns the answer's status.
func (w *world) hook(namespace, secret, key, url, ref string) int {
	w.t.Helper()
	body := fmt.Appendf(nil, `{"url": %q, "ref": %q}`, url, ref)
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write(body)
	r := httptest.NewRequest(http.MethodPost, "/hooks/generic/"+namespace+"/"+secret, bytes.NewReader(body))
	r.Header.Set("X-Gitfn-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	answer := httptest.NewRecorder()
	receiver.New(receiver.Options{Secrets: w.waker.Secret, Notify: w.waker.Pushed}).ServeHTTP(answer, r.WithContext(w.ctx))
	return answer.Code
}

func follow(url, reference string) func(*functionv1.Function) {
	return func(fn *functionv1.Function) {
		fn.Spec.Source.GitRepository.URL, fn.Spec.Source.GitRepository.Reference = url, reference
	}
}

func TestHints(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const url = "https://git.example/team/fn.git"
	functions := []functionv1.Function{
		*w.function("main", follow(url, "main")),
		*w.function("full", follow("https://GIT.example:443/team/fn", "refs/heads/main")),
		*w.function("head", follow(url, "HEAD")),
		*w.function("tag", follow(url, "v1")),
		*w.function("other", follow("https://git.example/team/other.git", "main")),
		*w.function("inline", inline(handler)),
	}
	elsewhere := functions[0]
	elsewhere.Namespace, elsewhere.Name = "elsewhere", "main-elsewhere"
	w.waker.Client = indexed{w.waker.Client, append(functions, elsewhere)}
	w.secret("hook", map[string]string{"token": "k3y"})

	for _, row := range []struct {
		name, key, url, ref string
		code                int
		want                []string
	}{
		{"a branch: those that follow it", "k3y", url, "refs/heads/main", 202, []string{"full", "head", "main"}},
		{"a tag: those that follow it", "k3y", url, "refs/tags/v1", 202, []string{"head", "tag"}},
		{"no reference: all of the repository", "k3y", url, "", 202, []string{"full", "head", "main", "tag"}},
		{"another form of the URL", "k3y", "git@git.example:team/fn.git", "refs/heads/main", 202, []string{"full", "head", "main"}},
		{"a repository that nobody follows", "k3y", "https://git.example/none.git", "", 202, nil},
		{"a wrong signature: nothing", "guess", url, "refs/heads/main", 401, nil},
	} {
		w.Expect(w.hook(w.namespace, "hook", row.key, row.url, row.ref)).To(Equal(row.code), row.name)
		w.Expect(w.woken()).To(Equal(row.want), row.name)
		w.later(time.Second)
	}
	w.Expect(w.hook(w.namespace, "gone", "k3y", url, "")).To(Equal(401))

	// A Secret of gitfn's own namespace wakes all.
	w.waker.Config.Namespace = w.namespace
	w.Expect(w.hook(w.namespace, "hook", "k3y", url, "refs/heads/main")).To(Equal(202))
	w.Expect(w.woken()).To(Equal([]string{"full", "head", "main", "main-elsewhere"}))
}

func TestHintBeforeTheServerKnows(t *testing.T) {
	t.Parallel()
	w, _ := servingWorld(t)
	w.later(time.Second)
	came := w.clock.Now()
	w.functions.Hints.Add(w.key("hello"), came)
	w.later(time.Millisecond)
	asked := w.git.refsRequests()
	for i, after := range []time.Duration{2 * time.Second, 5 * time.Second, 15 * time.Second} {
		_, result := w.pass("hello")
		w.Expect(w.git.refsRequests()).To(Equal(asked + i + 1))
		w.Expect(w.clock.Now().Add(result.RequeueAfter)).To(BeTemporally("==", came.Add(after)))
		w.later(result.RequeueAfter + time.Millisecond)
	}
	_, result := w.pass("hello")
	w.Expect(w.git.refsRequests()).To(Equal(asked + 4))
	w.Expect(result.RequeueAfter).To(BeNumerically(">", pollInterval/2), "then the poll has to find it")

	// A hint that shows something new is done with.
	w.functions.Hints.Add(w.key("hello"), w.clock.Now())
	w.later(time.Millisecond)
	w.git.push("main", files{"hello/handler.js": handler, "README.md": "two"})
	_, result = w.pass("hello")
	w.Expect(result.RequeueAfter).To(BeNumerically(">", pollInterval/2))
}

// TestThousandFunctionsOfOneRepository needs no Functions in the API server: it
// counts at the Git server.
func TestThousandFunctionsOfOneRepository(t *testing.T) {
	t.Parallel()
	const n = 1000
	w := newWorld(t)
	w.git.push("main", files{"hello/handler.js": handler})
	one := w.function("hello")
	w.functions.Client = interceptor.NewClient(w.client, interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
			fn, is := o.(*functionv1.Function)
			if !is {
				return apierrors.NewNotFound(corev1.Resource("any"), key.Name)
			}
			one.DeepCopyInto(fn)
			fn.Name = key.Name
			return nil
		},
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return nil },
		SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
			return nil
		},
	})
	w.images.answer.Store(http.StatusUnauthorized) // so that a pass ends after the source
	look := func() {
		for i := range n {
			_, err := w.try(fmt.Sprintf("fn-%03d", i))
			w.Expect(err).To(MatchError(HavePrefix("RegistryAuth")))
		}
	}
	look()
	w.Expect(w.git.refsRequests()).To(Equal(1), "those that are applied together ask once")
	conditions.MarkTrue(one, functionv1.ConfigurationReady, functionv1.ReasonSourceUpdated, "found")
	w.later(10 * time.Second)
	look()
	w.Expect(w.git.refsRequests()).To(Equal(1), "an answer serves for an interval")
	for i := range n {
		w.functions.Hints.Add(w.key(fmt.Sprintf("fn-%03d", i)), w.clock.Now())
	}
	w.later(time.Millisecond)
	look()
	w.Expect(w.git.refsRequests()).To(Equal(2), "those of one hint ask once")
}

// TestBuildsThatSayTheyHavePushed wakes who builds a pin right now, and nobody else.
func TestBuildsThatSayTheyHavePushed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.git.push("main", files{"hello/handler.js": handler})
	w.function("hello")
	w.pass("hello")
	plan, err := job.PlanOf(w.job())
	w.Expect(err).NotTo(HaveOccurred())
	for _, row := range []struct {
		name, method, body string
		code               int
		want               []string
	}{
		{"its pin", http.MethodPost, `{"pin": "` + plan.Pin() + `"}`, 202, []string{"hello"}},
		{"another key", http.MethodPost, `{"pin": "` + plan.Repository + `:0123"}`, 202, nil},
		{"another Function", http.MethodPost, `{"pin": "` + w.images.host + "/" + w.namespace + "/other:" + plan.Key() + `"}`, 202, nil},
		{"another registry", http.MethodPost, `{"pin": "evil.example/` + w.namespace + "/hello:" + plan.Key() + `"}`, 202, nil},
		{"no pin", http.MethodPost, `{}`, 202, nil},
		{"no JSON", http.MethodPost, `pin`, 400, nil},
		{"endless", http.MethodPost, `{"pin": "` + strings.Repeat("x", 5000) + `"}`, 400, nil},
		{"no push", http.MethodGet, ``, 405, nil},
	} {
		answer := httptest.NewRecorder()
		w.waker.Built().ServeHTTP(answer, httptest.NewRequest(row.method, "/built", strings.NewReader(row.body)))
		w.Expect(answer.Code).To(Equal(row.code), row.name)
		w.Expect(w.woken()).To(Equal(row.want), row.name)
	}
}
