package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pushed is the Function that pushes and reverts are measured with.
const pushed = "pushed"

const baseDir = "function"

func handler(answer string) map[string]string {
	return map[string]string{baseDir + "/handler.js": fmt.Sprintf("module.exports = { main: () => process.env.%s || %q };\n", envAnswer, answer)}
}

// first brings up the first version of the Function and, made from what gitfn
// made of it, the floors. What every machine does only once happens here.
func (b *bench) first(ctx context.Context) error {
	from := b.seen.mark()
	if err := b.source.commit(ctx, "first", handler(b.firstAnswer())); err != nil {
		return err
	}
	if _, err := b.source.push(ctx); err != nil {
		return err
	}
	if err := b.apply(ctx, pushed, gitSource(b.source)); err != nil {
		return err
	}
	job, err := b.seen.await(ctx, "a build Job of Function "+pushed, from, buildJob(pushed, func(*batchv1.Job) bool { return true }))
	if err != nil {
		return err
	}
	b.buildJob = job.object.(*batchv1.Job)
	if _, err := b.readyAfter(ctx, from, pushed); err != nil {
		return err
	}
	deployment := &appsv1.Deployment{}
	if err := b.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: pushed}, deployment); err != nil {
		return fmt.Errorf("read the Deployment of Function %s: %w", pushed, err)
	}
	for _, object := range []client.Object{floorService(), floorDeployment(deployment)} {
		if err := b.client.Create(ctx, object); err != nil {
			return fmt.Errorf("create the floor of a rollout: %w", err)
		}
	}
	if b.floorURL, err = b.urlAfter(ctx, from, floorName); err != nil {
		return err
	}
	if _, err := poll(ctx, b.floorURL, "floor"); err != nil {
		return err
	}
	return b.settle(ctx)
}

func (b *bench) firstAnswer() string { return "run " + b.run }

// push pushes a changed handler and waits for its answer. It is a sample of a
// build without dependencies, too.
func (b *bench) push(ctx context.Context, sample int) error {
	want := fmt.Sprintf("push %d of run %s", sample, b.run)
	if err := b.source.commit(ctx, want, handler(want)); err != nil {
		return err
	}
	from, start, err := b.answers(ctx, rowPush, want)
	if err != nil {
		return err
	}
	build, err := b.build(ctx, from, pushed)
	if err != nil {
		return err
	}
	b.sample(rowNoDeps, build.took())
	m := &moments{b: b, from: from, start: build.admitted}
	m.build(build)
	m.done(rowNoDeps)

	last := &b.timelines[rowPush][len(b.timelines[rowPush])-1]
	m = &moments{b: b, from: from, start: start, all: *last}
	m.at("Job un-suspended", build.admitted)
	m.build(build)
	*last = m.all
	return nil
}

// revert takes the last push back and waits for the old answer.
func (b *bench) revert(ctx context.Context, _ int) error {
	if err := b.source.git(ctx, "revert", "--no-edit", "HEAD"); err != nil {
		return err
	}
	from, _, err := b.answers(ctx, rowRevert, b.firstAnswer())
	if err != nil {
		return err
	}
	if job, built := b.seen.find(from, b.seen.new(from, buildJob(pushed, there[*batchv1.Job]))); built {
		return fmt.Errorf("a revert must build nothing, but Job %s was made", job.object.GetName())
	}
	return nil
}

// answers pushes what is committed and waits for the answer: a sample of a row.
func (b *bench) answers(ctx context.Context, row, want string) (from int, start time.Time, err error) {
	url, err := b.urlAfter(ctx, 0, pushed)
	if err != nil {
		return 0, time.Time{}, err
	}
	from = b.seen.mark()
	if start, err = b.source.push(ctx); err != nil {
		return from, start, err
	}
	if err := b.source.hint(ctx); err != nil {
		return from, start, err
	}
	hinted := time.Now()
	answered, err := poll(ctx, url, want)
	if err != nil {
		return from, start, err
	}
	b.asked += answered.asked
	for why, times := range answered.failures {
		b.failures[why] += times
	}
	b.sample(row, answered.at.Sub(start))
	m := &moments{b: b, from: from, start: start}
	m.at("hint taken", hinted)
	m.rollout(pushed)
	m.at("first answer", answered.at)
	m.done(row)
	return from, start, nil
}

