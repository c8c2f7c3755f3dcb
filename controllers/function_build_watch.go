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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
	"github.com/gitfn/gitfn/builder"
	"github.com/gitfn/gitfn/builder/job"
	"github.com/gitfn/gitfn/builder/queue"
	"github.com/gitfn/gitfn/registry"
)

// watchJob tells where the build is, and ends it when it has failed.
func (r *FunctionReconciler) watchJob(ctx context.Context, s *scope, own *batchv1.Job) error {
	if last := s.fn.Status.Build; last != nil && last.Key == s.plan.Key() && last.State == functionv1.BuildFailed && own.Name == job.Name(s.plan, int(last.Attempt)) {
		r.deleteJob(s, own) // it told already, and outlived that
		return r.failedBuild(s, last)
	}
	build, err := r.buildStatus(ctx, s, own)
	if err != nil {
		return err
	}
	outcome, err := r.outcome(ctx, own)
	if err != nil {
		return err
	}
	switch {
	case outcome.Error != nil:
		return r.buildFailed(s, own, build, outcome.Error)
	case outcome.Result != nil:
		return r.pushed(ctx, s, own, build)
	case queue.Waiting(own) && own.Annotations[queue.AnnotationRefused] != "":
		return r.refused(s, build, own.Annotations[queue.AnnotationRefused])
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

// pushed asks the registry once more: the push came after the last look. That
// it has no image then is a failure of its own.
func (r *FunctionReconciler) pushed(ctx context.Context, s *scope, own *batchv1.Job, build *functionv1.BuildStatus) error {
	digest, err := r.Images.Digest(ctx, s.plan.Pin())
	switch {
	case err == nil:
		return r.found(ctx, s, own, digest)
	case errors.Is(err, registry.ErrNotFound):
		return r.buildFailed(s, own, build, &builder.StepError{
			Stage: builder.StagePush, Class: builder.ClassRegistryUnavailable, Message: "the build has pushed its image, and the registry has none",
		})
	}
	return r.registryFailed(s, fmt.Errorf("look for the image of tree %s: %w", s.plan.Tree, err))
}

// refused says that the cluster did not take the build's Pod. The queue tries it again.
func (r *FunctionReconciler) refused(s *scope, build *functionv1.BuildStatus, why string) error {
	build.State, build.QueuePosition = functionv1.BuildQueued, 0
	build.Class, build.Message = string(builder.ClassPodRefused), why
	message := fmt.Sprintf("%s: %s", builder.ClassPodRefused, why)
	if conditions.GetMessage(s.fn, functionv1.BuildReady) != message {
		r.event(s.fn, warning(functionv1.ReasonJobFailed, "Build", "%s", message))
	}
	conditions.MarkFalse(s.fn, functionv1.BuildReady, functionv1.ReasonJobFailed, "%s", message)
	return wait(0, functionv1.ReasonJobFailed, message)
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
func (r *FunctionReconciler) buildStatus(ctx context.Context, s *scope, own *batchv1.Job) (*functionv1.BuildStatus, error) {
	if build := s.fn.Status.Build; build != nil && build.Key == s.plan.Key() && build.Job == own.Name {
		return build, nil
	}
	secrets, err := buildSecrets(ctx, r.Live, s.fn)
	if err != nil {
		return nil, err
	}
	s.fn.Status.Build = &functionv1.BuildStatus{
		Key: s.plan.Key(), State: functionv1.BuildQueued, Attempt: nextAttempt(s), Job: own.Name,
		Causes: r.causes(s), Secrets: secrets, StartedAt: &own.CreationTimestamp,
	}
	return s.fn.Status.Build, nil
}

// buildFailed remembers a failure in the status; the Job goes after that.
func (r *FunctionReconciler) buildFailed(s *scope, own *batchv1.Job, build *functionv1.BuildStatus, failure *builder.StepError) error {
	now := metav1.NewTime(s.now)
	build.State, build.QueuePosition, build.Job, build.EndedAt = functionv1.BuildFailed, 0, "", &now
	build.Class, build.Message, build.Output = string(failure.Class), failure.Message, failure.Output
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

// outcome reads what the Pods of a build have told; for a Job that ended without
// a Pod that tells, what its end means.
func (r *FunctionReconciler) outcome(ctx context.Context, j *batchv1.Job) (builder.Report, error) {
	pods := &corev1.PodList{}
	if err := r.List(ctx, pods, r.childrenOf(j.Namespace, j.Labels[functionv1.LabelFunctionName], map[string]string{batchv1.JobNameLabel: j.Name})...); err != nil {
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
		switch {
		case condition.Status != corev1.ConditionTrue:
		case condition.Type == batchv1.JobComplete:
			return builder.Report{Result: &builder.Result{}}, nil
		case condition.Type == batchv1.JobFailed && condition.Reason == batchv1.JobReasonDeadlineExceeded:
			return builder.Report{Error: &builder.StepError{Class: builder.ClassTimeout, Message: "the build took longer than its deadline"}}, nil
		case condition.Type == batchv1.JobFailed:
			return builder.Report{Error: &builder.StepError{Class: builder.ClassNodeLost, Message: "the build's Pod is gone without a word: " + condition.Message}}, nil
		}
	}
	return builder.Report{}, nil
}

// buildSecrets is a fingerprint of the Secrets that a build reads: their
// versions, not their content.
func buildSecrets(ctx context.Context, reader client.Reader, fn *functionv1.Function) (string, error) {
	names := []string{SecretPackages, SecretPull, SecretPush}
	if git := fn.Spec.Source.GitRepository; git != nil && git.Auth != nil {
		names = append(names, git.Auth.SecretName)
	}
	var versions []string
	for _, name := range names {
		secret := &metav1.PartialObjectMetadata{}
		secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
		err := reader.Get(ctx, types.NamespacedName{Namespace: fn.Namespace, Name: name}, secret)
		if client.IgnoreNotFound(err) != nil {
			return "", fmt.Errorf("look at Secret %s: %w", name, err)
		}
		versions = append(versions, name+"@"+string(secret.UID)+"/"+secret.ResourceVersion)
	}
	return hashOf(versions), nil
}
