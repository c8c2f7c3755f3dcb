package controllers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
	"github.com/gitfn/gitfn/builder"
	"github.com/gitfn/gitfn/gitsource"
)

// reconcileSpec refuses what only a change of the spec cures.
func (r *FunctionReconciler) reconcileSpec(s *scope) error {
	var err error
	if faults := functionv1.Validate(s.fn); len(faults) > 0 {
		err = faults.ToAggregate()
	} else {
		var known bool
		if s.runtime, known = r.Runtimes[s.fn.Spec.Runtime]; !known {
			err = fmt.Errorf("spec.runtime: there is no runtime %q on this cluster; there are %v", s.fn.Spec.Runtime, r.Runtimes.Names())
		} else if s.runtime.Image == "" && s.fn.Spec.RuntimeImageOverride == "" {
			err = fmt.Errorf("spec.runtime: this cluster has no image for %s; the administrator sets runtimeImages in gitfn's configuration", s.runtime.Name)
		}
	}
	if git := s.fn.Spec.Source.GitRepository; err == nil && git != nil {
		err = checkGit(git, s.now)
	}
	if err == nil {
		return nil
	}
	if conditions.GetMessage(s.fn, functionv1.ConfigurationReady) != err.Error() {
		r.event(s.fn, warning(functionv1.ReasonInvalidFunctionSpec, "Validate", "%s", err))
	}
	conditions.MarkFalse(s.fn, functionv1.ConfigurationReady, functionv1.ReasonInvalidFunctionSpec, "%s", err)
	return stalled(functionv1.ReasonInvalidFunctionSpec, err)
}

func checkGit(git *functionv1.GitRepository, now time.Time) error {
	if err := gitsource.CheckURL(git.URL); err != nil {
		return fmt.Errorf("spec.source.gitRepository.url: %w", err)
	}
	if err := gitsource.CheckReference(git.Reference); err != nil {
		return fmt.Errorf("spec.source.gitRepository.reference: %w", err)
	}
	if git.Schedule != "" {
		schedule, err := gitsource.ParseSchedule(git.Schedule)
		if err == nil {
			_, err = schedule.Next(now)
		}
		if err != nil {
			return fmt.Errorf("spec.source.gitRepository.schedule: %w", err)
		}
	}
	return nil
}

// reconcileSource finds the revision that the Function should run.
func (r *FunctionReconciler) reconcileSource(ctx context.Context, s *scope) error {
	if inline := s.fn.Spec.Source.Inline; inline != nil {
		return r.inlineSource(s, inline)
	}
	git, name := s.fn.Spec.Source.GitRepository, client.ObjectKeyFromObject(s.fn)
	rests, hinted := atRest(s.fn), r.Hints.pending(name)
	if r.paces.first(name) && rests && !hinted {
		// After a start, what is at rest is believed for a while: else every
		// repository would be asked at the same moment.
		interval, _ := r.pollInterval(git)
		s.revision, s.poll = known(s.fn), shortly+rand.N(interval)
		return nil
	}
	maxAge := r.sourceAge(s)
	found, err := r.resolve(ctx, s.fn, maxAge)
	if err != nil {
		return r.sourceFailed(s, err)
	}
	moved := s.fn.Status.Commit != found.Commit
	if again, hinted := r.Hints.looked(name, r.Clock.Now(), moved, r.Metrics); hinted {
		s.poll = min(s.poll, again)
	}
	_, warnings := r.pollInterval(git)
	accepted := &functionv1.GitRepositoryStatus{
		URL: git.URL, BaseDir: git.BaseDir, Reference: git.Reference,
		Ref: found.Ref, Commit: found.Commit, Signer: found.Signer, Warnings: append(warnings, found.Warnings...),
	}
	if rests && onlyCommitMoved(s.fn, accepted, found.Tree) {
		if wait := r.paces.advance(name, s.now); wait > 0 {
			s.revision, s.poll = known(s.fn), min(s.poll, max(wait, shortly))
			return nil
		}
	}
	s.revision = found
	r.warn(s.fn, accepted.Warnings)
	s.fn.Status.Commit, s.fn.Status.BaseDir, s.fn.Status.Reference = found.Commit, git.BaseDir, git.Reference
	s.fn.Status.GitRepository = accepted
	r.sourceReady(s)
	return nil
}

