package executor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"time"

	"github.com/gitfn/gitfn/builder"
	"github.com/gitfn/gitfn/runtimes"
)

// options are the arguments of a stage. A stage uses those that it needs.
type options struct {
	plan    builder.Plan
	runtime runtimes.Runtime
	environ []string
	out     io.Writer

	source, layers, work   string
	inline, gitCredentials string
	dockerConfig, packages string
	trustBundle, hint      string
	termination            string
	allow                  []netip.Prefix
	plainHTTP              bool
	timeout                time.Duration
}

// stages maps a verb to its work.
var stages = map[builder.Stage]func(context.Context, *options) (*builder.Result, error){
	builder.StageFetch:   fetch,
	builder.StageInstall: install,
	builder.StagePush:    push,
}

// Run runs one stage, args[0], with its flags, and returns the exit code. It
// writes the report to the termination message.
func Run(ctx context.Context, args, environ []string, out io.Writer) int {
	if len(args) == 0 || stages[builder.Stage(args[0])] == nil {
		fmt.Fprintln(out, "usage: builder fetch|install|push --plan=JSON ...")
		return 2
	}
	stage := builder.Stage(args[0])
	o, err := parse(args)
	if err != nil {
		fmt.Fprintln(out, err)
		return 2
	}
	o.environ, o.out = environ, out
	result, err := stages[stage](ctx, o)
	report := builder.Report{Result: result}
	switch {
	case errors.Is(err, errPredecessor):
		return 1 // who failed before has reported
	case err != nil:
		report = builder.Report{Error: asStepError(stage, err)}
		fmt.Fprintln(out, report.Error)
	}
	if report != (builder.Report{}) {
		if writeErr := os.WriteFile(o.termination, report.Encode(), 0o600); writeErr != nil {
			fmt.Fprintln(out, "write report:", writeErr)
		}
	}
	if err != nil {
		return 1
	}
	return 0
}

// asStepError gives an error that no step has classified the class of its stage.
func asStepError(stage builder.Stage, err error) *builder.StepError {
	var step *builder.StepError
	if errors.As(err, &step) {
		step.Stage = stage
		return step
	}
	class := map[builder.Stage]builder.Class{
		builder.StageFetch:   builder.ClassSourceUnavailable,
		builder.StageInstall: builder.ClassInstallFailed,
		builder.StagePush:    builder.ClassRegistryUnavailable,
	}[stage]
	if errors.Is(err, context.DeadlineExceeded) {
		class = builder.ClassTimeout
	}
	return &builder.StepError{Stage: stage, Class: class, Message: err.Error()}
}

func parse(args []string) (*options, error) {
	o := &options{}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Func("plan", "the plan as JSON", func(text string) error { return json.Unmarshal([]byte(text), &o.plan) })
	flags.StringVar(&o.source, "source", "/gitfn-source", "volume that fetch writes")
	flags.StringVar(&o.layers, "layers", "/gitfn-layers", "volume that install writes")
	flags.StringVar(&o.work, "work", "", "where install works; the runtime's directory")
	flags.StringVar(&o.inline, "inline", "", "directory with the keys of an inline source")
	flags.StringVar(&o.gitCredentials, "git-credentials", "", "directory with username and password")
	flags.StringVar(&o.dockerConfig, "docker-config", "", "directory with config.json")
	flags.StringVar(&o.packages, "packages", "", "directory with .npmrc")
	flags.StringVar(&o.trustBundle, "trust-bundle", "", "file with further authorities, PEM")
	flags.StringVar(&o.hint, "hint", "", "URL to tell when the push is done")
	flags.StringVar(&o.termination, "termination-log", "/dev/termination-log", "file of the termination message")
	flags.BoolVar(&o.plainHTTP, "plain-http", false, "the registry of the plan speaks no TLS")
	flags.DurationVar(&o.timeout, "timeout", 10*time.Minute, "limit of this stage, without its waiting")
	flags.Func("allow", "range of private addresses that Git sources may be in", func(text string) error {
		prefix, err := netip.ParsePrefix(text)
		o.allow = append(o.allow, prefix)
		return err
	})
	if err := flags.Parse(args[1:]); err != nil {
		return nil, fmt.Errorf("read arguments of %s: %w", args[0], err)
	}
	var known bool
	if o.runtime, known = runtimes.Default()[o.plan.Runtime]; !known {
		return nil, fmt.Errorf("read arguments of %s: there is no runtime %q", args[0], o.plan.Runtime)
	}
	if o.work == "" {
		o.work = o.runtime.Dir
	}
	return o, nil
}

// bundle reads the further authorities; none is no error.
func (o *options) bundle() ([]byte, error) {
	if o.trustBundle == "" {
		return nil, nil
	}
	return os.ReadFile(o.trustBundle)
}

// transport trusts the system's authorities and the further ones.
func (o *options) transport() (http.RoundTripper, error) {
	bundle, err := o.bundle()
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if len(bundle) > 0 {
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool()
		}
		pool.AppendCertsFromPEM(bundle)
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	return transport, nil
}
