package controllers

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
	"github.com/gitfn/gitfn/gitsource"
)

const (
	// freshEnough is how old an answer of a Git server may be for a Function that
	// was just changed: so that a thousand that are applied together ask once.
	freshEnough = 3 * time.Second
	// leftAlone is the least for one whose server failed: a schedule alone is no
	// reason to cut its back-off short.
	leftAlone = 2 * freshEnough
)

// The advance of status.commit alone, where no file of the Function has
// changed, waits: a commit to a repository of 1,000 Functions is 1,000 writes.
const (
	advanceEvery = 2 * time.Minute // for each Function
	advanceRate  = 20              // a second, and at once, for all
)

// jittered is a little more than an interval, so that Functions that were applied
// together do not ask together for ever. It is never less: who looks after a full
// interval never finds his own last answer again.
func jittered(interval time.Duration) time.Duration {
	return interval + rand.N(interval/10+1)
}

// pollInterval is how often a Function is polled, and what to say about it.
func (r *FunctionReconciler) pollInterval(git *functionv1.GitRepository) (interval time.Duration, warnings []string) {
	least := r.Config.MinPollInterval
	switch {
	case git.Interval == nil || git.Interval.Duration <= 0:
		return r.Config.PollInterval, nil
	case git.Interval.Duration < least:
		return least, []string{fmt.Sprintf("interval %s is raised to %s, the least that the administrator allows", git.Interval.Duration, least)}
	}
	return git.Interval.Duration, nil
}

// sourceAge says how old the server's last answer may be, and sets when to look next.
func (r *FunctionReconciler) sourceAge(s *scope) time.Duration {
	git, name := s.fn.Spec.Source.GitRepository, client.ObjectKeyFromObject(s.fn)
	age, _ := r.pollInterval(git)
	s.poll = jittered(age)
	if git.Schedule != "" {
		if schedule, err := gitsource.ParseSchedule(git.Schedule); err == nil {
			if next, err := schedule.Next(s.now); err == nil {
				s.poll = max(next.Sub(s.now), r.Config.MinPollInterval)
			}
			age = r.Hints.sinceScheduled(name, s.now, s.poll)
			if s.fn.Status.Source != nil {
				age = max(age, leftAlone)
			}
		}
	}
	if hint, hinted := r.Hints.since(name, s.now); hinted {
		age = min(age, hint)
	}
	if !looked(s.fn) {
		age = min(age, freshEnough)
	}
	return age
}

// looked reports whether the source was looked at since the user wanted it.
func looked(fn *functionv1.Function) bool {
	requested, _ := meta.ReconcileAnnotationValue(fn.Annotations)
	return requested == fn.Status.LastHandledReconcileAt &&
		conditions.GetObservedGeneration(fn, functionv1.ConfigurationReady) == fn.Generation
}

// atRest reports whether a Function runs what its reference led to when it was
// looked at last, and nothing was asked of it since.
func atRest(fn *functionv1.Function) bool {
	return conditions.IsReady(fn) && fn.Status.ObservedGeneration == fn.Generation && looked(fn) &&
		fn.Status.GitRepository != nil && fn.Status.Tree != "" && fn.Spec.Pin == ""
}

// known is the revision that the status of a Function at rest tells of.
func known(fn *functionv1.Function) gitsource.Revision {
	git := fn.Status.GitRepository
	revision := gitsource.Revision{
		Reference: git.Reference, Ref: git.Ref, Commit: git.Commit, Tree: fn.Status.Tree,
		Signer: git.Signer, Warnings: git.Warnings,
	}
	if entry := servingEntry(fn); entry != nil {
		revision.Author, revision.Subject = entry.Author, entry.Subject
	}
	return revision
}

// paces remembers what keeps many Functions from doing the same at once. It is
// only in memory: after a restart all begin anew. The zero value is ready.
type paces struct {
	mu       sync.Mutex
	of       map[types.NamespacedName]pace
	advances *rate.Limiter
}

// pace is that of one Function. advanced is when its commit alone was written
// last, due when it may be next; zero is never, and not wanted.
type pace struct{ advanced, due time.Time }

// first reports whether a Function was never seen before by this process.
func (p *paces) first(name types.NamespacedName) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, seen := p.of[name]
	if !seen {
		p.put(name, pace{})
	}
	return !seen
}

// advance is how long the advance of a Function's commit has to wait. Zero is its turn.
func (p *paces) advance(name types.NamespacedName, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	mine := p.of[name]
	if mine.due.IsZero() {
		if p.advances == nil {
			p.advances = rate.NewLimiter(advanceRate, advanceRate)
		}
		mine.due = now.Add(p.advances.ReserveN(now, 1).DelayFrom(now))
		if next := mine.advanced.Add(advanceEvery); next.After(mine.due) {
			mine.due = next
		}
	}
	wait := mine.due.Sub(now)
	if wait <= 0 {
		mine = pace{advanced: now}
	}
	p.put(name, mine)
	return wait
}

func (p *paces) put(name types.NamespacedName, mine pace) {
	if p.of == nil {
		p.of = map[types.NamespacedName]pace{}
	}
	p.of[name] = mine
}

// forget drops what is known of a Function that is gone.
func (p *paces) forget(name types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.of, name)
}
