package executor

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"

	"github.com/gitfn/gitfn/builder"
	"github.com/gitfn/gitfn/builder/cache"
	"github.com/gitfn/gitfn/gitsource"
	"github.com/gitfn/gitfn/gitsource/dialer"
	"github.com/gitfn/gitfn/registry"
	"github.com/gitfn/gitfn/runtimes"
)

// options are the arguments of a stage. A stage uses those that it needs.
type options struct {
	plan    builder.Plan
	runtime runtimes.Runtime
	environ []string
	out     io.Writer
	limits  cache.Limits
	// npmCommand is npm, and what comes before its arguments.
	npmCommand []string
	// pythonCommand is the image's Python, of which pip is a module.
	pythonCommand []string
	// background is what the report need not wait for, but the process must.
	background sync.WaitGroup

	source, layers, work, tmp string
	inline                    string
	gitCredentials, gitAuth   string
	dockerConfig, packages    string
	trustBundle, hint         string
	proxy, noProxy            string
	termination               string
	allow, deny               prefixes
	plainHTTP                 bool
	timeout, wait             time.Duration
}

// prefixes is a flag that may be given several times.
type prefixes []netip.Prefix

// String lists the prefixes.
func (p *prefixes) String() string { return fmt.Sprint([]netip.Prefix(*p)) }

// Set adds a prefix.
func (p *prefixes) Set(text string) error {
	prefix, err := netip.ParsePrefix(text)
	*p = append(*p, prefix)
	return err
}

func parse(args []string) (*options, error) {
	o := &options{limits: cache.DefaultLimits, npmCommand: []string{"npm"}, pythonCommand: []string{"python3"}}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Func("plan", "the plan as JSON", func(text string) error { return json.Unmarshal([]byte(text), &o.plan) })
	flags.StringVar(&o.source, "source", "/gitfn-source", "volume that fetch writes")
	flags.StringVar(&o.layers, "layers", "/gitfn-layers", "volume that install writes")
	flags.StringVar(&o.work, "work", "", "where install works; the runtime's directory")
	flags.StringVar(&o.tmp, "tmp", os.TempDir(), "directory for what goes with the container")
	flags.StringVar(&o.inline, "inline", "", "directory with the keys of an inline source")
	flags.StringVar(&o.gitCredentials, "git-credentials", "", "directory with the keys of the Git source's Secret")
	flags.StringVar(&o.gitAuth, "git-auth", string(gitsource.AuthBasic), "how they are read: basic, key or githubApp")
	flags.StringVar(&o.dockerConfig, "docker-config", "", "directory with config.json")
	flags.StringVar(&o.packages, "packages", "", "directory with .npmrc")
	flags.StringVar(&o.trustBundle, "trust-bundle", "", "file with further authorities, PEM")
	flags.StringVar(&o.hint, "hint", "", "URL to tell when the push is done")
	flags.StringVar(&o.termination, "termination-log", "/dev/termination-log", "file of the termination message")
	flags.BoolVar(&o.plainHTTP, "plain-http", false, "the registry of the plan speaks no TLS")
	flags.DurationVar(&o.timeout, "timeout", 10*time.Minute, "limit of this stage, without its waiting")
	flags.DurationVar(&o.wait, "wait", time.Hour, "limit of waiting for the stages before")
	flags.Var(&o.allow, "allow", "range of addresses that may be connected to although it is refused")
	flags.Var(&o.deny, "deny", "range of addresses that may not be connected to")
	flags.StringVar(&o.proxy, "proxy", "", "proxy in front of Git servers and registries")
	flags.StringVar(&o.noProxy, "no-proxy", "", "hosts that are reached without it")
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
	text, err := os.ReadFile(o.trustBundle)
	if err != nil {
		return nil, fmt.Errorf("read trust bundle: %w", err)
	}
	return text, nil
}

// client asks the plan's registry, with the credential of the stage.
func (o *options) client() (*registry.Client, error) {
	bundle, err := o.bundle()
	if err != nil {
		return nil, err
	}
	keys, err := o.keys()
	if err != nil {
		return nil, err
	}
	host, _, _ := strings.Cut(o.plan.Repository, "/")
	return registry.NewWithKeys(registry.Address{Push: host, Pull: host, PlainHTTP: o.plainHTTP}, keys, registry.Options{
		Roots: bundle, Policy: dialer.Policy{Allow: o.allow, Deny: o.deny}, Proxy: o.proxy, NoProxy: o.noProxy,
	})
}

func (o *options) keys() (authn.Keychain, error) {
	if o.dockerConfig == "" {
		return registry.DockerConfig([]byte("{}"))
	}
	text, err := os.ReadFile(o.dockerConfig + "/config.json")
	if err != nil {
		return nil, fmt.Errorf("read registry credentials: %w", err)
	}
	return registry.DockerConfig(text)
}
