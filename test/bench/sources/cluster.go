package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	ggcr "github.com/google/go-containerregistry/pkg/registry"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
)

// patience is how long any one thing is waited for.
const patience = time.Hour

// systemNamespace is gitfn's own.
const systemNamespace = "gitfn-system"

// cluster is a kube-apiserver with etcd, a registry, and gitfn's manager before them, as a process of its own. No
// other part of Kubernetes runs: the player stands for them.
type cluster struct {
	dir      string
	api      *envtest.Environment
	config   *rest.Config
	client   client.Client
	registry *httptest.Server
	manager  *exec.Cmd
	ended    chan error // of the manager
	metrics  string
	player   *player
	stop     context.CancelFunc // of the player
}

func scheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	return s, errors.Join(clientgoscheme.AddToScheme(s), functionv1.AddToScheme(s))
}

// startCluster starts all of it. The caller closes it, also after an error.
func startCluster(ctx context.Context, dir string, interval time.Duration) (*cluster, error) {
	logf.SetLogger(logr.Discard())
	c := &cluster{dir: dir, ended: make(chan error, 1)}
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		return c, errors.New(`there is no kube-apiserver: set KUBEBUILDER_ASSETS to what "cd localcluster && go run . build --assets" prints, or use "make bench-sources"`)
	}
	c.api = &envtest.Environment{CRDDirectoryPaths: []string{filepath.Join("config", "crd")}, ErrorIfCRDPathMissing: true}
	c.api.ControlPlane.GetAPIServer().Configure().Set("service-cluster-ip-range", "10.0.0.0/16")
	c.api.ControlPlane.Etcd = &envtest.Etcd{}
	c.api.ControlPlane.Etcd.Configure().Set("unsafe-no-fsync", "true")
	var err error
	if c.config, err = c.api.Start(); err != nil {
		return c, fmt.Errorf("start kube-apiserver and etcd, from the top of the repository: %w", err)
	}
	c.config.QPS = -1 // our own requests must not wait in line
	s, err := scheme()
	if err != nil {
		return c, err
	}
	if c.client, err = client.New(c.config, client.Options{Scheme: s}); err != nil {
		return c, fmt.Errorf("connect to kube-apiserver: %w", err)
	}
	if err := c.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: systemNamespace}}); err != nil {
		return c, fmt.Errorf("create namespace %s: %w", systemNamespace, err)
	}
	c.registry = httptest.NewServer(ggcr.New(ggcr.Logger(log.New(io.Discard, "", 0))))
	playing, stop := context.WithCancel(context.WithoutCancel(ctx))
	c.stop = stop
	if c.player, err = startPlayer(playing, c.config, s); err != nil {
		return c, err
	}
	return c, c.startManager(ctx, interval)
}

// managerConfiguration is the shipped one's with the addresses of this machine.
const managerConfiguration = `
registry: {pushAddress: %[1]q, pullAddress: "127.0.0.1:30500", plainHTTP: true}
builderImage: 127.0.0.1:30500/gitfn-system/builder@sha256:%[2]s
runtimeImages:
  nodejs22: 127.0.0.1:30500/gitfn-system/runtimes/nodejs22@sha256:%[2]s
git: {interval: %[3]s, allowAddresses: [127.0.0.0/8]}
builds: {concurrency: 32}
`

func (c *cluster) startManager(ctx context.Context, interval time.Duration) error {
	binary := filepath.Join(c.dir, "manager")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", binary, "./cmd/manager")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the manager, from the top of the repository: %w: %s", err, out)
	}
	user, err := c.api.AddUser(envtest.User{Name: "gitfn-manager", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		return fmt.Errorf("make a user for the manager: %w", err)
	}
	kubeconfig, err := user.KubeConfig()
	if err != nil {
		return fmt.Errorf("make a user for the manager: %w", err)
	}
	if c.metrics, err = freeAddress(); err != nil {
		return err
	}
	text := fmt.Sprintf(managerConfiguration, strings.TrimPrefix(c.registry.URL, "http://"), strings.Repeat("a", 64), interval)
	for name, content := range map[string][]byte{"kubeconfig": kubeconfig, "config.yaml": []byte(text)} {
		if err := os.WriteFile(filepath.Join(c.dir, name), content, 0o600); err != nil {
			return err
		}
	}
	complaints, err := os.Create(filepath.Join(c.dir, "manager.log"))
	if err != nil {
		return err
	}
	defer complaints.Close() // the process has its own
	c.manager = exec.Command(binary, "--config", filepath.Join(c.dir, "config.yaml"), "--mirror-dir", filepath.Join(c.dir, "mirrors"),
		"--trust-bundle", filepath.Join(c.dir, "none"), "--namespace", systemNamespace, "--leader-election=false", "--metrics-address", c.metrics,
		"--health-address", "127.0.0.1:0", "--hooks-address", "127.0.0.1:0", "--built-address", "127.0.0.1:0")
	c.manager.Env = []string{"KUBECONFIG=" + filepath.Join(c.dir, "kubeconfig"), "HOME=/nonexistent", "PATH=" + os.Getenv("PATH")}
	c.manager.Stderr = complaints
	if err := c.manager.Start(); err != nil {
		return fmt.Errorf("start the manager: %w", err)
	}
	go func() { c.ended <- c.manager.Wait() }()
	return c.eventually(ctx, "the manager's metrics", func() (bool, error) {
		_, err := c.requests(ctx)
		return err == nil, nil
	})
}

func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	defer listener.Close()
	return listener.Addr().String(), nil
}

// requests is how many requests the manager has made to kube-apiserver, as its metrics say.
func (c *cluster) requests(ctx context.Context) (float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.metrics+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, fmt.Errorf("read metrics: %w", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, fmt.Errorf("read metrics: %w", err)
	}
	return sumOf(body, "rest_client_requests_total")
}

// sumOf adds the series of a metric up.
func sumOf(metrics []byte, name string) (sum float64, err error) {
	for line := range bytes.Lines(metrics) {
		series, value, _ := strings.Cut(strings.TrimSpace(string(line)), "} ")
		if !strings.HasPrefix(series, name+"{") {
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, fmt.Errorf("read metric %s: %w", name, err)
		}
		sum += n
	}
	return sum, nil
}

// usage is what the manager has used so far.
func (c *cluster) usage() (usage, error) { return usageOf(c.manager.Process.Pid) }

// eventually asks four times a second; the manager must live meanwhile.
func (c *cluster) eventually(ctx context.Context, what string, ask func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		if there, err := ask(); err != nil || there {
			return err
		}
		select {
		case <-tick.C:
		case err := <-c.ended:
			c.ended <- err
			return fmt.Errorf("wait for %s: the manager has ended: %w\n%s", what, err, c.complaints())
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w\n%s", what, ctx.Err(), c.complaints())
		}
	}
}

// complaints is the end of the manager's log.
func (c *cluster) complaints() string {
	text, _ := os.ReadFile(filepath.Join(c.dir, "manager.log"))
	return string(text[max(0, len(text)-2048):])
}

// close ends what startCluster started.
func (c *cluster) close() (err error) {
	if c.manager != nil && c.manager.Process != nil {
		_ = c.manager.Process.Signal(syscall.SIGTERM)
		if ended := <-c.ended; ended != nil {
			err = fmt.Errorf("the manager did not end well: %w\n%s", ended, c.complaints())
		}
	}
	if c.stop != nil {
		c.stop()
		if c.player != nil {
			err = errors.Join(err, c.player.wait())
		}
	}
	if c.registry != nil {
		c.registry.Close()
	}
	if c.config != nil {
		err = errors.Join(err, c.api.Stop())
	}
	return err
}
