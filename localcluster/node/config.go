package node

import (
	"crypto/rand"
	"crypto/x509/pkix"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gitfn/gitfn/localcluster/binaries"
	"github.com/gitfn/gitfn/localcluster/cluster"
	"github.com/gitfn/gitfn/localcluster/pki"
)

// VolumeCount is how many PersistentVolumes a cluster has: nothing makes them on demand.
const VolumeCount = 8

// Volume is the directory of a PersistentVolume, from 0, within the cluster's own /var/lib. Whoever
// runs in a Pod may write there: a hostPath knows no fsGroup.
func Volume(i int) string { return "/var/lib/gitfn-volumes/" + strconv.Itoa(i) }

// WriteConfig writes every file that a part reads: certificates, kubeconfigs and settings.
func WriteConfig(s cluster.Spec) error {
	if err := writeKeys(s); err != nil {
		return fmt.Errorf("make certificates: %w", err)
	}
	files := map[string]string{
		"containerd.toml":       containerdConfig(s),
		"kubelet.yaml":          kubeletConfig(s),
		"kube-proxy.yaml":       kubeProxyConfig(s),
		"Corefile":              corefile(s),
		"cni/10-gitfn.conflist": cniConfig(s),
		"certs.d/README":        "One directory HOST:PORT with a file hosts.toml per plain-HTTP registry.\n",
	}
	for name, content := range files {
		path := s.Dir.Path(name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			return err
		}
	}
	if err := writeSSH(s); err != nil {
		return fmt.Errorf("make keys of the SSH server: %w", err)
	}
	password := make([]byte, 16)
	_, _ = rand.Read(password)
	return os.WriteFile(s.Dir.GitPassword(), []byte(hex.EncodeToString(password)+"\n"), 0o600)
}

func writeKeys(s cluster.Spec) error {
	dir := s.Dir.Path("pki")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	ca, err := pki.NewAuthority(dir, "ca")
	if err != nil {
		return err
	}
	front, err := pki.NewAuthority(dir, "front-proxy-ca")
	if err != nil {
		return err
	}
	masters := []string{"system:masters"}
	issue := []struct {
		by      *pki.Authority
		name    string
		subject pkix.Name
		hosts   []string
	}{
		{ca, "apiserver", pkix.Name{CommonName: "kube-apiserver"}, []string{
			s.NodeIP(), s.APIServiceIP(), "127.0.0.1", "localhost", s.Name,
			"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
		}},
		{ca, "kubelet", pkix.Name{CommonName: "system:node:" + s.Name, Organization: []string{"system:nodes"}}, []string{s.NodeIP(), s.Name, "127.0.0.1"}},
		{ca, "kubelet-client", pkix.Name{CommonName: "kube-apiserver-kubelet-client", Organization: masters}, nil},
		{front, "front-proxy-client", pkix.Name{CommonName: "front-proxy-client"}, nil},
	}
	for _, i := range issue {
		if err := i.by.Issue(i.name, i.subject, i.hosts...); err != nil {
			return err
		}
	}
	users := map[string]pkix.Name{
		"kubeconfig":                         {CommonName: "gitfn-admin", Organization: masters},
		"kube-controller-manager.kubeconfig": {CommonName: "system:kube-controller-manager"},
		"kube-scheduler.kubeconfig":          {CommonName: "system:kube-scheduler"},
		"kube-proxy.kubeconfig":              {CommonName: "system:kube-proxy"},
		"coredns.kubeconfig":                 {CommonName: "system:coredns"},
		"kubelet.kubeconfig":                 {CommonName: "system:node:" + s.Name, Organization: []string{"system:nodes"}},
	}
	for file, subject := range users {
		if err := ca.Kubeconfig(s.Dir.Path(file), s.APIURL(), "gitfn-"+s.Name, subject); err != nil {
			return err
		}
	}
	return pki.WriteKey(dir, "sa")
}

