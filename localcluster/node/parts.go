package node

import (
	"context"
	"os/exec"
	"path/filepath"

	"github.com/gitfn/gitfn/localcluster/cluster"
)

// part is one program of the cluster.
type part struct {
	name string
	path string
	args []string
	// ready returns nil when the part does its work. It is asked until then.
	ready func(context.Context) error
	// after runs once when the part is ready for the first time in the life of the cluster.
	after func(context.Context) error
}

// stages is all parts, in the order of their start: those of one stage start at once, the next stage
// starts when all of them are ready.
func stages(s cluster.Spec) [][]part {
	bin, dir, pki := s.Binaries.Program, s.Dir, s.Dir.Path("pki")
	file := func(name string) string { return filepath.Join(pki, name) }
	return [][]part{{
		{
			name: "etcd", path: bin("etcd"),
			args: []string{
				"--data-dir=" + dir.Path("etcd"),
				// Nothing of a throw-away cluster has to survive a power cut.
				"--unsafe-no-fsync",
				"--listen-client-urls=http://127.0.0.1:2379", "--advertise-client-urls=http://127.0.0.1:2379",
				"--listen-peer-urls=http://127.0.0.1:2380", "--log-level=warn",
				"--auto-compaction-retention=5m", "--quota-backend-bytes=4294967296",
			},
			ready: answers("http://127.0.0.1:2379/health"),
		},
		{
			name: "kube-apiserver", path: bin("kube-apiserver"),
			args: []string{
				"--advertise-address=" + s.NodeIP(), "--secure-port=6443",
				"--etcd-servers=http://127.0.0.1:2379",
				"--service-cluster-ip-range=" + s.ServiceCIDR(),
				"--allow-privileged=true",
				"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
				"--client-ca-file=" + file("ca.crt"),
				"--tls-cert-file=" + file("apiserver.crt"), "--tls-private-key-file=" + file("apiserver.key"),
				"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
				"--service-account-key-file=" + file("sa.pub"), "--service-account-signing-key-file=" + file("sa.key"),
				// A node's name is not known to any DNS server.
				"--kubelet-preferred-address-types=InternalIP",
				"--kubelet-certificate-authority=" + file("ca.crt"),
				"--kubelet-client-certificate=" + file("kubelet-client.crt"), "--kubelet-client-key=" + file("kubelet-client.key"),
				"--requestheader-client-ca-file=" + file("front-proxy-ca.crt"),
				"--requestheader-allowed-names=front-proxy-client",
				"--requestheader-extra-headers-prefix=X-Remote-Extra-",
				"--requestheader-group-headers=X-Remote-Group", "--requestheader-username-headers=X-Remote-User",
				"--proxy-client-cert-file=" + file("front-proxy-client.crt"), "--proxy-client-key-file=" + file("front-proxy-client.key"),
			},
			ready: func(ctx context.Context) error {
				api, err := NewAPI(s)
				if err != nil {
					return err
				}
				return api.Get(ctx, "/readyz", nil)
			},
		},
		{
			name: "containerd", path: bin("containerd"), args: []string{"--config", dir.Path("containerd.toml")},
			ready: func(ctx context.Context) error {
				return exec.CommandContext(ctx, bin("ctr"), "--address", dir.Containerd(), "version").Run()
			},
			after: func(ctx context.Context) error { return ImportImage(ctx, s, s.Binaries.PauseImage()) },
		},
		{
			name: "git", path: dir.Self(),
			args:  []string{VerbGit, s.NodeIP() + ":" + cluster.GitPort, dir.Path("git"), cluster.GitUser, dir.GitPassword()},
			ready: answers(s.GitURL() + "/healthz"),
		},
		{
			name: "sshd", path: sshd(), args: []string{"-D", "-e", "-f", dir.Path("ssh", "sshd_config")},
			ready: greets(s.NodeIP() + ":" + cluster.GitSSHPort),
		},
	}, {
		{
			name: "kube-controller-manager", path: bin("kube-controller-manager"),
			args: []string{
				"--kubeconfig=" + dir.Path("kube-controller-manager.kubeconfig"),
				"--authentication-kubeconfig=" + dir.Path("kube-controller-manager.kubeconfig"),
				"--authorization-kubeconfig=" + dir.Path("kube-controller-manager.kubeconfig"),
				"--requestheader-client-ca-file=" + file("front-proxy-ca.crt"),
				"--root-ca-file=" + file("ca.crt"), "--client-ca-file=" + file("ca.crt"),
				"--cluster-signing-cert-file=" + file("ca.crt"), "--cluster-signing-key-file=" + file("ca.key"),
				"--service-account-private-key-file=" + file("sa.key"), "--use-service-account-credentials=true",
				"--leader-elect=false", "--bind-address=127.0.0.1",
				// Tests wait for it; the default is 15 s.
				"--horizontal-pod-autoscaler-sync-period=5s",
			},
			ready: answers("https://127.0.0.1:10257/healthz"),
		},
		{
			name: "kube-scheduler", path: bin("kube-scheduler"),
			args: []string{
				"--kubeconfig=" + dir.Path("kube-scheduler.kubeconfig"),
				"--authentication-kubeconfig=" + dir.Path("kube-scheduler.kubeconfig"),
				"--authorization-kubeconfig=" + dir.Path("kube-scheduler.kubeconfig"),
				"--leader-elect=false", "--bind-address=127.0.0.1",
			},
			ready: answers("https://127.0.0.1:10259/healthz"),
		},
		{
			name: "kubelet", path: bin("kubelet"),
			args: []string{
				"--config=" + dir.Path("kubelet.yaml"), "--kubeconfig=" + dir.Path("kubelet.kubeconfig"),
				"--hostname-override=" + s.Name, "--node-ip=" + s.NodeIP(),
			},
			ready: answers("http://127.0.0.1:10248/healthz"),
		},
		{
			name: "kube-proxy", path: bin("kube-proxy"),
			args:  []string{"--config=" + dir.Path("kube-proxy.yaml"), "--hostname-override=" + s.Name},
			ready: answers("http://127.0.0.1:10256/livez"),
		},
		{
			name: "coredns", path: bin("coredns"), args: []string{"-conf", dir.Path("Corefile")},
			// Not its readiness, which waits for the rights that `up` grants.
			ready: answers("http://127.0.0.1:8080/health"),
		},
	}}
}

// ImportImage puts an image archive into containerd for the Pods, pinned so that kubelet never removes it.
func ImportImage(ctx context.Context, s cluster.Spec, archive string) error {
	ctr := func(args ...string) error {
		cmd := exec.CommandContext(ctx, s.Binaries.Program("ctr"),
			append([]string{"--address", s.Dir.Containerd(), "--namespace", "k8s.io"}, args...)...)
		return runQuietly(cmd)
	}
	// All platforms, because an image without a base often names none.
	return ctr("images", "import", "--all-platforms", "--label", "io.cri-containerd.image=managed", "--label", "io.cri-containerd.pinned=pinned", archive)
}
