package gateway_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
	. "github.com/onsi/gomega"

	"github.com/gitfn/gitfn/registry/gateway"
	"github.com/gitfn/gitfn/registry/tenant"
)

// The tests run behind a stand-in that checks tokens as distribution does. With
// -distribution=<file> they run behind the program itself, with the
// configuration that is installed.
var distribution = flag.String("distribution", "", "distribution's registry `program` to test with")

func newBackend(t *testing.T, key tenant.Key) *url.URL {
	t.Helper()
	if *distribution != "" {
		return startDistribution(t, key)
	}
	g := NewWithT(t)
	believer := newBeliever(g, gateway.JWKS(key))
	believer.next = registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(believer)
	t.Cleanup(server.Close)
	address, err := url.Parse(server.URL)
	g.Expect(err).NotTo(HaveOccurred())
	return address
}

func startDistribution(t *testing.T, key tenant.Key) *url.URL {
	t.Helper()
	g := NewWithT(t)
	dir := t.TempDir()
	jwks := filepath.Join(dir, "jwks.json")
	g.Expect(os.WriteFile(jwks, gateway.JWKS(key), 0o600)).To(Succeed())
	address := freeAddress(g)
	program := exec.Command(*distribution, "serve", "../../config/registry/config.yml")
	program.Env = []string{
		"REGISTRY_HTTP_ADDR=" + address,
		"REGISTRY_STORAGE_FILESYSTEM_ROOTDIRECTORY=" + filepath.Join(dir, "registry"),
		"REGISTRY_AUTH_TOKEN_JWKS=" + jwks,
		"OTEL_TRACES_EXPORTER=none",
	}
	program.Stderr = t.Output()
	g.Expect(program.Start()).To(Succeed())
	t.Cleanup(func() {
		_ = program.Process.Kill() // its data goes with the folder
		_ = program.Wait()
	})
	g.Eventually(func() error {
		response, err := http.Get("http://" + address + "/v2/")
		if err == nil {
			response.Body.Close()
		}
		return err
	}, 20*time.Second).Should(Succeed())
	return &url.URL{Scheme: "http", Host: address}
}

func freeAddress(g *WithT) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	defer listener.Close()
	return listener.Addr().String()
}

// believer lets through whoever brings a token of the key set that holds the
// access which distribution would ask for.
type believer struct {
	key  ed25519.PublicKey
	kid  string
	next http.Handler
}

func newBeliever(g *WithT, jwks []byte) *believer {
	var set struct{ Keys []struct{ Kid, X string } }
	g.Expect(json.Unmarshal(jwks, &set)).To(Succeed())
	g.Expect(set.Keys).To(HaveLen(1))
	key, err := base64.RawURLEncoding.DecodeString(set.Keys[0].X)
	g.Expect(err).NotTo(HaveOccurred())
	return &believer{key: key, kid: set.Keys[0].Kid}
}

type access struct {
	Type, Name string
	Actions    []string
}

var apiPath = regexp.MustCompile(`^/v2/(.+)/(?:manifests|blobs|tags)/`)

func (b *believer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	wanted := wants(r)
	held, err := b.read(r.Header.Get("Authorization"))
	for _, want := range wanted {
		if err == nil && !slices.ContainsFunc(held, want.in) {
			err = fmt.Errorf("token lacks %s", want)
		}
	}
	if err == nil {
		b.next.ServeHTTP(w, r)
		return
	}
	texts := make([]string, len(wanted))
	for i, want := range wanted {
		texts[i] = want.String()
	}
	realm := r.Header.Get("X-Forwarded-Proto") + "://" + r.Host + gateway.TokenPath
	w.Header().Set("WWW-Authenticate", fmt.Sprintf("Bearer realm=%q,service=%q,scope=%q", realm, gateway.Service, strings.Join(texts, " ")))
	http.Error(w, `{"errors":[{"code":"UNAUTHORIZED","message":"`+err.Error()+`"}]}`, http.StatusUnauthorized)
}

func wants(r *http.Request) []access {
	if r.URL.Path == "/v2/_catalog" {
		return []access{{"registry", "catalog", []string{"*"}}}
	}
	match := apiPath.FindStringSubmatch(r.URL.Path)
	if match == nil {
		return nil
	}
	actions := []string{"pull", "push"}
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		actions = []string{"pull"}
	case http.MethodDelete:
		actions = []string{"delete"}
	}
	wanted := []access{{"repository", match[1], actions}}
	if from := r.FormValue("from"); from != "" {
		wanted = append(wanted, access{"repository", from, []string{"pull"}})
	}
	return wanted
}

func (a access) String() string {
	return a.Type + ":" + a.Name + ":" + strings.Join(a.Actions, ",")
}

func (a access) in(held access) bool {
	for _, action := range a.Actions {
		if !slices.Contains(held.Actions, action) {
			return false
		}
	}
	return a.Type == held.Type && a.Name == held.Name
}

func (b *believer) read(authorization string) ([]access, error) {
	parts := strings.Split(strings.TrimPrefix(authorization, "Bearer "), ".")
	if len(parts) != 3 {
		return nil, fmt.Errorf("token required")
	}
	var header struct{ Alg, Kid string }
	var body struct {
		Iss, Aud string
		Exp, Nbf int64
		Access   []access
	}
	signature, _ := base64.RawURLEncoding.DecodeString(parts[2])
	now := time.Now().Unix()
	switch {
	case !ed25519.Verify(b.key, []byte(parts[0]+"."+parts[1]), signature):
		return nil, fmt.Errorf("signature is wrong")
	case read(parts[0], &header) != nil || header.Alg != "EdDSA" || header.Kid != b.kid:
		return nil, fmt.Errorf("header is wrong")
	case read(parts[1], &body) != nil || body.Iss != gateway.Issuer || body.Aud != gateway.Service:
		return nil, fmt.Errorf("token is for somebody else")
	case now > body.Exp+60 || now < body.Nbf-60:
		return nil, fmt.Errorf("token is too old or too young")
	}
	return body.Access, nil
}

func read(part string, into any) error {
	text, err := base64.RawURLEncoding.DecodeString(part)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}