// inline applies a new inline Function and waits for its answer.
func (b *bench) inline(ctx context.Context, sample int) error {
	name, want := fmt.Sprintf("inline-%d", sample), fmt.Sprintf("inline %d of run %s", sample, b.run)
	source := map[string]any{"inline": map[string]any{"source": fmt.Sprintf("module.exports = { main: () => %q };", want)}}
	from, start := b.seen.mark(), time.Now()
	if err := b.apply(ctx, name, source); err != nil {
		return err
	}
	applied := time.Now()
	url, err := b.urlAfter(ctx, from, name)
	if err != nil {
		return err
	}
	answered, err := poll(ctx, url, want)
	if err != nil {
		return err
	}
	b.sample(rowInline, answered.at.Sub(start))
	build, err := b.build(ctx, from, name)
	if err != nil {
		return err
	}
	m := &moments{b: b, from: from, start: start}
	m.at("kubectl apply is done", applied)
	m.at("Job un-suspended", build.admitted)
	m.build(build)
	m.rollout(name)
	m.at("first answer", answered.at)
	m.done(rowInline)
	return b.remove(ctx, from, name)
}

// manifest has two dependencies. They have no lock file, as Functions in the
// wild have none.
const manifest = `{"name": "bench", "version": "1.0.0", "dependencies": {"lodash": "^4.17.21", "axios": "^1.7.0"}}`

func handlerWithDependencies(answer string) string {
	return fmt.Sprintf("const _ = require('lodash');\nconst axios = require('axios');\nmodule.exports = { main: () => _.join([%q, typeof axios.get], ' ') };\n", answer)
}

// dependencies builds a new Function with dependencies, which no cache holds
// since a layer belongs to one Function, and then changes its handler.
func (b *bench) dependencies(ctx context.Context, sample int) error {
	name, from := fmt.Sprintf("dependencies-%s-%d", b.run, sample), b.seen.mark()
	for _, version := range []struct {
		row    string
		cached bool
	}{{rowDepsCold, false}, {rowDepsWarm, true}} {
		from := b.seen.mark()
		text := handlerWithDependencies(fmt.Sprintf("%s %d of run %s", version.row, sample, b.run))
		if err := b.deps.commit(ctx, version.row, map[string]string{baseDir + "/handler.js": text, baseDir + "/package.json": manifest}); err != nil {
			return err
		}
		if _, err := b.deps.push(ctx); err != nil {
			return err
		}
		follow := func() error { return b.apply(ctx, name, gitSource(b.deps)) }
		if version.cached {
			follow = func() error { return b.deps.hint(ctx) }
		}
		if err := follow(); err != nil {
			return err
		}
		build, err := b.build(ctx, from, name)
		if err != nil {
			return err
		}
		told, err := b.seen.await(ctx, "the outcome of Job "+build.job, from, aFunction(name, tidied(build.job)))
		if err != nil {
			return b.explain(ctx, name, err)
		}
		if got := cached(told.object.(*unstructured.Unstructured)); got != version.cached {
			return fmt.Errorf("%s: status.build.dependenciesCached is %t, not %t", version.row, got, version.cached)
		}
		b.sample(version.row, build.took())
		m := &moments{b: b, from: from, start: build.admitted}
		m.build(build)
		m.done(version.row)
		if err := b.settle(ctx); err != nil {
			return err
		}
	}
	return b.remove(ctx, from, name)
}

// build is one that has ended well: when its Job was un-suspended, and when the
// manager knew the digest.
type build struct {
	function, job   string
	admitted, known time.Time
}

func (b build) took() time.Duration { return b.known.Sub(b.admitted) }

