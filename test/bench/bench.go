package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// namespace is where all is measured. It is removed at the end.
const namespace = "gitfn-bench"

// patience is how long any one thing is waited for.
const patience = 3 * time.Minute

// bench is a run.
type bench struct {
	client client.WithWatch
	facts  facts
	seen   *recorder
	stop   context.CancelFunc // of the watches
	source *repository        // of the Function without dependencies
	deps   *repository        // of those with
	// run is in what is built: gitfn would find in its registry what an
	// earlier run has built.
	run string

	buildJob *batchv1.Job // one that gitfn made: the floor takes its shape
	floorURL string

	samples   map[string][]time.Duration
	timelines map[string][][]moment
	asked     int            // requests during pushes and reverts
	failures  map[string]int // how many of them failed, by why
}

// open brings the cluster up and makes an empty namespace there.
func open(ctx context.Context, cluster string) (*bench, error) {
	f, err := up(ctx, cluster)
	if err != nil {
		return nil, err
	}
	b := &bench{
		facts: f, seen: newRecorder(), run: strconv.FormatInt(time.Now().UnixMilli(), 36),
		samples: map[string][]time.Duration{}, timelines: map[string][][]moment{}, failures: map[string]int{},
	}
	if b.client, err = connect(f); err != nil {
		return nil, err
	}
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	b.stop = stop
	if err := b.prepare(ctx, watching); err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

func (b *bench) prepare(ctx, watching context.Context) (err error) {
	if b.source, err = openRepository(ctx, b.facts, "source"); err != nil {
		return err
	}
	if b.deps, err = openRepository(ctx, b.facts, "dependencies"); err != nil {
		return err
	}
	if err := b.removeNamespace(ctx); err != nil {
		return err
	}
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: namespace, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}
	if err := b.client.Create(ctx, space); err != nil {
		return fmt.Errorf("create namespace %s: %w", namespace, err)
	}
	for _, list := range watched() {
		if err := b.seen.watch(watching, b.client, namespace, list); err != nil {
			return err
		}
	}
	return nil
}

// close removes what the run has made, also when it was interrupted.
func (b *bench) close() error {
	b.stop()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := b.removeNamespace(ctx)
	for _, r := range []*repository{b.source, b.deps} {
		if r != nil {
			err = errors.Join(err, r.close())
		}
	}
	return err
}

func (b *bench) removeNamespace(ctx context.Context) error {
	// The namespace controller would come back for a Pod after half of its grace
	// period, more than a minute later: so the Pods go first.
	functions := &unstructured.Unstructured{}
	functions.SetGroupVersionKind(functionKind)
	for _, kind := range []client.Object{functions, &appsv1.Deployment{}, &batchv1.Job{}} {
		err := b.client.DeleteAllOf(ctx, kind, client.InNamespace(namespace), client.PropagationPolicy(metav1.DeletePropagationBackground))
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("empty namespace %s: %w", namespace, err)
		}
	}
	if err := b.gone(ctx, nil); err != nil {
		return err
	}
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if err := b.client.Delete(ctx, space); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove namespace %s: %w", namespace, err)
	}
	return b.eventually(ctx, "namespace "+namespace+" to be gone", func() (bool, error) {
		err := b.client.Get(ctx, client.ObjectKeyFromObject(space), space)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
}

// gone waits until there are no Pods with labels.
func (b *bench) gone(ctx context.Context, with client.MatchingLabels) error {
	return b.eventually(ctx, fmt.Sprintf("the Pods %v of namespace %s to be gone", with, namespace), func() (bool, error) {
		pods := &corev1.PodList{}
		err := b.client.List(ctx, pods, client.InNamespace(namespace), with)
		return len(pods.Items) == 0, err
	})
}

// eventually asks four times a second; it is for what is not measured.
func (b *bench) eventually(ctx context.Context, what string, ask func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		done, err := ask()
		if done && err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("wait for %s: %w", what, ctx.Err()), err)
		case <-time.After(250 * time.Millisecond):
		}
	}
}

