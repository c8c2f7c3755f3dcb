package controllers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
	"github.com/gitfn/gitfn/builder"
	"github.com/gitfn/gitfn/builder/job"
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
		conditions.MarkUnknown(s.fn, functionv1.BuildReady, functionv1.ReasonJobRunning, "%s: %s", builder.ClassRegistryUnavailable, err)
		return fmt.Errorf("%s: look for the image of tree %s: %w", builder.ClassRegistryUnavailable, s.plan.Tree, err)
	}
	if own != nil {
		return r.watchJob(ctx, s, own)
	}
	if err := r.mayBuild(ctx, s); err != nil {
		return err
	}
	return r.startJob(ctx, s)
}

// makePlan gathers what the image depends on.
func (r *FunctionReconciler) makePlan(ctx context.Context, s *scope) error {
	base := s.runtime.Image
	if override := s.fn.Spec.RuntimeImageOverride; override != "" {
		if base = override; !strings.Contains(base, "@sha256:") {
			digest, err := r.Images.Digest(ctx, r.Config.Registry.ForPush(override))
			if err != nil {
				return fmt.Errorf("%s: look for runtimeImageOverride %s: %w", builder.ClassRegistryUnavailable, override, err)
			}
			base += "@" + digest
		}
	}
	s.plan = builder.Plan{
		Namespace: s.fn.Namespace, Name: s.fn.Name,
		Tree: s.revision.Tree, Runtime: s.runtime.Name, Base: r.Config.Registry.ForPush(base),
		Recipe: builder.Recipe, Rebuild: s.fn.Annotations[functionv1.AnnotationRebuild],
		Repository: r.Config.Registry.Push + "/" + s.fn.Namespace + "/" + s.fn.Name,
	}
	if git := s.fn.Spec.Source.GitRepository; git != nil {
		s.plan.Origin = builder.Origin{URL: git.URL, Commit: s.revision.Commit, BaseDir: git.BaseDir}
	}
	return nil
}

func (r *FunctionReconciler) buildJobs(ctx context.Context, fn *functionv1.Function) ([]batchv1.Job, error) {
	jobs := &batchv1.JobList{}
	if err := r.List(ctx, jobs, client.InNamespace(fn.Namespace), client.MatchingLabels{functionv1.LabelUUID: string(fn.UID)}); err != nil {
		return nil, fmt.Errorf("list build Jobs: %w", err)
	}
	return jobs.Items, nil
}

// supersede deletes the Jobs of other plans: nobody waits for them any more. It
// returns the Job of this plan, or nil.
func (r *FunctionReconciler) supersede(s *scope, jobs []batchv1.Job) *batchv1.Job {
	var own *batchv1.Job
	for i := range jobs {
		plan, err := job.PlanOf(&jobs[i])
		if err == nil && plan.Key() == s.plan.Key() && jobs[i].DeletionTimestamp.IsZero() {
			own = &jobs[i]
		} else {
			r.deleteJob(s, &jobs[i])
		}
	}
	return own
}

// deleteJob deletes a Job once the status is written, so that what it told is
// remembered before it goes.
func (r *FunctionReconciler) deleteJob(s *scope, j *batchv1.Job) {
	if !j.DeletionTimestamp.IsZero() {
		return
	}
	s.after = append(s.after, func(ctx context.Context) error {
		err := r.Delete(ctx, j, client.PropagationPolicy(metav1.DeletePropagationBackground), client.Preconditions{UID: &j.UID})
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return nil
		}
		return err
	})
}

// built marks that there is an image.
func (r *FunctionReconciler) built(s *scope) {
	if build := s.fn.Status.Build; build != nil && build.Key != s.plan.Key() {
		s.fn.Status.Build = nil // it told of a build that nobody waits for
	}
	conditions.MarkTrue(s.fn, functionv1.BuildReady, functionv1.ReasonJobFinished, "image %s", s.entry.Digest)
}