// build waits for the build of a Function that begins after a mark.
func (b *bench) build(ctx context.Context, from int, function string) (build, error) {
	start, err := b.seen.await(ctx, "a build Job of Function "+function+" to be un-suspended", from, b.seen.new(from, buildJob(function, admitted)))
	if err != nil {
		return build{}, b.explain(ctx, function, err)
	}
	job := start.object.GetName()
	end, err := b.seen.await(ctx, "the digest of Job "+job+" in status.history", from, aFunction(function, knowsDigest(job)))
	if err != nil {
		return build{}, b.explain(ctx, function, err)
	}
	return build{function, job, start.at, end.at}, nil
}

// build notes how a build goes, from its un-suspending on.
func (m *moments) build(made build) {
	m.saw("Job created", m.b.seen.new(m.from, buildJob(made.function, there[*batchv1.Job])))
	m.saw("Job seen suspended by its controller", m.b.seen.new(m.from, buildJob(made.function, jobHas(batchv1.JobSuspended))))
	m.pod("build Pod", map[string]string{labelFunction: made.function, labelResource: "build"})
	m.at("digest in status.history", made.known)
}

// rollout notes how the Deployment and its Pod change.
func (m *moments) rollout(function string) {
	pods := map[string]string{labelFunction: function, labelResource: "deployment"}
	m.saw("Deployment changed", that(map[string]string{labelFunction: function}, there[*appsv1.Deployment]))
	m.pod("Function's Pod", pods)
}

func buildJob(function string, is func(*batchv1.Job) bool) match {
	return that(map[string]string{labelFunction: function, labelResource: "build"}, is)
}

func gitSource(r *repository) map[string]any {
	return map[string]any{"gitRepository": map[string]any{"url": r.url, "reference": "main", "baseDir": baseDir}}
}

// apply applies a Function, as a user does.
func (b *bench) apply(ctx context.Context, name string, source map[string]any) error {
	fn := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"runtime": "nodejs22", "source": source}}}
	fn.SetGroupVersionKind(functionKind)
	fn.SetNamespace(namespace)
	fn.SetName(name)
	text, err := fn.MarshalJSON()
	if err != nil {
		return err
	}
	return b.facts.kubectl(ctx, string(text), "apply", "-f", "-")
}

// remove deletes a Function. What it leaves is waited for by settle.
func (b *bench) remove(ctx context.Context, from int, name string) error {
	if _, err := b.readyAfter(ctx, from, name); err != nil {
		return err
	}
	fn := &unstructured.Unstructured{}
	fn.SetGroupVersionKind(functionKind)
	fn.SetNamespace(namespace)
	fn.SetName(name)
	if err := b.client.Delete(ctx, fn); err != nil {
		return fmt.Errorf("delete Function %s: %w", name, err)
	}
	return b.gone(ctx, client.MatchingLabels{labelFunction: name})
}

func (b *bench) readyAfter(ctx context.Context, from int, name string) (sighting, error) {
	s, err := b.seen.await(ctx, "Function "+name+" to be Ready", from, aFunction(name, readyFunction))
	if err != nil {
		err = b.explain(ctx, name, err)
	}
	return s, err
}

// urlAfter is where a Service answers that is seen after a mark.
func (b *bench) urlAfter(ctx context.Context, from int, service string) (string, error) {
	s, err := b.seen.await(ctx, "Service "+service, from, that(nil, func(s *corev1.Service) bool { return s.Name == service && s.Spec.ClusterIP != "" }))
	if err != nil {
		return "", b.explain(ctx, service, err)
	}
	return "http://" + s.object.(*corev1.Service).Spec.ClusterIP + "/", nil
}

// explain adds what a Function says of itself.
func (b *bench) explain(ctx context.Context, function string, err error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	says, getErr := command(ctx, "", "", b.facts.Kubectl, "--kubeconfig", b.facts.Kubeconfig, "-n", namespace, "get", "function", function, "-o", "wide")
	if getErr != nil {
		return err
	}
	return errors.Join(err, errors.New(says))
}