func containerdConfig(s cluster.Spec) string {
	return fmt.Sprintf(`version = 3
root = %[1]q
state = "/run/containerd"
disabled_plugins = [
  "io.containerd.nri.v1.nri", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.blockfile",
  "io.containerd.snapshotter.v1.erofs", "io.containerd.differ.v1.erofs",
]

[grpc]
  address = %[2]q

[plugins."io.containerd.internal.v1.opt"]
  path = %[3]q

[plugins."io.containerd.cri.v1.runtime"]
  # A machine without CAP_SYS_RESOURCE refuses a lower oom_score_adj than its own.
  restrict_oom_score_adj = true

[plugins."io.containerd.cri.v1.runtime".containerd]
  default_runtime_name = "runc"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
  SystemdCgroup = false

[plugins."io.containerd.cri.v1.runtime".cni]
  bin_dirs = [%[4]q]
  conf_dir = %[5]q

[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = %[6]q

[plugins."io.containerd.cri.v1.images".registry]
  config_path = %[7]q
`, s.Dir.Path("containerd"), s.Dir.Containerd(), s.Dir.Path("opt"), s.Binaries["kubernetes"],
		s.Dir.Path("cni"), binaries.PauseTag, s.Dir.Path("certs.d"))
}

func cniConfig(s cluster.Spec) string {
	return fmt.Sprintf(`{
  "cniVersion": "1.0.0",
  "name": "gitfn",
  "plugins": [
    {
      "type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true, "mtu": %d,
      "ipam": {"type": "host-local", "ranges": [[{"subnet": %q}]], "routes": [{"dst": "0.0.0.0/0"}]}
    },
    {"type": "portmap", "capabilities": {"portMappings": true}}
  ]
}
`, s.MTU, s.PodCIDR())
}

func kubeletConfig(s cluster.Spec) string {
	return fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: true}
  x509: {clientCAFile: %[1]s/ca.crt}
authorization: {mode: Webhook}
tlsCertFile: %[1]s/kubelet.crt
tlsPrivateKeyFile: %[1]s/kubelet.key
containerRuntimeEndpoint: unix://%[2]s
cgroupDriver: cgroupfs
cgroupRoot: %[3]s
failCgroupV1: false
failSwapOn: false
clusterDomain: cluster.local
clusterDNS: [%[4]s]
resolvConf: %[5]s
volumePluginDir: %[6]s
maxPods: 250
podsPerCore: 0
serializeImagePulls: false
registryPullQPS: 0
eventRecordQPS: 0
# Images that were loaded by hand cannot be pulled again, so none is ever removed.
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
evictionHard:
  memory.available: 50Mi
  nodefs.available: 100Mi
  nodefs.inodesFree: "1%%"
  imagefs.available: 100Mi
  imagefs.inodesFree: "1%%"
`, s.Dir.Path("pki"), s.Dir.Containerd(), s.Cgroup(), s.NodeIP(), s.Dir.Path("resolv.conf"), s.Dir.Path("volume-plugins"))
}

func kubeProxyConfig(s cluster.Spec) string {
	return fmt.Sprintf(`apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clientConnection: {kubeconfig: %s}
mode: iptables
clusterCIDR: %s
# These settings belong to the machine, not to a network namespace.
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
`, s.Dir.Path("kube-proxy.kubeconfig"), s.PodCIDR())
}

// corefile caches for 5 s only: tests make a Service and ask for it at once.
func corefile(s cluster.Spec) string {
	forward := ""
	if len(s.Nameservers) > 0 {
		forward = "forward . " + strings.Join(s.Nameservers, " ")
	}
	return fmt.Sprintf(`.:53 {
    bind %s 127.0.0.1
    errors
    health 127.0.0.1:8080
    ready 127.0.0.1:8181
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        kubeconfig %s
        pods insecure
        ttl 5
        fallthrough in-addr.arpa ip6.arpa
    }
    cache 5
    %s
}
`, s.NodeIP(), s.Dir.Path("coredns.kubeconfig"), forward)
}
