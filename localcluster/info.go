package main

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"strings"

	"github.com/gitfn/gitfn/localcluster/cluster"
	"github.com/gitfn/gitfn/localcluster/node"
)

// report is what `info` prints. Fields are only ever added.
type report struct {
	Name              string            `json:"name"`
	Kubeconfig        string            `json:"kubeconfig"`
	Kubectl           string            `json:"kubectl"`
	NodeIP            string            `json:"nodeIP"`
	HostIP            string            `json:"hostIP"`
	PodCIDR           string            `json:"podCIDR"`
	ServiceCIDR       string            `json:"serviceCIDR"`
	GitHTTP           string            `json:"gitHTTP"`
	GitUser           string            `json:"gitUser"`
	GitPassword       string            `json:"gitPassword"`
	GitSSH            string            `json:"gitSSH"`
	GitSSHKey         string            `json:"gitSSHKey"`
	GitSSHKnownHosts  string            `json:"gitSSHKnownHosts"`
	GitSSHAuthorized  string            `json:"gitSSHAuthorizedKeys"`
	Ctr               string            `json:"ctr"`
	ContainerdAddress string            `json:"containerdAddress"`
	RegistryHosts     string            `json:"registryHosts"`
	RegistryBinary    string            `json:"registryBinary"`
	KubebuilderAssets string            `json:"kubebuilderAssets"`
	Logs              string            `json:"logs"`
	SupervisorPID     int               `json:"supervisorPID"`
	Parts             []node.PartStatus `json:"parts"`
}

func info(ctx context.Context, o options, stdout, _ io.Writer) error {
	s, err := o.spec()
	if err != nil {
		return err
	}
	password, err := os.ReadFile(s.Dir.GitPassword())
	if err != nil {
		return err
	}
	knownHosts, err := os.ReadFile(s.Dir.GitSSHKnownHosts())
	if err != nil {
		return err
	}
	status, err := node.ReadStatus(ctx, s.Dir)
	if err != nil {
		return err
	}
	bin := s.Binaries.Program
	encoder := json.NewEncoder(stdout)
	encoder.SetIndent("", "  ")
	return encoder.Encode(report{
		Name: s.Name, Kubeconfig: s.Dir.Kubeconfig(), Kubectl: bin("kubectl"),
		NodeIP: s.NodeIP(), HostIP: s.HostIP(), PodCIDR: s.PodCIDR(), ServiceCIDR: s.ServiceCIDR(),
		GitHTTP: s.GitURL(), GitUser: cluster.GitUser, GitPassword: strings.TrimSpace(string(password)),
		GitSSH: s.GitSSHURL(), GitSSHKey: s.Dir.GitSSHKey(), GitSSHKnownHosts: string(knownHosts), GitSSHAuthorized: s.Dir.GitSSHAuthorizedKeys(),
		Ctr: bin("ctr"), ContainerdAddress: s.Dir.Containerd(), RegistryHosts: s.Dir.Path("certs.d"),
		RegistryBinary: bin("registry"), KubebuilderAssets: s.Binaries.EnvtestAssets(),
		Logs: s.Dir.Logs(), SupervisorPID: s.Dir.Supervisor().PID, Parts: status.Parts,
	})
}
