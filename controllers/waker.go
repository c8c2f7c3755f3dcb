package controllers

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
	"github.com/gitfn/gitfn/gitsource"
	"github.com/gitfn/gitfn/gitsource/receiver"
)

// hintSecretKey is the key of a Secret that push hints are verified with.
const hintSecretKey = "token"

// Waker turns hints into Functions to look at. It trusts no fact of a hint.
type Waker struct {
	client.Client
	// Live reads Secrets past the cache.
	Live   client.Reader
	Clock  clock.PassiveClock
	Config Config
	Hints  *Hints
	// Forget makes the next look at a repository ask its server: an answer that
	// was on its way when the hint came may be older than the push.
	Forget func(url string)
	// Wake receives the Functions to look at.
	Wake chan<- event.TypedGenericEvent[types.NamespacedName]
}

// Secret returns the key for hints of a namespace; it is a receiver.Secrets.
func (w *Waker) Secret(ctx context.Context, namespace, name string) ([]byte, error) {
	secret := &corev1.Secret{}
	err := w.Live.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, secret)
	if apierrors.IsNotFound(err) || err == nil && len(secret.Data[hintSecretKey]) == 0 {
		return nil, receiver.ErrNoSecret
	}
	return secret.Data[hintSecretKey], err
}

// Pushed wakes the Functions of a repository: those of the namespace whose
// Secret verified the hint, or all for a Secret of gitfn's own namespace.
func (w *Waker) Pushed(namespace string, push receiver.Push) {
	ctx, now := context.Background(), w.Clock.Now()
	seen := map[string]bool{}
	for _, url := range push.URLs {
		url, err := gitsource.NormalizeURL(url)
		if err != nil || seen[url] {
			continue
		}
		seen[url] = true
		w.Forget(url)
		options := []client.ListOption{client.MatchingFields{indexURL: url}}
		if namespace != w.Config.Namespace {
			options = append(options, client.InNamespace(namespace))
		}
		functions := &functionv1.FunctionList{}
		if err := w.List(ctx, functions, options...); err != nil {
			logf.Log.Error(err, "list Functions of a push hint")
			continue
		}
		for i := range functions.Items {
			fn := &functions.Items[i]
			if !follows(fn.Spec.Source.GitRepository.Reference, push.Refs) {
				continue
			}
			name := client.ObjectKeyFromObject(fn)
			w.Hints.Add(name, now)
			w.Wake <- event.TypedGenericEvent[types.NamespacedName]{Object: name}
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
			w.Wake <- event.TypedGenericEvent[types.NamespacedName]{Object: name}
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
