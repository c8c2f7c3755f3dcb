package pki

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
)

func TestCertificatesAreGoodForTheirHostsUnderTheirAuthorityOnly(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	ca, err := NewAuthority(dir, "ca")
	g.Expect(err).NotTo(HaveOccurred())
	other, err := NewAuthority(dir, "other")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(ca.Issue("server", pkix.Name{CommonName: "server"}, "10.76.1.2", "kubernetes")).To(Succeed())

	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "server.crt"), filepath.Join(dir, "server.key"))
	g.Expect(err).NotTo(HaveOccurred())
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	for _, host := range []string{"10.76.1.2", "kubernetes"} {
		_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: host})
		g.Expect(err).NotTo(HaveOccurred(), host)
	}
	_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: "10.76.1.3"})
	g.Expect(err).To(HaveOccurred())
	strangers := x509.NewCertPool()
	strangers.AddCert(other.cert)
	_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: strangers})
	g.Expect(err).To(HaveOccurred())
}

func TestKubeconfigIsReadByItsOwnerOnly(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	ca, err := NewAuthority(dir, "ca")
	g.Expect(err).NotTo(HaveOccurred())
	path := filepath.Join(dir, "kubeconfig")
	g.Expect(ca.Kubeconfig(path, "https://10.76.1.2:6443", "gitfn-dev", pkix.Name{CommonName: "admin"})).To(Succeed())
	info, err := os.Stat(path)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(info.Mode().Perm()).To(Equal(os.FileMode(0o600)))
	data, err := os.ReadFile(path)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(data)).To(And(ContainSubstring("server: https://10.76.1.2:6443"), ContainSubstring("current-context: gitfn-dev")))
}
