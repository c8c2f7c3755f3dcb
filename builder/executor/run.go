package executor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/gitfn/gitfn/builder"
	"github.com/gitfn/gitfn/registry"
)

// Exit codes of a stage.
const (
	exitFailed  = 1 // with a report
	exitUsage   = 2
	exitGaveUp  = builder.ExitGaveUp
	exitStopped = 143 // ended from outside
)

// stages maps a verb to its work.
var stages = map[builder.Stage]func(context.Context, *options) (*builder.Result, error){
	builder.StageFetch:   fetch,
	builder.StageInstall: install,
	builder.StagePush:    push,
}

// Run runs one stage, args[0], with its flags, and returns the exit code. It
// writes the report to the termination message. When ctx ends, so does the stage.
func Run(ctx context.Context, args, environ []string, out io.Writer) int {
	if len(args) == 0 || stages[builder.Stage(args[0])] == nil {
		fmt.Fprintln(out, "usage: builder fetch|install|push --plan=JSON ...")
		return exitUsage
	}
	o, err := parse(args)
	if err != nil {
		fmt.Fprintln(out, err)
		return exitUsage
	}
	o.environ, o.out = environ, out
	return run(ctx, builder.Stage(args[0]), o)
}

func run(ctx context.Context, stage builder.Stage, o *options) int {
	result, err := stages[stage](ctx, o)
	defer o.background.Wait()
	switch {
	case ctx.Err() != nil:
		return exitStopped
	case errors.Is(err, errPredecessor):
		return exitGaveUp
	case err != nil:
		failure := asStepError(stage, err)
		fmt.Fprintln(o.out, failure)
		o.report(builder.Report{Error: failure})
		return exitFailed
	case result != nil:
		o.report(builder.Report{Result: result})
	}
	return 0
}

func (o *options) report(report builder.Report) {
	if err := os.WriteFile(o.termination, report.Encode(), 0o600); err != nil {
		fmt.Fprintln(o.out, "write report:", err)
	}
}

// mostMessage bounds a sentence: a registry's answer may be a page of HTML.
const mostMessage = 1000

// asStepError gives an error its class, and the stage that it happened in.
func asStepError(stage builder.Stage, err error) *builder.StepError {
	failure := &builder.StepError{Class: classOf(stage, err), Message: err.Error()}
	var step *builder.StepError
	if errors.As(err, &step) {
		*failure = *step
	}
	failure.Stage = stage
	failure.Message = builder.Printable(failure.Message)
	if len(failure.Message) > mostMessage {
		failure.Message = builder.Printable(failure.Message[:mostMessage]) + "…"
	}
	return failure
}

// classOf is the class of an error that no step has classified.
func classOf(stage builder.Stage, err error) builder.Class {
	switch {
	case errors.Is(err, registry.ErrAuth):
		return builder.ClassRegistryAuth
	case errors.Is(err, registry.ErrUnavailable), errors.Is(err, registry.ErrNotFound):
		return builder.ClassRegistryUnavailable
	}
	return map[builder.Stage]builder.Class{
		builder.StageFetch:   builder.ClassSourceUnavailable,
		builder.StageInstall: builder.ClassInstallFailed,
		builder.StagePush:    builder.ClassRegistryUnavailable,
	}[stage]
}

// limited ends a context after the stage's time for work. What fails then is a
// Timeout, which classified turns it into.
func (o *options) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, o.timeout, errTimeout)
}

var errTimeout = errors.New("the stage's time is up")

// classified tells a stage that took too long from one that failed.
func (o *options) classified(ctx context.Context, stage builder.Stage, err error) error {
	if err == nil || context.Cause(ctx) != errTimeout {
		return err
	}
	failure := &builder.StepError{Stage: stage, Class: builder.ClassTimeout, Message: fmt.Sprintf("%s took longer than %s", stage, o.timeout.Round(time.Millisecond))}
	var step *builder.StepError
	if errors.As(err, &step) {
		failure.Output = step.Output
	}
	return failure
}