// resolve asks for the revision, with the credentials and the trusted keys as
// they are now.
func (r *FunctionReconciler) resolve(ctx context.Context, fn *functionv1.Function, maxAge time.Duration) (gitsource.Revision, error) {
	git := fn.Spec.Source.GitRepository
	credentials, err := r.gitCredentials(ctx, fn)
	if err != nil {
		return gitsource.Revision{}, err
	}
	wanted := selection(git)
	if wanted.Verification, err = r.verification(ctx, fn); err != nil {
		return gitsource.Revision{}, err
	}
	return r.Git.Resolve(ctx, gitsource.Repository{URL: git.URL, Credentials: credentials}, wanted, maxAge)
}

// onlyCommitMoved reports whether a source differs from the one that was accepted
// last in its commit and in nothing else.
func onlyCommitMoved(fn *functionv1.Function, found *functionv1.GitRepositoryStatus, tree string) bool {
	last := *fn.Status.GitRepository
	moved := last.Commit != found.Commit
	last.Commit = found.Commit
	return moved && tree == fn.Status.Tree && equality.Semantic.DeepEqual(&last, found)
}

// warn tells of warnings that are new.
func (r *FunctionReconciler) warn(fn *functionv1.Function, warnings []string) {
	var before []string
	if last := fn.Status.GitRepository; last != nil {
		before = last.Warnings
	}
	if len(warnings) > 0 && !slices.Equal(before, warnings) {
		r.event(fn, warning(functionv1.ReasonSourceUpdated, "Resolve", "%s", strings.Join(warnings, "; ")))
	}
}

// selection is what a Function wants of its repository.
func selection(git *functionv1.GitRepository) gitsource.Selection {
	wanted := gitsource.Selection{Reference: git.Reference, BaseDir: git.BaseDir, Submodules: git.Submodules}
	for _, include := range git.Include {
		wanted.Include = append(wanted.Include, gitsource.Include(include))
	}
	return wanted
}

func (r *FunctionReconciler) inlineSource(s *scope, inline *functionv1.Inline) error {
	s.files = builder.InlineFiles(s.runtime, inline.Source, inline.Dependencies)
	tree, err := gitsource.NewTree(s.files)
	if err != nil {
		return r.sourceFailed(s, err)
	}
	defer tree.Close()
	s.revision = gitsource.Revision{Reference: "inline", Tree: tree.ID}
	s.fn.Status.Commit, s.fn.Status.BaseDir, s.fn.Status.Reference, s.fn.Status.GitRepository = "", "", "", nil
	r.sourceReady(s)
	return nil
}

func (r *FunctionReconciler) sourceReady(s *scope) {
	s.fn.Status.Source = nil
	tree := "tree " + s.revision.Tree
	message := fmt.Sprintf("%s, %s", revisionName(s.revision), tree)
	same := conditions.IsTrue(s.fn, functionv1.ConfigurationReady) && strings.HasSuffix(conditions.GetMessage(s.fn, functionv1.ConfigurationReady), tree)
	conditions.MarkTrue(s.fn, functionv1.ConfigurationReady, functionv1.ReasonSourceUpdated, "%s", message)
	if !same { // a commit that changes nothing here is no news
		r.event(s.fn, normal(functionv1.ReasonSourceUpdated, "Resolve", "found %s", message))
	}
}

// revisionName is a revision as status shows it. An inline source has no
// commit; its tree takes that place.
func revisionName(revision gitsource.Revision) string {
	if revision.Commit == "" {
		return revision.Reference + "@sha1:" + revision.Tree
	}
	return revision.String()
}

