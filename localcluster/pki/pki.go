// Package pki makes the keys, certificates and kubeconfigs of one throw-away cluster.
//
// In go a directory and the cluster's addresses; out come PEM files. It never renews anything: the files
// are made at each start and are good for ten years.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

const lifetime = 10 * 365 * 24 * time.Hour

// Authority signs certificates and writes them into one directory.
type Authority struct {
	dir  string
	name string
	cert *x509.Certificate
	key  crypto.Signer
}

// NewAuthority makes a self-signed authority and writes NAME.crt and NAME.key.
func NewAuthority(dir, name string) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := certificate(pkix.Name{CommonName: "gitfn-" + name})
	template.IsCA = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	if err := write(dir, name, der, key); err != nil {
		return nil, err
	}
	return &Authority{dir: dir, name: name, cert: cert, key: key}, nil
}

// Issue makes a certificate for a user (common name and groups) or a server (its addresses and names in
// hosts), good for both uses, and writes NAME.crt and NAME.key.
func (a *Authority) Issue(name string, subject pkix.Name, hosts ...string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := certificate(subject)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, h)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return err
	}
	return write(a.dir, name, der, key)
}

// Kubeconfig issues a client certificate and writes a kubeconfig with it to path, readable by its owner only.
func (a *Authority) Kubeconfig(path, server, context string, subject pkix.Name) error {
	name := filepath.Base(path) + "-client"
	if err := a.Issue(name, subject); err != nil {
		return err
	}
	var encoded [3]string
	for i, file := range []string{a.name + ".crt", name + ".crt", name + ".key"} {
		data, err := os.ReadFile(filepath.Join(a.dir, file))
		if err != nil {
			return err
		}
		encoded[i] = base64.StdEncoding.EncodeToString(data)
	}
	config := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters:
- name: %[1]s
  cluster:
    server: %[2]s
    certificate-authority-data: %[3]s
users:
- name: %[1]s
  user:
    client-certificate-data: %[4]s
    client-key-data: %[5]s
contexts:
- name: %[1]s
  context: {cluster: %[1]s, user: %[1]s}
current-context: %[1]s
`, context, server, encoded[0], encoded[1], encoded[2])
	return os.WriteFile(path, []byte(config), 0o600)
}

// WriteKey makes a key pair without a certificate and writes NAME.key and NAME.pub.
func WriteKey(dir, name string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	if err := writePEM(filepath.Join(dir, name+".pub"), "PUBLIC KEY", public); err != nil {
		return err
	}
	return writePrivate(dir, name, key)
}

func certificate(subject pkix.Name) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      subject,
		// An hour back, for clocks that differ a little between machine and containers' checks.
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(lifetime),
		BasicConstraintsValid: true,
	}
}

func write(dir, name string, der []byte, key *ecdsa.PrivateKey) error {
	if err := writePEM(filepath.Join(dir, name+".crt"), "CERTIFICATE", der); err != nil {
		return err
	}
	return writePrivate(dir, name, key)
}

func writePrivate(dir, name string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return writePEM(filepath.Join(dir, name+".key"), "EC PRIVATE KEY", der)
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
