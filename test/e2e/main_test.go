package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

var (
	clusterName = flag.String("e2e.cluster", "", "name of the local cluster to test on; it is brought up if need be")
	asItIs      = flag.Bool("e2e.asis", false, "test what is installed, instead of installing what is here")
	takeDown    = flag.Bool("e2e.down", false, "take the cluster down afterwards, however the tests end")
)

// facts is what hack/dev tells of the cluster.
var facts struct {
	Kubeconfig, Kubectl                        string
	GitHTTP, GitUser, GitPassword              string
	Registry                                   string
	Hooks, HookURL, HookSecret, HookSecretName string
	NodeIP, HostIP                             string
	GitSSH, GitSSHKnownHosts                   string
	GitSSHAuthorizedKeys                       string
}

// system is the namespace of gitfn itself.
const system = "gitfn-system"

func TestMain(m *testing.M) {
	flag.Parse()
	if *clusterName == "" {
		fmt.Println("e2e: no test ran, because no cluster was named: go test ./test/e2e -e2e.cluster=NAME")
		os.Exit(0)
	}
	os.Exit(runOn(m, *clusterName))
}

func runOn(m *testing.M, cluster string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	down := func() {}
	if *takeDown {
		down = sync.OnceFunc(func() {
			if err := dev(context.Background(), nil, "down", "--name", cluster); err != nil {
				fmt.Fprintln(os.Stderr, "e2e: take the cluster down:", err)
			}
		})
	}
	defer down()
	verb := "up"
	if *asItIs {
		verb = "info"
	}
	var out bytes.Buffer
	if err := dev(ctx, &out, verb, "--name", cluster); err != nil {
		fmt.Fprintf(os.Stderr, "e2e: bring up cluster %s with gitfn in it: %v\n", cluster, err)
		return 1
	}
	if err := json.Unmarshal(out.Bytes(), &facts); err != nil {
		fmt.Fprintln(os.Stderr, "e2e: read what hack/dev says:", err)
		return 1
	}
	if facts.GitHTTP == "" {
		fmt.Fprintln(os.Stderr, "e2e: this cluster has no Git server that takes pushes; use the local cluster")
		return 1
	}
	watching, stopWatching := context.WithCancel(ctx)
	defer stopWatching()
	if err := startWatches(watching); err != nil {
		fmt.Fprintln(os.Stderr, "e2e: watch the cluster:", err)
		return 1
	}
	// The tests wait most of their time.
	if !given("test.parallel") {
		_ = flag.Set("test.parallel", "6")
	}
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-ended:
		case <-ctx.Done():
			fmt.Fprintln(os.Stderr, "e2e: interrupted")
			down()
			os.Exit(130)
		}
	}()
	return m.Run()
}

func given(name string) (given bool) {
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	return given
}

// dev runs hack/dev in the module's root.
func dev(ctx context.Context, out *bytes.Buffer, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", append([]string{"run", "./hack/dev"}, args...)...)
	cmd.Dir, cmd.Stderr = moduleRoot(), os.Stderr
	if out != nil {
		cmd.Stdout = out
	}
	return cmd.Run()
}

// moduleRoot is two folders above this one, where go test starts the tests.
func moduleRoot() string {
	dir, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		return "../.."
	}
	return dir
}

// localcluster runs the program that holds the parts of the local cluster.
func localcluster(args ...string) error {
	cmd := exec.Command("go", append([]string{"run", "."}, args...)...)
	cmd.Dir = filepath.Join(moduleRoot(), "localcluster")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("localcluster %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}
