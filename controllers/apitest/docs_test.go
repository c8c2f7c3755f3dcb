package apitest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io/fs"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
	"github.com/gitfn/gitfn/gitsource"
)

var fence = regexp.MustCompile("(?s)```(yaml|sh)\n(.*?)```")

// blocks are the fenced blocks of a language in a page.
func blocks(page, language string) (texts []string) {
	for _, match := range fence.FindAllStringSubmatch(page, -1) {
		if match[1] == language {
			texts = append(texts, match[2])
		}
	}
	return texts
}

// pages are the texts for users, by path.
func pages(t *testing.T) map[string]string {
	t.Helper()
	root := filepath.Join("..", "..")
	texts := map[string]string{}
	read := func(path string) {
		text, err := os.ReadFile(path)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		texts[path] = string(text)
	}
	read(filepath.Join(root, "README.md"))
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".md") {
			read(path)
		}
		return err
	})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return texts
}

// TestDocsShowManifestsThatTheAPITakes sends every manifest of the docs, and every
// gitRepository as part of one, and lets the controllers' own rules look too.
func TestDocsShowManifestsThatTheAPITakes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seen := 0
	for path, page := range pages(t) {
		for _, text := range blocks(page, "yaml") {
			object := &unstructured.Unstructured{}
			w.Expect(yaml.UnmarshalStrict([]byte(text), &object.Object)).To(Succeed(), "%s:\n%s", path, text)
			if git, found := object.Object["gitRepository"]; found {
				part := map[string]any{"source": map[string]any{"gitRepository": git}, "runtime": "nodejs22"}
				object.Object = map[string]any{"spec": part}
				object.SetGroupVersionKind(functionv1.GroupVersion.WithKind("Function"))
			}
			if object.GetKind() != "Function" {
				continue
			}
			object.SetName("")
			object.SetGenerateName("docs-")
			object.SetNamespace(w.namespace)
			strict := client.WithFieldValidation(w.client, "Strict")
			w.Expect(strict.Create(w.ctx, object, client.DryRunAll)).To(Succeed(), "%s:\n%s", path, text)
			fn := &functionv1.Function{}
			plain, err := json.Marshal(object)
			w.Expect(err).NotTo(HaveOccurred())
			w.Expect(json.Unmarshal(plain, fn)).To(Succeed())
			w.Expect(functionv1.Validate(fn)).To(BeEmpty(), "%s:\n%s", path, text)
			if git := fn.Spec.Source.GitRepository; git != nil {
				w.Expect(gitsource.CheckURL(git.URL)).To(Succeed(), "%s:\n%s", path, text)
			}
			seen++
		}
	}
	w.Expect(seen).To(BeNumerically(">", 8))
}

// TestDocsShowSecretsThatAreRead runs the commands of the page about sources, and
// reads what they make as the manifest behind them says.
func TestDocsShowSecretsThatAreRead(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "sources.md"))
	g.Expect(err).NotTo(HaveOccurred())
	secrets := docSecrets(t, string(page))
	read := map[functionv1.AuthType]int{}
	for _, text := range blocks(string(page), "yaml") {
		var part struct{ GitRepository functionv1.GitRepository }
		g.Expect(yaml.Unmarshal([]byte(text), &part)).To(Succeed())
		if v := part.GitRepository.Verification; v != nil {
			g.Expect(secrets).To(HaveKey(v.SecretName))
		}
		auth := part.GitRepository.Auth
		if auth == nil {
			continue
		}
		g.Expect(secrets).To(HaveKey(auth.SecretName))
		for _, data := range secrets[auth.SecretName] {
			_, err := gitsource.ParseCredentials(gitsource.AuthKind(auth.Type), data)
			g.Expect(err).NotTo(HaveOccurred(), text)
			read[auth.Type]++
		}
	}
	g.Expect(read).To(And(HaveKey(functionv1.AuthBasic), HaveKey(functionv1.AuthKey), HaveKey(functionv1.AuthGitHubApp)))
}

// docSecrets runs the commands that make Secrets, each with the files that it
// names, and returns the data of each Secret by its name.
func docSecrets(t *testing.T, page string) map[string][]map[string][]byte {
	t.Helper()
	g := NewWithT(t)
	dir := t.TempDir()
	certificate, key := clientCertificate(t)
	for name, content := range map[string]string{
		"app.pem": appKey(t), "ca.crt": certificate, "robot.crt": certificate, "robot.key": key,
		"ada.pub": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIvUFX9RYqXJIC9eBbXLVKcOJqZbTGQpGJ2AiQ9HLrCN ada\n", "bob.asc": "-----BEGIN PGP PUBLIC KEY BLOCK-----\n",
	} {
		g.Expect(os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600)).To(Succeed())
	}
	run := func(command string) []byte {
		cmd := exec.Command("sh", "-c", command)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "TOKEN=a-token", "PATH="+os.Getenv("KUBEBUILDER_ASSETS")+":"+os.Getenv("PATH"))
		out, err := cmd.Output()
		g.Expect(err).NotTo(HaveOccurred(), command)
		return out
	}
	secrets := map[string][]map[string][]byte{}
	for _, block := range blocks(page, "sh") {
		for command := range strings.Lines(strings.ReplaceAll(block, "\\\n", " ")) {
			command, _, _ = strings.Cut(strings.TrimSpace(command), " --dry-run=client")
			if !strings.HasPrefix(command, "kubectl ") {
				run(command)
				continue
			}
			var secret corev1.Secret
			g.Expect(json.Unmarshal(run(command+" --dry-run=client --output=json"), &secret)).To(Succeed())
			secrets[secret.Name] = append(secrets[secret.Name], secret.Data)
		}
	}
	return secrets
}

// appKey is the private key of a GitHub App.
func appKey(t *testing.T) string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
}

// clientCertificate is a certificate and its key.
func clientCertificate(t *testing.T) (certificate, key string) {
	t.Helper()
	g := NewWithT(t)
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	g.Expect(err).NotTo(HaveOccurred())
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	g.Expect(err).NotTo(HaveOccurred())
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	g.Expect(err).NotTo(HaveOccurred())
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}))
}