// settle waits until nothing goes on in the namespace any more, so that one
// sample does not pay for another's Pods that are going.
func (b *bench) settle(ctx context.Context) error {
	why := ""
	err := b.eventually(ctx, "the namespace to come to rest", func() (quiet bool, err error) {
		why, err = b.unrest(ctx)
		return why == "", err
	})
	if err != nil && why != "" {
		err = fmt.Errorf("%w: %s", err, why)
	}
	return err
}

// unrest says what still goes on in the namespace, or nothing.
func (b *bench) unrest(ctx context.Context) (string, error) {
	jobs, pods, deployments := &batchv1.JobList{}, &corev1.PodList{}, &appsv1.DeploymentList{}
	functions := watched()[0].(*unstructured.UnstructuredList)
	for _, list := range []client.ObjectList{jobs, pods, deployments, functions} {
		if err := b.client.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return "", err
		}
	}
	for _, j := range jobs.Items {
		return "Job " + j.Name + " is there", nil
	}
	for _, p := range pods.Items {
		if !ready(&p) || !p.DeletionTimestamp.IsZero() {
			return "Pod " + p.Name + " is coming or going", nil
		}
	}
	for _, d := range deployments.Items {
		if d.Status.ObservedGeneration != d.Generation || d.Status.UpdatedReplicas != d.Status.Replicas || d.Status.AvailableReplicas != *d.Spec.Replicas {
			return "Deployment " + d.Name + " is on its way", nil
		}
	}
	for i := range functions.Items {
		if !readyFunction(&functions.Items[i]) {
			return "Function " + functions.Items[i].GetName() + " is not Ready", nil
		}
	}
	return "", nil
}

// measure takes the samples, one of each row in turn.
func (b *bench) measure(ctx context.Context, samples int) error {
	if err := b.first(ctx); err != nil {
		return fmt.Errorf("prepare the measurement: %w", err)
	}
	for i := 1; i <= samples; i++ {
		began := time.Now()
		for _, row := range []struct {
			name string
			do   func(context.Context, int) error
		}{
			{rowJob, b.emptyJob},
			{rowRollout, b.emptyRollout},
			{rowPush, b.push},
			{rowRevert, b.revert},
			{rowInline, b.inline},
			{"build-deps", b.dependencies},
		} {
			if err := row.do(ctx, i); err != nil {
				return fmt.Errorf("%s, sample %d: %w", row.name, i, err)
			}
			if err := b.settle(ctx); err != nil {
				return fmt.Errorf("after %s, sample %d: %w", row.name, i, err)
			}
		}
		fmt.Fprintf(os.Stderr, "sample %d of %d of each row is taken (%.0fs)\n", i, samples, time.Since(began).Seconds())
	}
	return nil
}

func (b *bench) sample(row string, took time.Duration) {
	b.samples[row] = append(b.samples[row], took)
}

// moments notes when each of some sightings came, as far as it did.
type moments struct {
	b     *bench
	from  int
	start time.Time
	all   []moment
}

func (m *moments) at(name string, at time.Time) { m.all = append(m.all, moment{name, at.Sub(m.start)}) }

func (m *moments) saw(name string, matches match) (sighting, bool) {
	s, found := m.b.seen.find(m.from, matches)
	if found {
		m.at(name, s.at)
	}
	return s, found
}

// pod notes how a new Pod comes up.
func (m *moments) pod(what string, with map[string]string) {
	created, found := m.saw(what+" created", m.b.seen.new(m.from, that(with, there[*corev1.Pod])))
	if !found {
		return
	}
	pod := created.object.(*corev1.Pod)
	this := func(is func(*corev1.Pod) bool) match {
		return that(nil, func(p *corev1.Pod) bool { return p.UID == pod.UID && is(p) })
	}
	m.saw(what+" scheduled", this(scheduled))
	m.saw(what+" seen running", this(running))
	for _, container := range pod.Spec.Containers {
		m.saw(what+": "+container.Name+" seen ended", this(ended(container.Name)))
	}
	if pod.Spec.Containers[0].ReadinessProbe != nil {
		m.saw(what+" Ready", this(ready))
		m.saw(what+" in an EndpointSlice", serves(pod))
	}
}

// done keeps the moments as a row's timeline.
func (m *moments) done(row string) { m.b.timelines[row] = append(m.b.timelines[row], m.all) }
