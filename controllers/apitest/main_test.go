// Package apitest tests the controllers against a real kube-apiserver and etcd.
//
// The Git server and the registry are real too, and run in the process. Nothing
// else of a cluster runs: no Job controller, no scheduler, no kubelet. The tests
// play these, step by step, so that no test waits and none depends on chance.
package apitest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
)

const howToRun = `The API tests did not run: set KUBEBUILDER_ASSETS to what "cd localcluster && go run . build --assets" prints, or use "make test-api".`

var (
	scheme = runtime.NewScheme()
	// cluster is how the tests of this package reach their API server.
	cluster *rest.Config
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

// run starts one API server for all tests. Without one to start it says so: a
// failure where everything has to run, which CI=true means.
func run(m *testing.M) int {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		fmt.Fprintln(os.Stderr, howToRun)
		if os.Getenv("CI") == "true" {
			return 1
		}
		return 0
	}
	logf.SetLogger(logr.Discard())
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(functionv1.AddToScheme(scheme))
	environment := &envtest.Environment{
		CRDDirectoryPaths:     []string{filepath.Join("..", "..", "config", "crd")},
		ErrorIfCRDPathMissing: true,
	}
	// Each test leaves a Service or two, and tests may run many times.
	environment.ControlPlane.GetAPIServer().Configure().Set("service-cluster-ip-range", "10.0.0.0/16")
	// What a test writes need not survive a power cut.
	environment.ControlPlane.Etcd = &envtest.Etcd{}
	environment.ControlPlane.Etcd.Configure().Set("unsafe-no-fsync", "true")
	config, err := environment.Start()
	if err != nil {
		fmt.Fprintln(os.Stderr, "start kube-apiserver and etcd:", err)
		return 1
	}
	defer func() {
		if err := environment.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop kube-apiserver and etcd:", err)
		}
	}()
	cluster = rest.CopyConfig(config)
	cluster.QPS, cluster.Burst = -1, 0 // no limit
	return m.Run()
}
