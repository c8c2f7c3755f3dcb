package main

import (
	"context"
	"crypto/rand"
	"fmt"
)

// facts is what scripts need to know of a cluster with gitfn in it.
type facts struct {
	Kubeconfig string `json:"kubeconfig"`
	Kubectl    string `json:"kubectl"`
	// GitHTTP is the base URL of the Git server, for this machine and for Pods.
	// A push to a new path below it creates the repository; paths below
	// /private/ want GitUser and GitPassword.
	GitHTTP     string `json:"gitHTTP,omitempty"`
	GitUser     string `json:"gitUser,omitempty"`
	GitPassword string `json:"gitPassword,omitempty"`
	// GitSSH is the base URL of the same repositories over SSH. GitSSHKey is the
	// file of a private key that reads and writes all of them, GitSSHKnownHosts
	// the lines with the server's host keys, and GitSSHAuthorizedKeys the file
	// with the public keys of clients, read at each login.
	GitSSH               string `json:"gitSSH,omitempty"`
	GitSSHKey            string `json:"gitSSHKey,omitempty"`
	GitSSHKnownHosts     string `json:"gitSSHKnownHosts,omitempty"`
	GitSSHAuthorizedKeys string `json:"gitSSHAuthorizedKeys,omitempty"`
	// Registry is the internal registry as this machine reaches it, host:port.
	Registry string `json:"registry"`
	// Hooks is the base URL of the push hint endpoint: POST to
	// Hooks/<forge>/<namespace>/<secret name>. HookSecret is the key of the
	// Secret HookSecretName in gitfn-system, which wakes every Function.
	Hooks          string `json:"hooks"`
	HookURL        string `json:"hookURL"`
	HookSecret     string `json:"hookSecret"`
	HookSecretName string `json:"hookSecretName"`
	// KubebuilderAssets is a directory with kube-apiserver, etcd and kubectl.
	KubebuilderAssets string `json:"kubebuilderAssets,omitempty"`
	// Cluster is the name of the local cluster.
	Cluster string `json:"cluster,omitempty"`
	// NodeIP is the node's address, HostIP this machine's as Pods reach it.
	NodeIP string `json:"nodeIP,omitempty"`
	HostIP string `json:"hostIP,omitempty"`
}

// hintSecretName is the Secret that push hints for all Functions are verified with.
const hintSecretName = "gitfn-hook"

// hintSecret makes the Secret, once.
func hintSecret(ctx context.Context, site *site) error {
	if _, err := site.kubectl(ctx, "", "-n", namespace, "get", "secret", hintSecretName); err == nil {
		return nil
	}
	_, err := site.kubectl(ctx, "", "-n", namespace, "create", "secret", "generic", hintSecretName, "--from-literal=token="+rand.Text())
	return err
}

func factsOf(ctx context.Context, site *site) (facts, error) {
	f := facts{
		Kubeconfig: site.Local.Kubeconfig, Kubectl: site.kubectlPath,
		GitHTTP: site.Local.GitHTTP, GitUser: site.Local.GitUser, GitPassword: site.Local.GitPassword,
		KubebuilderAssets: site.Local.KubebuilderAssets, Cluster: site.Local.Name, NodeIP: site.Local.NodeIP, HostIP: site.Local.HostIP,
		GitSSH: site.Local.GitSSH, GitSSHKey: site.Local.GitSSHKey,
		GitSSHKnownHosts: site.Local.GitSSHKnownHosts, GitSSHAuthorizedKeys: site.Local.GitSSHAuthorized,
		HookSecretName: hintSecretName,
	}
	registry, err := serviceIP(ctx, site, "serverless-docker-registry")
	if err != nil {
		return f, fmt.Errorf("gitfn is not installed on this cluster; install it by make run: %w", err)
	}
	hooks, err := serviceIP(ctx, site, "gitfn-hooks")
	if err != nil {
		return f, err
	}
	f.Registry, f.Hooks = registry+":5000", "http://"+hooks+"/hooks"
	f.HookURL = f.Hooks + "/generic/" + namespace + "/" + hintSecretName
	f.HookSecret, err = site.kubectl(ctx, "", "-n", namespace, "get", "secret", hintSecretName, "-o", "go-template={{.data.token | base64decode}}")
	return f, err
}
