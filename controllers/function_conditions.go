package controllers

import (
	"errors"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/reconcile"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
	"github.com/gitfn/gitfn/builder"
	"github.com/gitfn/gitfn/gitsource"
)

// readySummary is the contract of a Function's conditions: which there are,
// which make up Ready, and which are bad when True.
var readySummary = reconcile.Conditions{
	Target: meta.ReadyCondition,
	Owned: []string{
		functionv1.ConfigurationReady, functionv1.BuildReady, functionv1.Running,
		meta.ReadyCondition, meta.ReconcilingCondition, meta.StalledCondition,
	},
	// When all is well, Ready says what the first says: the revision that serves.
	Summarize: []string{
		functionv1.Running, functionv1.BuildReady, functionv1.ConfigurationReady,
		meta.StalledCondition, meta.ReconcilingCondition,
	},
	NegativePolarity: []string{meta.StalledCondition, meta.ReconcilingCondition},
}

// readyMessage is what Running, and with it Ready, says when all is well.
func readyMessage(fn *functionv1.Function) string {
	message := "serves " + fn.Status.Revision
	switch {
	case fn.Spec.Replicas == nil || *fn.Spec.Replicas > 0:
	case scales(fn):
		message += " with no Pod: spec.replicas is 0, and the autoscaler rests until it is more"
	default:
		message += " with no Pod: spec.replicas is 0"
	}
	return message
}

// sourceFailure says how an error of gitsource is told and treated.
type sourceFailure struct {
	err   error
	class builder.Class
	// passes is true if trying again may help: the pass backs off. The others
	// wait for a change, and for the next poll.
	passes bool
}

// sourceFailures is the only table from errors of gitsource to classes. The
// first row that matches counts.
var sourceFailures = []sourceFailure{
	{gitsource.ErrAuth, builder.ClassGitAuth, false},
	{gitsource.ErrHostKey, builder.ClassGitHostKey, false},
	{gitsource.ErrUnverified, builder.ClassGitUnverified, false},
	{gitsource.ErrRefNotFound, builder.ClassRefNotFound, false},
	{gitsource.ErrRepositoryNotFound, builder.ClassRefNotFound, false},
	{gitsource.ErrBaseDirNotFound, builder.ClassRefNotFound, false},
	{gitsource.ErrTooLarge, builder.ClassSourceTooLarge, false},
	{gitsource.ErrUnsafeTree, builder.ClassSourceInvalid, false},
	{gitsource.ErrAddressRefused, builder.ClassSourceInvalid, false},
	{gitsource.ErrInvalidURL, builder.ClassSourceInvalid, false},
	{gitsource.ErrUnsupported, builder.ClassSourceInvalid, false},
	{gitsource.ErrUnavailable, builder.ClassSourceUnavailable, true},
}

// classifySource finds the row of an error. What no row knows passes: better to
// ask again than to give up.
func classifySource(err error) sourceFailure {
	for _, row := range sourceFailures {
		if errors.Is(err, row.err) {
			return row
		}
	}
	return sourceFailure{err, builder.ClassSourceUnavailable, true}
}

// Retries of builds that failed for a reason that can pass: 30 s after the first
// attempt, doubled each time, at most 15 minutes.
const (
	firstRetry = 30 * time.Second
	lastRetry  = 15 * time.Minute
)

func retryAfter(attempt int32) time.Duration {
	delay := firstRetry
	for ; attempt > 1 && delay < lastRetry; attempt-- {
		delay *= 2
	}
	return min(delay, lastRetry)
}
