package controllers

import (
	"context"
	"fmt"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
	"github.com/gitfn/gitfn/builder"
	"github.com/gitfn/gitfn/gitsource"
)

// freshEnough is how old an answer of a Git server may be for a Function that
// was just changed: so that a thousand that are applied together ask once.
const freshEnough = 3 * time.Second

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
		err = checkGit(git)
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

func checkGit(git *functionv1.GitRepository) error {
	if err := gitsource.CheckURL(git.URL); err != nil {
		return fmt.Errorf("spec.source.gitRepository.url: %w", err)
	}
	if git.Schedule != "" {
		if _, err := gitsource.ParseSchedule(git.Schedule); err != nil {
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
	git := s.fn.Spec.Source.GitRepository
	credentials, err := r.gitCredentials(ctx, s.fn)
	if err == nil {
		maxAge := r.sourceAge(s)
		s.revision, err = r.Git.Resolve(ctx, gitsource.Repository{URL: git.URL, Credentials: credentials}, selection(git), maxAge)
	}
	if err != nil {
		return r.sourceFailed(s, err)
	}
	moved := s.fn.Status.Commit != s.revision.Commit
	if again, hinted := r.Hints.looked(client.ObjectKeyFromObject(s.fn), r.Clock.Now(), moved, r.Metrics); hinted {
		s.poll = min(s.poll, again)
	}
	s.fn.Status.Commit, s.fn.Status.BaseDir, s.fn.Status.Reference = s.revision.Commit, git.BaseDir, git.Reference
	s.fn.Status.GitRepository = &functionv1.GitRepositoryStatus{URL: git.URL, BaseDir: git.BaseDir, Reference: git.Reference, Commit: s.revision.Commit}
	r.sourceReady(s)
	return nil
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
	message := fmt.Sprintf("%s, tree %s", revisionName(s.revision), s.revision.Tree)
	moved := conditions.GetMessage(s.fn, functionv1.ConfigurationReady) != message
	conditions.MarkTrue(s.fn, functionv1.ConfigurationReady, functionv1.ReasonSourceUpdated, "%s", message)
	if moved {
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
	if message := conditions.GetMessage(s.fn, functionv1.ConfigurationReady); message != told.Error() {
		r.event(s.fn, warning(functionv1.ReasonSourceUpdateFailed, "Resolve", "%s", told))
	}
	s.fn.Status.Source = &functionv1.SourceStatus{Class: string(row.class)}
	conditions.MarkFalse(s.fn, functionv1.ConfigurationReady, functionv1.ReasonSourceUpdateFailed, "%s", told)
	if row.passes {
		return told
	}
	return stalled(functionv1.ReasonSourceUpdateFailed, told)
}

// sourceAge says how old the server's last answer may be, and sets when to look next.
func (r *FunctionReconciler) sourceAge(s *scope) time.Duration {
	git, interval := s.fn.Spec.Source.GitRepository, r.Config.PollInterval
	if git.Interval != nil && git.Interval.Duration > 0 {
		interval = max(git.Interval.Duration, r.Config.MinPollInterval)
	}
	s.poll = jittered(interval)
	age := interval * 9 / 10 // the jitter must not make it skip a turn
	if git.Schedule != "" {
		if schedule, err := gitsource.ParseSchedule(git.Schedule); err == nil {
			if next, err := schedule.Next(s.now); err == nil {
				s.poll = next.Sub(s.now)
			}
			age = r.Hints.sinceScheduled(client.ObjectKeyFromObject(s.fn), s.now, s.poll)
		}
	}
	if hint, hinted := r.Hints.since(client.ObjectKeyFromObject(s.fn), s.now); hinted {
		age = min(age, hint)
	}
	requested, _ := meta.ReconcileAnnotationValue(s.fn.Annotations)
	if s.fn.Generation != s.fn.Status.ObservedGeneration || requested != s.fn.Status.LastHandledReconcileAt {
		age = min(age, freshEnough)
	}
	return age
}

// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch

// gitCredentials reads the Secret that the Function names, past the cache. A
// Secret that is not there or cannot be used matches gitsource.ErrAuth.
func (r *FunctionReconciler) gitCredentials(ctx context.Context, fn *functionv1.Function) (gitsource.Credentials, error) {
	auth := fn.Spec.Source.GitRepository.Auth
	if auth == nil {
		return gitsource.Credentials{}, nil
	}
	secret := &corev1.Secret{}
	err := r.Live.Get(ctx, types.NamespacedName{Namespace: fn.Namespace, Name: auth.SecretName}, secret)
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

// secretTypes are the types of Secrets that say what is in them. Every other is
// read as auth.type says.
var secretTypes = map[corev1.SecretType]functionv1.AuthType{
	corev1.SecretTypeBasicAuth: functionv1.AuthBasic,
	corev1.SecretTypeSSHAuth:   functionv1.AuthKey,
}
