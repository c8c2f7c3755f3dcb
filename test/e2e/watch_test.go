package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// watched are the kinds that are looked at all the time.
var watched = struct {
	functions, jobs, pods, deployments, replicaSets, events, configMaps *watch
}{
	newWatch("functions.serverless.kyma-project.io"), newWatch("jobs"), newWatch("pods"),
	newWatch("deployments"), newWatch("replicasets"), newWatch("events"), newWatch("configmaps"),
}

func allWatches() []*watch {
	w := watched
	return []*watch{w.functions, w.jobs, w.pods, w.deployments, w.replicaSets, w.events, w.configMaps}
}

// watch keeps what one kind of object was, in all namespaces.
type watch struct {
	kind string

	mu    sync.Mutex
	begun chan struct{}
	once  sync.Once
	log   []sighting
	// grown is closed when the log grows.
	grown chan struct{}
}

// sighting is one state of one object, as JSON.
type sighting struct {
	// gone is true for the last state of a deleted object.
	gone bool
	// forgotten marks that the watch began anew: what was there may have gone unseen.
	forgotten       bool
	namespace, name string
	uid             string
	raw             json.RawMessage
}

func newWatch(kind string) *watch {
	return &watch{kind: kind, begun: make(chan struct{}), grown: make(chan struct{})}
}

// startWatches watches until ctx ends, and returns when all kinds are seen.
func startWatches(ctx context.Context) error {
	for _, w := range allWatches() {
		go w.run(ctx)
	}
	for _, w := range allWatches() {
		select {
		case <-w.begun:
		case <-time.After(time.Minute):
			return fmt.Errorf("kubectl get %s --watch says nothing", w.kind)
		}
	}
	return nil
}

// run starts kubectl again when the API server has closed its watch.
func (w *watch) run(ctx context.Context) {
	for ctx.Err() == nil {
		w.follow(ctx)
		w.add(sighting{forgotten: true})
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func (w *watch) follow(ctx context.Context) {
	cmd := exec.CommandContext(ctx, facts.Kubectl, "--kubeconfig", facts.Kubeconfig,
		"get", w.kind, "--all-namespaces", "--watch", "--output-watch-events", "--output=json")
	out, err := cmd.StdoutPipe()
	if err != nil || cmd.Start() != nil {
		return
	}
	defer func() { _ = cmd.Wait() }()
	if w.kind == "functions.serverless.kyma-project.io" || w.kind == "jobs" {
		w.once.Do(func() { close(w.begun) }) // there may be none yet
	}
	for decoder := json.NewDecoder(out); ; {
		var event struct {
			Type   string
			Object json.RawMessage
		}
		if err := decoder.Decode(&event); err != nil {
			return
		}
		var object metav1.PartialObjectMetadata
		if err := json.Unmarshal(event.Object, &object); err != nil || object.Name == "" {
			continue
		}
		w.add(sighting{
			gone: event.Type == "DELETED", raw: event.Object,
			namespace: object.Namespace, name: object.Name, uid: string(object.UID),
		})
		w.once.Do(func() { close(w.begun) })
	}
}

func (w *watch) add(s sighting) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, s)
	close(w.grown)
	w.grown = make(chan struct{})
}

// after waits for what is seen after the first sightings, and returns how many
// there are then.
func (w *watch) after(ctx context.Context, first int) ([]sighting, int) {
	for {
		w.mu.Lock()
		news, count, grown := slices.Clone(w.log[first:]), len(w.log), w.grown
		w.mu.Unlock()
		if len(news) > 0 {
			return news, count
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return nil, first
		}
	}
}

// sightings are all states of objects of a namespace, oldest first; of all
// namespaces for an empty one.
func (w *watch) sightings(namespace string) []sighting {
	w.mu.Lock()
	defer w.mu.Unlock()
	if namespace == "" {
		return slices.Clone(w.log)
	}
	var all []sighting
	for _, s := range w.log {
		if s.namespace == namespace || s.forgotten {
			all = append(all, s)
		}
	}
	return all
}

// uids are the different objects of a namespace that were ever seen.
func (w *watch) uids(namespace string) (uids []string) {
	for _, s := range w.sightings(namespace) {
		if !s.forgotten && !slices.Contains(uids, s.uid) {
			uids = append(uids, s.uid)
		}
	}
	return uids
}

// saw reports whether a text was ever part of an object of the namespace.
func (w *watch) saw(namespace, text string) bool {
	for _, s := range w.sightings(namespace) {
		if bytes.Contains(s.raw, []byte(text)) {
			return true
		}
	}
	return false
}

// present decodes the objects of a namespace that are there, as seen last.
func present[T any](w *watch, namespace string) []T {
	var names []string
	last := map[string]json.RawMessage{}
	for _, s := range w.sightings(namespace) {
		switch {
		case s.forgotten:
			clear(last)
		case s.gone:
			delete(last, s.name)
		default:
			if !slices.Contains(names, s.name) {
				names = append(names, s.name)
			}
			last[s.name] = s.raw
		}
	}
	var all []T
	for _, name := range names {
		if raw, there := last[name]; there {
			all = append(all, decode[T](raw))
		}
	}
	return all
}

// lookUp decodes one object as seen last; false if it is not there.
func lookUp[T any](w *watch, namespace, name string) (object T, there bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range slices.Backward(w.log) {
		if s.forgotten {
			break
		}
		if s.namespace == namespace && s.name == name {
			if s.gone {
				break
			}
			return decode[T](s.raw), true
		}
	}
	return object, false
}

func decode[T any](raw json.RawMessage) (object T) {
	_ = json.Unmarshal(raw, &object) // it was JSON when it was seen
	return object
}

// mostAtOnce is the largest number of objects that ever counted at one time.
func mostAtOnce[T any](w *watch, counts func(T) bool) (most int) {
	counted := map[string]bool{}
	for _, s := range w.sightings("") {
		switch {
		case s.forgotten:
			clear(counted)
		case s.gone || !counts(decode[T](s.raw)):
			delete(counted, s.uid)
		default:
			counted[s.uid] = true
		}
		most = max(most, len(counted))
	}
	return most
}

// admitted reports whether a build Job has a slot and is not finished.
func admitted(job batchv1.Job) bool {
	if job.Labels[labelResource] != "build" || job.Spec.Suspend == nil || *job.Spec.Suspend {
		return false
	}
	for _, c := range job.Status.Conditions {
		if c.Status == corev1.ConditionTrue && (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) {
			return false
		}
	}
	return true
}

// building reports whether a build Pod has not ended.
func building(pod corev1.Pod) bool {
	return pod.Labels[labelResource] == "build" && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

const labelResource = "serverless.kyma-project.io/resource"