// found writes an image that the registry holds into the history, and the
// history into the cluster, before anything rolls out.
func (r *FunctionReconciler) found(ctx context.Context, s *scope, own *batchv1.Job, digest string) error {
	now := metav1.NewTime(s.now)
	why := "found in the registry"
	build := s.fn.Status.Build
	if build != nil && build.Key == s.plan.Key() && build.State != functionv1.BuildFailed {
		why = "built: " + strings.Join(build.Causes, ", ")
		build.State, build.QueuePosition, build.EndedAt = functionv1.BuildSucceeded, 0, &now
		build.Class, build.Message, build.Output, build.NextTry = "", "", "", nil
	}
	remember(s.fn, functionv1.HistoryEntry{
		Key: s.plan.Key(), Digest: digest,
		Revision: revisionName(s.revision), Commit: s.revision.Commit, Tree: s.plan.Tree,
		Runtime: s.runtime.Name, RuntimeImage: s.plan.Base,
		Author: s.revision.Author, Subject: s.revision.Subject,
		Why: why, BuiltAt: &now,
	})
	s.entry = historyEntry(s.fn, s.plan.Key())
	r.event(s.fn, normal(functionv1.ReasonJobFinished, "Build", "image %s of %s, %s", digest, revisionName(s.revision), why))
	r.built(s)
	if err := r.tidyUp(ctx, s, own); err != nil {
		return err
	}
	err := r.save(ctx, s)
	s.entry = historyEntry(s.fn, s.plan.Key())
	return err
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
	if outcome.Result == nil && outcome.Error == nil && !queue.Finished(own) {
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

// watchJob tells where the build is, and ends it when it has failed.
func (r *FunctionReconciler) watchJob(ctx context.Context, s *scope, own *batchv1.Job) error {
	build := r.buildStatus(s, own)
	outcome, err := r.outcome(ctx, own)
	if err != nil {
		return err
	}
	if outcome.Error != nil {
		return r.buildFailed(ctx, s, own, outcome.Error)
	}
	if refused := own.Annotations[queue.AnnotationRefused]; refused != "" && queue.Waiting(own) {
		build.State, build.QueuePosition = functionv1.BuildQueued, 0
		build.Class, build.Message = string(builder.ClassPodRefused), refused
		message := fmt.Sprintf("%s: %s", builder.ClassPodRefused, refused)
		if conditions.GetMessage(s.fn, functionv1.BuildReady) != message {
			r.event(s.fn, warning(functionv1.ReasonJobFailed, "Build", "%s", message))
		}
		conditions.MarkFalse(s.fn, functionv1.BuildReady, functionv1.ReasonJobFailed, "%s", message)
		return wait(0, functionv1.ReasonJobFailed, message)
	}
	build.Class, build.Message, build.Output, build.NextTry = "", "", "", nil
	if queue.Waiting(own) {
		return r.queued(s, own, build)
	}
	build.State, build.QueuePosition = functionv1.BuildRunning, 0
	message := fmt.Sprintf("builds %s: %s", revisionName(s.revision), strings.Join(build.Causes, ", "))
	conditions.MarkUnknown(s.fn, functionv1.BuildReady, functionv1.ReasonJobRunning, "%s", message)
	return wait(0, functionv1.ReasonJobRunning, message)
}

func (r *FunctionReconciler) queued(s *scope, own *batchv1.Job, build *functionv1.BuildStatus) error {
	build.State, build.QueuePosition = functionv1.BuildQueued, r.Queue.Of(client.ObjectKeyFromObject(own))
	message := fmt.Sprintf("%s waits for a build slot", revisionName(s.revision))
	if build.QueuePosition > 0 {
		message += fmt.Sprintf(", place %d", build.QueuePosition)
	}
	conditions.MarkUnknown(s.fn, functionv1.BuildReady, functionv1.ReasonJobCreated, "%s", message)
	return wait(0, functionv1.ReasonJobCreated, message)
}

// buildStatus is the status of this build; made anew from the Job where a
// restart came between the Job and the status.
func (r *FunctionReconciler) buildStatus(s *scope, own *batchv1.Job) *functionv1.BuildStatus {
	build := s.fn.Status.Build
	if build == nil || build.Key != s.plan.Key() || build.Job != own.Name {
		attempt := int32(1)
		if build != nil && build.Key == s.plan.Key() {
			attempt = build.Attempt + 1
		}
		build = &functionv1.BuildStatus{Key: s.plan.Key(), Attempt: attempt, Job: own.Name, Causes: r.causes(s), StartedAt: &own.CreationTimestamp}
		s.fn.Status.Build = build
	}
	return build
}

// buildFailed remembers a failure in the status; the Job goes after that.
func (r *FunctionReconciler) buildFailed(ctx context.Context, s *scope, own *batchv1.Job, failure *builder.StepError) error {
	secrets, err := r.buildSecrets(ctx, s.fn)
	if err != nil {
		return err
	}
	build := r.buildStatus(s, own)
	now := metav1.NewTime(s.now)
	build.State, build.QueuePosition, build.Job, build.EndedAt = functionv1.BuildFailed, 0, "", &now
	build.Class, build.Message, build.Output, build.Secrets = string(failure.Class), failure.Message, failure.Output, secrets
	build.NextTry = nil
	if failure.Class.Passing() {
		next := metav1.NewTime(s.now.Add(retryAfter(build.Attempt)))
		build.NextTry = &next
	}
	r.event(s.fn, warning(functionv1.ReasonJobFailed, "Build", "%s", failure))
	r.deleteJob(s, own)
	return r.failedBuild(s, build)
}

// failedBuild says how a remembered failure goes on.
func (r *FunctionReconciler) failedBuild(s *scope, build *functionv1.BuildStatus) error {
	message := fmt.Sprintf("%s: %s", build.Class, build.Message)
	if build.Output != "" {
		message += "\n" + build.Output
	}
	conditions.MarkFalse(s.fn, functionv1.BuildReady, functionv1.ReasonJobFailed, "%s", message)
	if build.NextTry != nil {
		return wait(max(build.NextTry.Sub(s.now), time.Millisecond), functionv1.ReasonJobFailed, message)
	}
	return stalled(functionv1.ReasonJobFailed, errors.New(message))
}

// mayBuild decides whether a Job may be made now: not for a key that failed for
// good, and not on the word of a cache that is behind.
func (r *FunctionReconciler) mayBuild(ctx context.Context, s *scope) error {
	live := &functionv1.Function{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(s.fn), live); err != nil {
		return fmt.Errorf("look at the Function past the cache: %w", err)
	}
	if live.UID != s.fn.UID || live.ResourceVersion != s.fn.ResourceVersion {
		return wait(100*time.Millisecond, functionv1.ReasonJobCreated, "the Function has just changed")
	}
	build := s.fn.Status.Build
	if build == nil || build.Key != s.plan.Key() || build.State != functionv1.BuildFailed {
		return nil
	}
	secrets, err := r.buildSecrets(ctx, s.fn)
	if err != nil {
		return err
	}
	if due := build.NextTry != nil && !s.now.Before(build.NextTry.Time); due || secrets != build.Secrets {
		return nil
	}
	return r.failedBuild(s, build)
}

// startJob writes the build as a suspended Job.
func (r *FunctionReconciler) startJob(ctx context.Context, s *scope) error {
	if err := r.ensureNamespace(ctx, s.fn.Namespace); err != nil {
		return err
	}
	options := r.jobOptions(s)
	if s.plan.Origin.Inline() {
		if err := r.apply(ctx, r.inlineConfigMap(s, options.InlineConfigMap)); err != nil {
			return err
		}
	}
	j := job.New(s.plan, options)
	if err := r.Create(ctx, j, client.FieldOwner(FieldOwner)); apierrors.IsAlreadyExists(err) {
		return wait(time.Second, functionv1.ReasonJobCreated, "the last build of this revision is being removed")
	} else if err != nil {
		return fmt.Errorf("create build Job: %w", err)
	}
	now, attempt := metav1.NewTime(s.now), int32(1)
	if build := s.fn.Status.Build; build != nil && build.Key == s.plan.Key() {
		attempt = build.Attempt + 1
	}
	build := &functionv1.BuildStatus{
		Key: s.plan.Key(), Attempt: attempt, Job: j.Name, Causes: r.causes(s), StartedAt: &now,
	}
	s.fn.Status.Build = build
	r.event(s.fn, normal(functionv1.ReasonJobCreated, "Build", "Job %s builds %s: %s", j.Name, revisionName(s.revision), strings.Join(build.Causes, ", ")))
	return r.queued(s, j, build)
}

// causes says why it builds, as against what serves.
func (r *FunctionReconciler) causes(s *scope) []string {
	var last builder.Plan
	if serving := servingEntry(s.fn); serving != nil {
		// What the history does not tell is taken as unchanged.
		last = s.plan
		last.Tree, last.Runtime, last.Base = serving.Tree, serving.Runtime, serving.RuntimeImage
	}
	var causes []string
	for _, change := range builder.Changes(last, s.plan) {
		causes = append(causes, string(change))
	}
	if len(causes) == 0 {
		causes = []string{string(builder.ChangeRebuild)}
	}
	return causes
}

func (r *FunctionReconciler) jobOptions(s *scope) job.Options {
	var profile string
	var own *corev1.ResourceRequirements
	if rc := s.fn.Spec.ResourceConfiguration; rc != nil && rc.Build != nil {
		profile, own = rc.Build.Profile, rc.Build.Resources
	}
	resources, profile := r.Config.BuildResources(profile, own)
	s.fn.Status.BuildResourceProfile = profile
	options := job.Options{
		BuilderImage:   r.Config.BuilderImage,
		InstallImage:   r.Config.Registry.ForPull(s.plan.Base),
		Owner:          *metav1.NewControllerRef(s.fn, functionv1.GroupVersion.WithKind("Function")),
		Labels:         buildLabels(s.fn),
		PullSecret:     SecretPull,
		PushSecret:     SecretPush,
		PackageSecret:  SecretPackages,
		ServiceAccount: ServiceAccount,
		HintURL:        r.Config.HintURL,
		AllowAddresses: r.Config.AllowAddresses,
		Resources:      resources,
		Timeouts:       r.Config.BuildTimeouts,
		PlainHTTP:      r.Config.Registry.PlainHTTP,
	}
	if len(r.Config.TrustBundle) > 0 {
		options.TrustBundle = ConfigMapTrust
	}
	switch git := s.fn.Spec.Source.GitRepository; {
	case git == nil:
		options.InlineConfigMap = s.fn.Name + "-" + s.plan.Key()[:10]
	case git.Auth != nil:
		options.GitSecret = git.Auth.SecretName
	}
	return options
}

// inlineConfigMap hands an inline source to its build. It goes with the Function.
func (r *FunctionReconciler) inlineConfigMap(s *scope, name string) *corev1.ConfigMap {
	inline := s.fn.Spec.Source.Inline
	return &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.fn.Namespace, Name: name, Labels: buildLabels(s.fn),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(s.fn, functionv1.GroupVersion.WithKind("Function"))},
		},
		Data:      map[string]string{"source": inline.Source, "dependencies": inline.Dependencies},
		Immutable: ptr.To(true),
	}
}

