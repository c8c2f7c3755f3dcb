package controllers

import (
	"context"
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
	"github.com/gitfn/gitfn/builder"
	"github.com/gitfn/gitfn/builder/job"
)

func (r *FunctionReconciler) buildJobs(ctx context.Context, fn *functionv1.Function) ([]batchv1.Job, error) {
	jobs := &batchv1.JobList{}
	if err := r.List(ctx, jobs, r.childrenOf(fn.Namespace, fn.Name, map[string]string{functionv1.LabelUUID: string(fn.UID)})...); err != nil {
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

// deleteJob deletes a Job, and the inline source that it read, once the status
// is written, so that what it told is remembered before it goes.
func (r *FunctionReconciler) deleteJob(s *scope, j *batchv1.Job) {
	if !j.DeletionTimestamp.IsZero() {
		return
	}
	s.after = append(s.after, func(ctx context.Context) error {
		for _, volume := range j.Spec.Template.Spec.Volumes {
			if volume.ConfigMap == nil || volume.ConfigMap.Name == ConfigMapTrust {
				continue
			}
			inline := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: j.Namespace, Name: volume.ConfigMap.Name}}
			if err := r.Delete(ctx, inline); client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("delete ConfigMap %s: %w", inline.Name, err)
			}
		}
		err := r.Delete(ctx, j, client.PropagationPolicy(metav1.DeletePropagationBackground), client.Preconditions{UID: &j.UID})
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return nil
		}
		return err
	})
}

// mayBuild decides whether a Job may be made now: not for a key that failed for
// good, and not on the word of a cache that is behind.
func (r *FunctionReconciler) mayBuild(ctx context.Context, s *scope) error {
	build := s.fn.Status.Build
	failed := build != nil && build.Key == s.plan.Key() && build.State == functionv1.BuildFailed
	if due := failed && build.NextTry != nil && !s.now.Before(build.NextTry.Time); failed && !due {
		for _, reader := range []client.Reader{r.versions(), r.Live} { // only a change that is no old news counts
			secrets, err := buildSecrets(ctx, reader, s.fn)
			if err != nil {
				return err
			}
			if secrets == build.Secrets {
				return r.failedBuild(s, build)
			}
		}
	}
	live := &functionv1.Function{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(s.fn), live); err != nil {
		return fmt.Errorf("look at the Function past the cache: %w", err)
	}
	if live.UID != s.fn.UID || live.ResourceVersion != s.fn.ResourceVersion {
		return errOutdated
	}
	return nil
}

// startJob writes the build as a suspended Job. Each attempt has a name of its
// own, so that making it twice is finding it there.
func (r *FunctionReconciler) startJob(ctx context.Context, s *scope) error {
	if err := r.ensureNamespace(ctx, s.fn.Namespace); err != nil {
		return err
	}
	secrets, err := buildSecrets(ctx, r.Live, s.fn)
	if err != nil {
		return err
	}
	attempt := nextAttempt(s)
	options := r.jobOptions(s)
	options.Attempt = int(attempt)
	if s.plan.Origin.Inline() {
		if _, err := r.apply(ctx, r.inlineConfigMap(s, options.InlineConfigMap)); err != nil {
			return err
		}
	}
	j := job.New(s.plan, options)
	if err := r.Create(ctx, j, client.FieldOwner(FieldOwner)); apierrors.IsAlreadyExists(err) {
		return wait(time.Second, functionv1.ReasonJobCreated, "Job "+j.Name+" is there, and not seen yet or being removed")
	} else if err != nil {
		return fmt.Errorf("create build Job: %w", err)
	}
	now := metav1.NewTime(s.now)
	build := &functionv1.BuildStatus{
		Key: s.plan.Key(), Attempt: attempt, Job: j.Name, Causes: r.causes(s), Secrets: secrets, StartedAt: &now,
	}
	s.fn.Status.Build = build
	r.event(s.fn, normal(functionv1.ReasonJobCreated, "Build", "Job %s builds %s: %s", j.Name, revisionName(s.revision), strings.Join(build.Causes, ", ")))
	return r.queued(s, j, build)
}

// nextAttempt counts the builds of one key.
func nextAttempt(s *scope) int32 {
	if build := s.fn.Status.Build; build != nil && build.Key == s.plan.Key() {
		return build.Attempt + 1
	}
	return 1
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
		DenyAddresses:  r.Config.DenyAddresses,
		Proxy:          r.Config.Proxy,
		NoProxy:        r.Config.NoProxy,
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
		options.GitSecret, options.GitAuth = git.Auth.SecretName, string(git.Auth.Type)
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