func (r *FunctionReconciler) sourceFailed(s *scope, err error) error {
	row := classifySource(err)
	told := fmt.Errorf("%s: %w", row.class, err)
	if git := s.fn.Spec.Source.GitRepository; row.class == builder.ClassGitAuth && git != nil {
		if git.Auth != nil {
			told = fmt.Errorf("%w; check Secret %s", told, git.Auth.SecretName)
		} else {
			told = fmt.Errorf("%w; name a Secret in spec.source.gitRepository.auth", told)
		}
	}
	if serves := s.fn.Status.Revision; serves != "" {
		told = fmt.Errorf("%w; %s goes on serving", told, serves)
	}
	if message := conditions.GetMessage(s.fn, functionv1.ConfigurationReady); message != told.Error() {
		r.event(s.fn, warning(functionv1.ReasonSourceUpdateFailed, "Resolve", "%s", told))
	}
	s.fn.Status.Source = &functionv1.SourceStatus{Class: string(row.class)}
	conditions.MarkFalse(s.fn, functionv1.ConfigurationReady, functionv1.ReasonSourceUpdateFailed, "%s", told)
	var unavailable *gitsource.UnavailableError
	switch {
	case errors.As(err, &unavailable):
		// The repository backs off for all of its Functions.
		return wait(jittered(max(unavailable.RetryAfter, time.Second)), meta.ProgressingWithRetryReason, told.Error())
	case row.passes:
		return told
	}
	return stalled(functionv1.ReasonSourceUpdateFailed, told)
}

// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch

// gitCredentials reads the Secret that the Function names. A
// Secret that is not there or cannot be used matches gitsource.ErrAuth.
func (r *FunctionReconciler) gitCredentials(ctx context.Context, fn *functionv1.Function) (gitsource.Credentials, error) {
	auth := fn.Spec.Source.GitRepository.Auth
	if auth == nil {
		return gitsource.Credentials{}, nil
	}
	secret, err := r.sourceSecret(ctx, types.NamespacedName{Namespace: fn.Namespace, Name: auth.SecretName})
	if apierrors.IsNotFound(err) {
		return gitsource.Credentials{}, fmt.Errorf("read credentials: there is no Secret %s in namespace %s: %w", auth.SecretName, fn.Namespace, gitsource.ErrAuth)
	}
	if err != nil {
		return gitsource.Credentials{}, fmt.Errorf("read credentials: %w", err)
	}
	if wanted, typed := secretTypes[secret.Type]; typed && wanted != auth.Type {
		return gitsource.Credentials{}, fmt.Errorf("read credentials: Secret %s has type %s, which goes with auth.type %s, not with %s: %w",
			auth.SecretName, secret.Type, wanted, auth.Type, gitsource.ErrAuth)
	}
	return gitsource.ParseCredentials(gitsource.AuthKind(auth.Type), secret.Data)
}

// verification says whose signatures the Function believes. A Secret that is not
// there matches gitsource.ErrUnverified: nobody is trusted.
func (r *FunctionReconciler) verification(ctx context.Context, fn *functionv1.Function) (gitsource.Verification, error) {
	wanted := fn.Spec.Source.GitRepository.Verification
	if wanted == nil {
		return gitsource.Verification{}, nil
	}
	secret, err := r.sourceSecret(ctx, types.NamespacedName{Namespace: fn.Namespace, Name: wanted.SecretName})
	if apierrors.IsNotFound(err) {
		return gitsource.Verification{}, fmt.Errorf("read trusted keys: there is no Secret %s in namespace %s: %w", wanted.SecretName, fn.Namespace, gitsource.ErrUnverified)
	}
	if err != nil {
		return gitsource.Verification{}, fmt.Errorf("read trusted keys: %w", err)
	}
	verification := gitsource.Verification{Mode: gitsource.VerificationMode(wanted.Mode)}
	if verification.Mode == gitsource.VerifyNothing {
		verification.Mode = gitsource.VerifyHEAD
	}
	for _, name := range slices.Sorted(maps.Keys(secret.Data)) {
		verification.Keys = append(verification.Keys, secret.Data[name])
	}
	if len(verification.Keys) == 0 {
		return gitsource.Verification{}, fmt.Errorf("read trusted keys: Secret %s has none: %w", wanted.SecretName, gitsource.ErrUnverified)
	}
	return verification, nil
}

// secretTypes are the types of Secrets that say what is in them. Every other is
// read as auth.type says.
var secretTypes = map[corev1.SecretType]functionv1.AuthType{
	corev1.SecretTypeBasicAuth: functionv1.AuthBasic,
	corev1.SecretTypeSSHAuth:   functionv1.AuthKey,
}