// outcome reads what the Pods of a build have told.
func (r *FunctionReconciler) outcome(ctx context.Context, j *batchv1.Job) (builder.Report, error) {
	pods := &corev1.PodList{}
	if err := r.List(ctx, pods, client.InNamespace(j.Namespace), client.MatchingLabels{batchv1.JobNameLabel: j.Name}); err != nil {
		return builder.Report{}, fmt.Errorf("list Pods of Job %s: %w", j.Name, err)
	}
	for i := range pods.Items {
		if owner := metav1.GetControllerOf(&pods.Items[i]); owner == nil || owner.UID != j.UID {
			continue
		}
		if result, failure := job.Outcome(&pods.Items[i]); result != nil || failure != nil {
			return builder.Report{Result: result, Error: failure}, nil
		}
	}
	for _, condition := range j.Status.Conditions {
		if condition.Type != batchv1.JobFailed || condition.Status != corev1.ConditionTrue {
			continue
		}
		if condition.Reason == batchv1.JobReasonDeadlineExceeded {
			return builder.Report{Error: &builder.StepError{Class: builder.ClassTimeout, Message: "the build took longer than its deadline"}}, nil
		}
		return builder.Report{Error: &builder.StepError{Class: builder.ClassNodeLost, Message: "the build's Pod is gone without a word: " + condition.Message}}, nil
	}
	return builder.Report{}, nil
}

