package controllers

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/fluxcd/pkg/runtime/conditions"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
	"github.com/gitfn/gitfn/builder"
	"github.com/gitfn/gitfn/builder/queue"
	"github.com/gitfn/gitfn/registry"
)

// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch

// reconcileBuild sees to an image for the revision: from the history, from the
// registry, or by a Job.
func (r *FunctionReconciler) reconcileBuild(ctx context.Context, s *scope) error {
	if err := r.makePlan(ctx, s); err != nil {
		return err
	}
	jobs, err := r.buildJobs(ctx, s.fn)
	if err != nil {
		return err
	}
	own := r.supersede(s, jobs)
	if s.entry = historyEntry(s.fn, s.plan.Key()); s.entry != nil {
		r.built(s)
		return r.tidyUp(ctx, s, own)
	}
	switch digest, err := r.Images.Digest(ctx, s.plan.Pin()); {
	case err == nil:
		return r.found(ctx, s, own, digest)
	case !errors.Is(err, registry.ErrNotFound):
		return r.registryFailed(s, fmt.Errorf("look for the image of tree %s: %w", s.plan.Tree, err))
	}
	if own != nil {
		return r.watchJob(ctx, s, own)
	}
	if err := r.mayBuild(ctx, s); err != nil {
		return err
	}
	return r.startJob(ctx, s)
}

// registryFailed says that the registry could not be asked, which is not the
// same as its having no image: nothing is built on the strength of it.
func (r *FunctionReconciler) registryFailed(s *scope, err error) error {
	class := builder.ClassRegistryUnavailable
	if errors.Is(err, registry.ErrAuth) {
		class = builder.ClassRegistryAuth
	}
	err = fmt.Errorf("%s: %w", class, err)
	conditions.MarkUnknown(s.fn, functionv1.BuildReady, functionv1.ReasonJobRunning, "%s", err)
	return err
}

// makePlan gathers what the image depends on.
func (r *FunctionReconciler) makePlan(ctx context.Context, s *scope) error {
	base, err := r.baseImage(ctx, s)
	if err != nil {
		return err
	}
	s.plan = builder.Plan{
		Namespace: s.fn.Namespace, Name: s.fn.Name,
		Tree: s.revision.Tree, Runtime: s.runtime.Name, Base: base,
		Recipe: builder.Recipe, Rebuild: s.fn.Annotations[functionv1.AnnotationRebuild],
		Repository: r.Config.Registry.Push + "/" + s.fn.Namespace + "/" + s.fn.Name,
	}
	if git := s.fn.Spec.Source.GitRepository; git != nil {
		wanted := selection(git)
		s.plan.Origin = builder.Origin{
			URL: git.URL, Commit: s.revision.Commit,
			BaseDir: wanted.BaseDir, Include: wanted.Include, Submodules: wanted.Submodules,
		}
	}
	return nil
}

// baseImage is the image to build on, by digest, as build Pods reach it. An
// override by tag is looked up: its digest is part of the key.
func (r *FunctionReconciler) baseImage(ctx context.Context, s *scope) (string, error) {
	override := s.fn.Spec.RuntimeImageOverride
	if override == "" {
		return r.Config.Registry.ForPush(s.runtime.Image), nil
	}
	base := r.Config.Registry.ForPush(override)
	if strings.Contains(base, "@sha256:") {
		return base, nil
	}
	digest, err := r.Images.Digest(ctx, base)
	if errors.Is(err, registry.ErrNotFound) {
		err = fmt.Errorf("spec.runtimeImageOverride: there is no image %s", override)
		conditions.MarkFalse(s.fn, functionv1.BuildReady, functionv1.ReasonJobFailed, "%s", err)
		return "", stalled(functionv1.ReasonJobFailed, err)
	}
	if err != nil {
		return "", r.registryFailed(s, fmt.Errorf("look for spec.runtimeImageOverride %s: %w", override, err))
	}
	return base + "@" + digest, nil
}

// built marks that there is an image.
func (r *FunctionReconciler) built(s *scope) {
	if build := s.fn.Status.Build; build != nil && (build.Key != s.plan.Key() || build.State == functionv1.BuildFailed) {
		s.fn.Status.Build = nil // it told of a build that nobody waits for
	}
	conditions.MarkTrue(s.fn, functionv1.BuildReady, functionv1.ReasonJobFinished, "image %s", s.entry.Digest)
}

// found writes an image that the registry holds into the history, and the
// history into the cluster, before anything rolls out.
func (r *FunctionReconciler) found(ctx context.Context, s *scope, own *batchv1.Job, digest string) error {
	if own != nil {
		if _, err := r.buildStatus(ctx, s, own); err != nil {
			return err
		}
	}
	now := metav1.NewTime(s.now)
	why := "found in the registry"
	build := s.fn.Status.Build
	if build != nil && build.Key == s.plan.Key() && build.State != functionv1.BuildFailed {
		why = "built: " + strings.Join(build.Causes, ", ")
		build.State, build.QueuePosition, build.EndedAt = functionv1.BuildSucceeded, 0, &now
		build.Class, build.Message, build.Output, build.NextTry = "", "", "", nil
	}
	before := s.fn.Status.History
	remember(s.fn, functionv1.HistoryEntry{
		Key: s.plan.Key(), Digest: digest,
		Revision: revisionName(s.revision), Commit: s.revision.Commit, Tree: s.plan.Tree,
		Runtime: s.runtime.Name, RuntimeImage: s.plan.Base,
		Author: s.revision.Author, Subject: s.revision.Subject,
		Why: why, BuiltAt: &now,
	})
	s.entry = historyEntry(s.fn, s.plan.Key())
	r.built(s)
	if err := r.tidyUp(ctx, s, own); err != nil {
		return err
	}
	if err := r.save(ctx, s); err != nil {
		// What the history does not hold must not roll out.
		s.entry, s.fn.Status.History = nil, before
		return err
	}
	r.event(s.fn, normal(functionv1.ReasonJobFinished, "Build", "image %s of %s, %s", digest, revisionName(s.revision), why))
	s.entry = historyEntry(s.fn, s.plan.Key())
	return nil
}

// tidyUp deletes the Job of a build whose image is there, once its Pod has told
// what it did.
func (r *FunctionReconciler) tidyUp(ctx context.Context, s *scope, own *batchv1.Job) error {
	if own == nil {
		return nil
	}
	outcome, err := r.outcome(ctx, own)
	if err != nil {
		return err
	}
	if outcome.Result == nil && outcome.Error == nil && !queue.Finished(own) && !queue.Waiting(own) {
		return nil // the Pod is about to end: its end wakes us
	}
	if build := s.fn.Status.Build; build != nil && build.Key == s.plan.Key() {
		build.Job = ""
		if outcome.Result != nil {
			build.DependenciesCached, build.Floating = outcome.Result.Cached, outcome.Result.Floating
		}
	}
	r.deleteJob(s, own)
	return nil
}
