package controllers

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
	"github.com/gitfn/gitfn/gitsource"
	"github.com/gitfn/gitfn/gitsource/receiver"
)

// Waker turns hints into Functions to look at. It trusts no fact of a hint. Hints
// are gathered and passed on by Start, so that whoever brings one never waits.
type Waker struct {
	client.Client
	// Live reads Secrets past the cache; Metadata tells whether they exist and have
	// changed, from what the manager watches anyway. Nil stands for Live.
	Live, Metadata client.Reader
	Clock          clock.WithTicker
	Config         Config
	Hints          *Hints
	// Forget makes the next look at a repository ask its server: an answer that
	// was on its way when the hint came may be older than the push.
	Forget func(url string)
	// Wake receives the Functions to look at.
	Wake chan<- event.TypedGenericEvent[types.NamespacedName]

	keys   hintKeys
	bursts bursts
}

// Secret returns the key for hints of a namespace; it is a receiver.Secrets.
func (w *Waker) Secret(ctx context.Context, namespace, name string) ([]byte, error) {
	metadata := w.Metadata
	if metadata == nil {
		metadata = w.Live
	}
	return w.keys.get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, metadata, w.Live, w.Clock.Now())
}

// Pushed notes a push for the Functions of a repository: those of the namespace
// whose Secret verified the hint, or all for a Secret of gitfn's own namespace.
// It tells whether there was room for it, and does not wait.
func (w *Waker) Pushed(namespace string, push receiver.Push) bool {
	if namespace == w.Config.Namespace {
		namespace = metav1.NamespaceAll
	}
	taken := true
	for _, url := range push.URLs {
		if url, err := gitsource.NormalizeURL(url); err == nil && len(url) <= longURL {
			taken = w.bursts.add(repository{namespace, url}, push.Refs) && taken
		}
	}
	return taken
}

// Start passes hints on until ctx ends. The controller manager calls it once it
// leads.
func (w *Waker) Start(ctx context.Context) error {
	timer := w.Clock.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.bursts.came():
		case <-timer.C():
		}
		timer.Reset(w.Flush(ctx))
	}
}

// Flush wakes the Functions whose hints are due, and returns when the next are.
func (w *Waker) Flush(ctx context.Context) time.Duration {
	now := w.Clock.Now()
	due, next := w.bursts.due(now)
	for at, refs := range due {
		w.wake(ctx, at, refs)
	}
	w.keys.drop(now)
	return min(next, keyLife)
}

// wake wakes the Functions that follow one of the refs of a repository; no refs
// stand for all.
func (w *Waker) wake(ctx context.Context, at repository, refs []string) {
	w.Forget(at.url)
	functions := &functionv1.FunctionList{}
	if err := w.List(ctx, functions, client.MatchingFields{indexURL: at.url}, client.InNamespace(at.namespace)); err != nil {
		logf.FromContext(ctx).Error(err, "list Functions of a push hint")
		return
	}
	now := w.Clock.Now()
	for i := range functions.Items {
		fn := &functions.Items[i]
		if !follows(fn.Spec.Source.GitRepository.Reference, refs) {
			continue
		}
		name := client.ObjectKeyFromObject(fn)
		w.Hints.Add(name, now)
		select {
		case w.Wake <- event.TypedGenericEvent[types.NamespacedName]{Object: name}:
		case <-ctx.Done():
			return
		}
	}
}

// follows reports whether a reference may be moved by a push to these refs. Better
// once too often than once too seldom: the server is asked anyway.
func follows(reference string, refs []string) bool {
	if len(refs) == 0 || reference == "" || reference == "HEAD" {
		return true
	}
	return slices.ContainsFunc(refs, func(ref string) bool {
		return reference == ref || "refs/"+reference == ref || "refs/heads/"+reference == ref || "refs/tags/"+reference == ref ||
			strings.HasPrefix(reference, "semver:") && strings.HasPrefix(ref, "refs/tags/")
	})
}

// Built is the endpoint where builds say that they have pushed. The body is
// {"pin": "…"}; what it names is looked up, so that a lie costs one look.
func (w *Waker) Built() http.Handler {
	return http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		var hint struct {
			Pin string `json:"pin"`
		}
		if request.Method != http.MethodPost {
			http.Error(writer, "use POST", http.StatusMethodNotAllowed)
			return
		}
		if err := json.NewDecoder(io.LimitReader(request.Body, 4096)).Decode(&hint); err != nil {
			http.Error(writer, "the body must be {\"pin\": \"…\"}", http.StatusBadRequest)
			return
		}
		if name, known := w.builds(request.Context(), hint.Pin); known {
			select {
			case w.Wake <- event.TypedGenericEvent[types.NamespacedName]{Object: name}:
			default: // it is found when the Job is seen to be complete
				http.Error(writer, "too many hints at once", http.StatusServiceUnavailable)
				return
			}
		}
		writer.WriteHeader(http.StatusAccepted)
	})
}

// builds finds the Function that builds a pin right now.
func (w *Waker) builds(ctx context.Context, pin string) (types.NamespacedName, bool) {
	path, found := strings.CutPrefix(pin, w.Config.Registry.Push+"/")
	repository, key, tagged := strings.Cut(path, ":")
	namespace, name, nested := strings.Cut(repository, "/")
	if !found || !tagged || !nested {
		return types.NamespacedName{}, false
	}
	fn, owner := &functionv1.Function{}, types.NamespacedName{Namespace: namespace, Name: name}
	if err := w.Get(ctx, owner, fn); err != nil || fn.Status.Build == nil {
		return owner, false
	}
	return owner, fn.Status.Build.Key == key
}