// buildSecrets is a fingerprint of the Secrets that a build reads: their
// versions, not their content.
func (r *FunctionReconciler) buildSecrets(ctx context.Context, fn *functionv1.Function) (string, error) {
	names := []string{SecretPackages}
	if git := fn.Spec.Source.GitRepository; git != nil && git.Auth != nil {
		names = append(names, git.Auth.SecretName)
	}
	var versions []string
	for _, name := range names {
		secret := &metav1.PartialObjectMetadata{}
		secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
		err := r.Get(ctx, types.NamespacedName{Namespace: fn.Namespace, Name: name}, secret)
		if client.IgnoreNotFound(err) != nil {
			return "", fmt.Errorf("look at Secret %s: %w", name, err)
		}
		versions = append(versions, name+"@"+string(secret.UID)+"/"+secret.ResourceVersion)
	}
	return hashOf(versions), nil
}

// buildLabels are on the Jobs of a Function and on what they read.
func buildLabels(fn *functionv1.Function) map[string]string {
	return map[string]string{
		functionv1.LabelFunctionName: fn.Name,
		functionv1.LabelManagedBy:    functionv1.ManagedBy,
		functionv1.LabelUUID:         string(fn.UID),
		labelResource:                resourceBuild,
	}
}

// What a child is for.
const (
	labelResource      = "serverless.kyma-project.io/resource"
	resourceBuild      = "build"
	resourceDeployment = "deployment"
)
