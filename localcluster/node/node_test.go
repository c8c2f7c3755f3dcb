package node

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/gitfn/gitfn/localcluster/binaries"
	"github.com/gitfn/gitfn/localcluster/cluster"
)

func testSpec(t *testing.T) cluster.Spec {
	t.Helper()
	dirs := binaries.Dirs{}
	for _, s := range binaries.Sets {
		dirs[s.Module] = "/bin/" + s.Module
	}
	return cluster.Spec{Name: "dev", Index: 3, Dir: cluster.Dir(t.TempDir()), Binaries: dirs, MTU: 1400, Nameservers: []string{"192.0.2.53"}}
}

func TestWriteConfigKeepsSecretsToTheirOwner(t *testing.T) {
	g := NewWithT(t)
	s := testSpec(t)
	g.Expect(WriteConfig(s)).To(Succeed())
	secrets, err := filepath.Glob(s.Dir.Path("pki", "*.key"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(secrets).NotTo(BeEmpty())
	for _, file := range append(secrets, s.Dir.Kubeconfig(), s.Dir.GitPassword(), s.Dir.GitSSHKey(), s.Dir.Path("ssh", "host_rsa")) {
		info, err := os.Stat(file)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(info.Mode().Perm()).To(Equal(os.FileMode(0o600)), file)
	}
	_, err = tls.LoadX509KeyPair(s.Dir.Path("pki", "apiserver.crt"), s.Dir.Path("pki", "apiserver.key"))
	g.Expect(err).NotTo(HaveOccurred())
	_, err = NewAPI(s)
	g.Expect(err).NotTo(HaveOccurred())
}

func TestCorefileForwardsOnlyWhenThereIsAServer(t *testing.T) {
	g := NewWithT(t)
	s := testSpec(t)
	g.Expect(corefile(s)).To(ContainSubstring("forward . 192.0.2.53"))
	s.Nameservers = nil
	g.Expect(corefile(s)).NotTo(ContainSubstring("forward"))
}

func TestStagesNameEachPartOnce(t *testing.T) {
	g := NewWithT(t)
	seen := map[string]bool{}
	for _, stage := range stages(testSpec(t)) {
		for _, p := range stage {
			g.Expect(seen).NotTo(HaveKey(p.name))
			g.Expect(p.ready).NotTo(BeNil(), p.name)
			seen[p.name] = true
		}
	}
	g.Expect(seen).To(HaveLen(10))
}

func TestStatusErrTellsWhichPartEndedAndHow(t *testing.T) {
	g := NewWithT(t)
	s := Status{Parts: []PartStatus{
		{Name: "etcd", State: Running},
		{Name: "kubelet", State: Failed, Reason: "ended by itself (exit status 1)", Log: "no such cgroup"},
		{Name: "git", State: Stopped},
	}}
	g.Expect(s.Err()).To(MatchError("kubelet failed: ended by itself (exit status 1); the end of its log:\nno such cgroup"))
	g.Expect(s.In(Stopped)).To(Equal([]string{"git"}))
	g.Expect(Status{Parts: s.Parts[:1]}.Err()).To(Succeed())
}

func TestTailGivesTheLastLines(t *testing.T) {
	g := NewWithT(t)
	file := filepath.Join(t.TempDir(), "log")
	g.Expect(os.WriteFile(file, []byte("1\n2\n3\n"), 0o644)).To(Succeed())
	g.Expect(tail(file, 2)).To(Equal("2\n3"))
	g.Expect(tail(file, 9)).To(Equal("1\n2\n3"))
}
