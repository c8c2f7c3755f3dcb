package registry

import (
	"bytes"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	ggcr "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	. "github.com/onsi/gomega"

	"github.com/gitfn/gitfn/gitsource/dialer"
)

// store is a registry that gives another answer where a test says so, and
// remembers what it was asked.
type store struct {
	mu     sync.Mutex
	answer int
	body   string
	asked  []string
	// mounts makes blobs belong to repositories, as in a real registry: what is
	// not in ns/fn can be mounted there.
	mounts bool
}

func (s *store) handler() http.Handler {
	real := ggcr.New(ggcr.Logger(log.New(io.Discard, "", 0)))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.asked = append(s.asked, r.Method+" "+r.URL.RequestURI())
		answer, body, mounts := s.answer, s.body, s.mounts
		s.mu.Unlock()
		if mounts && r.Method == http.MethodHead && strings.HasPrefix(r.URL.Path, "/v2/ns/fn/blobs/") {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		if mounts && r.URL.Query().Get("from") == "system/base" {
			w.WriteHeader(http.StatusCreated)
			return
		}
		if answer != 0 && r.URL.Path != "/v2/" {
			w.WriteHeader(answer)
			fmt.Fprint(w, body)
			return
		}
		real.ServeHTTP(w, r)
	})
}

func startStore(t *testing.T) (*store, string) {
	s := &store{}
	server := httptest.NewServer(s.handler())
	t.Cleanup(server.Close)
	return s, strings.TrimPrefix(server.URL, "http://")
}

func plain(host string) Address { return Address{Push: host, Pull: host, PlainHTTP: true} }

func TestDigest(t *testing.T) {
	rows := []struct {
		name, tag string
		answer    int
		body      string
		away      bool
		want      error
	}{
		{name: "an image that is there has its digest", tag: "ns/fn:key"},
		{name: "an unknown tag is not found", tag: "ns/fn:other", want: ErrNotFound},
		{name: "an unknown repository is not found", tag: "ns/no:key", want: ErrNotFound},
		{name: "Harbor's word for unknown is not found", tag: "ns/fn:key", answer: 404, body: `{"errors":[{"code":"NOT_FOUND","message":"project ns not found"}]}`, want: ErrNotFound},
		{name: "a 404 that names nothing is no answer", tag: "ns/fn:key", answer: 404, body: "<html>nginx</html>", want: ErrUnavailable},
		{name: "a 404 of another kind is no answer", tag: "ns/fn:key", answer: 404, body: `{"errors":[{"code":"UNSUPPORTED"}]}`, want: ErrUnavailable},
		{name: "a refused credential is no answer", tag: "ns/fn:key", answer: http.StatusForbidden, want: ErrAuth},
		{name: "a missing credential is no answer", tag: "ns/fn:key", answer: http.StatusUnauthorized, want: ErrAuth},
		{name: "a fault of the registry is no answer", tag: "ns/fn:key", answer: http.StatusInsufficientStorage, want: ErrUnavailable},
		{name: "too many requests is no answer", tag: "ns/fn:key", answer: http.StatusTooManyRequests, want: ErrUnavailable},
		{name: "a registry that is away is no answer", tag: "ns/fn:key", away: true, want: ErrUnavailable},
		{name: "a reference that is none is no answer", tag: "ns/fn:key:key", want: nil},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			s, host := startStore(t)
			image, err := random.Image(64, 1)
			g.Expect(err).NotTo(HaveOccurred())
			tag, err := name.ParseReference(host + "/ns/fn:key")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(remote.Write(tag, image)).To(Succeed())
			digest, err := image.Digest()
			g.Expect(err).NotTo(HaveOccurred())
			s.answer, s.body = row.answer, row.body
			if row.away {
				host = "127.0.0.1:1"
			}
			got, err := New(plain(host), "u", "p").Digest(t.Context(), host+"/"+row.tag)
			switch {
			case row.want != nil:
				g.Expect(err).To(MatchError(row.want))
				for _, other := range []error{ErrNotFound, ErrAuth, ErrUnavailable} {
					g.Expect(other == row.want || !strings.Contains(err.Error(), other.Error())).To(BeTrue(), "one meaning alone")
				}
			case row.tag == "ns/fn:key":
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(got).To(Equal(digest.String()))
			default:
				g.Expect(err).To(HaveOccurred())
			}
		})
	}
}

func TestTransport(t *testing.T) {
	t.Run("plain HTTP is not spoken to a registry that is not said to", func(t *testing.T) {
		g := NewWithT(t)
		s, host := startStore(t)
		_, err := New(Address{Push: host, Pull: host}, "u", "p").Digest(t.Context(), host+"/ns/fn:key")
		g.Expect(err).To(MatchError(ErrUnavailable))
		g.Expect(err).To(MatchError(ContainSubstring("not configured for plain HTTP")))
		g.Expect(s.asked).To(BeEmpty())
	})
	t.Run("authorities of the bundle are trusted, others not", func(t *testing.T) {
		g := NewWithT(t)
		server := httptest.NewTLSServer((&store{}).handler())
		t.Cleanup(server.Close)
		server.Config.ErrorLog = log.New(io.Discard, "", 0)
		host := strings.TrimPrefix(server.URL, "https://")
		bundle := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
		keys, err := DockerConfig([]byte("{}"))
		g.Expect(err).NotTo(HaveOccurred())
		trusting, err := NewWithKeys(Address{Push: host}, keys, Options{Roots: bundle})
		g.Expect(err).NotTo(HaveOccurred())
		_, err = trusting.Digest(t.Context(), host+"/ns/fn:key")
		g.Expect(err).To(MatchError(ErrNotFound))
		_, err = New(Address{Push: host}, "", "").Digest(t.Context(), host+"/ns/fn:key")
		g.Expect(err).To(MatchError(ErrUnavailable))
		_, err = NewWithKeys(Address{Push: host}, keys, Options{Roots: []byte("no PEM")})
		g.Expect(err).To(HaveOccurred())
	})
}

// TestReach wants of every address that a user or a registry can name that the dialer looks at it.
func TestReach(t *testing.T) {
	loopback := dialer.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	rows := []struct {
		name string
		// registry answers at the trusted address, with elsewhere as another one.
		registry func(w http.ResponseWriter, r *http.Request, elsewhere string)
		// reference is asked for, where host and elsewhere are filled in.
		reference string
	}{
		{name: "another registry than the trusted one", reference: "%[2]s/ns/fn:key"},
		{name: "the realm that the registry names", reference: "%[1]s/ns/fn:key", registry: func(w http.ResponseWriter, r *http.Request, elsewhere string) {
			// By name: go-containerregistry refuses a literal address by itself.
			realm := strings.Replace(elsewhere, "127.0.0.1", "localhost", 1)
			w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="http://%s/token",service="registry"`, realm))
			w.WriteHeader(http.StatusUnauthorized)
		}},
		{name: "where the registry redirects to", reference: "%[1]s/ns/fn:key", registry: func(w http.ResponseWriter, r *http.Request, elsewhere string) {
			if r.URL.Path == "/v2/" {
				return
			}
			http.Redirect(w, r, "http://"+elsewhere+r.URL.Path, http.StatusTemporaryRedirect)
		}},
	}
	for _, row := range rows {
		for _, allowed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, allowed %v", row.name, allowed), func(t *testing.T) {
				t.Parallel()
				g := NewWithT(t)
				var asked atomic.Int32
				elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					asked.Add(1)
					w.WriteHeader(http.StatusNotFound)
				}))
				t.Cleanup(elsewhere.Close)
				there := strings.TrimPrefix(elsewhere.URL, "http://")
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { row.registry(w, r, there) }))
				t.Cleanup(server.Close)
				host := strings.TrimPrefix(server.URL, "http://")
				o := Options{}
				if allowed {
					o.Policy = loopback
				}
				client, err := NewWithKeys(plain(host), Credential(host, "u", "p"), o)
				g.Expect(err).NotTo(HaveOccurred())
				_, err = client.Digest(t.Context(), fmt.Sprintf(row.reference, host, there))
				g.Expect(err).To(HaveOccurred())
				g.Expect(errors.Is(err, dialer.ErrRefused)).To(Equal(!allowed), "%v", err)
				g.Expect(asked.Load() > 0).To(Equal(allowed))
			})
		}
	}
	t.Run("a proxy that is none", func(t *testing.T) {
		_, err := NewWithKeys(plain("registry.example"), Credential("", "", ""), Options{Proxy: "canary"})
		NewWithT(t).Expect(err).To(MatchError(And(ContainSubstring("read proxy"), Not(ContainSubstring("canary")))))
	})
	t.Run("the administrator's proxy", func(t *testing.T) {
		t.Parallel()
		g := NewWithT(t)
		var seen atomic.Value
		proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			seen.Store(r.Host)
			w.WriteHeader(http.StatusNotFound)
		}))
		t.Cleanup(proxy.Close)
		address := Address{Push: "registry.example:5000", PlainHTTP: true}
		client, err := NewWithKeys(address, Credential("", "", ""), Options{Proxy: proxy.URL, NoProxy: "other.example"})
		g.Expect(err).NotTo(HaveOccurred())
		_, err = client.Digest(t.Context(), "registry.example:5000/ns/fn:key")
		g.Expect(err).To(MatchError(ErrUnavailable))
		g.Expect(seen.Load()).To(Equal("registry.example:5000"))
	})
}

func TestDockerConfig(t *testing.T) {
	auth := func(user, password string) string {
		return base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
	}
	config := fmt.Sprintf(`{"auths":{
		"registry.svc:5000":{"auth":%q},
		"https://index.docker.io/v1/":{"username":"hub","password":"a:b"},
		"gcr.example/project":{"auth":%q},
		"gcr.example":{"auth":%q},
		"token.example":{"identitytoken":"refresh"}
	}}`, auth("a", "b:c"), auth("project", "p"), auth("all", "p"))
	rows := []struct{ name, repository, user, password string }{
		{"a host has its credential", "registry.svc:5000/ns/fn", "a", "b:c"},
		{"another port is another host", "registry.svc:5001/ns/fn", "", ""},
		{"Docker Hub is known by its old name", "library/node", "hub", "a:b"},
		{"the longest beginning wins", "gcr.example/project/fn", "project", "p"},
		{"a longer word is no part of a path", "gcr.example/project-b/fn", "all", "p"},
		{"an unknown host has none", "elsewhere.example/fn", "", ""},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			g := NewWithT(t)
			keys, err := DockerConfig([]byte(config))
			g.Expect(err).NotTo(HaveOccurred())
			repository, err := name.NewRepository(row.repository)
			g.Expect(err).NotTo(HaveOccurred())
			found, err := keys.Resolve(repository)
			g.Expect(err).NotTo(HaveOccurred())
			got, err := found.Authorization()
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect([]string{got.Username, got.Password}).To(Equal([]string{row.user, row.password}))
		})
	}
	for _, bad := range []string{"", "secret-text", `{"auths":{"h":{"auth":"secret-text!"}}}`, `{"auths":"secret-text"}`} {
		g := NewWithT(t)
		_, err := DockerConfig([]byte(bad))
		g.Expect(err).To(HaveOccurred())
		g.Expect(err.Error()).NotTo(ContainSubstring("secret-text"))
	}
}

func TestPush(t *testing.T) {
	g := NewWithT(t)
	s, host := startStore(t)
	client := New(plain(host), "", "")
	base, err := random.Image(128, 2)
	g.Expect(err).NotTo(HaveOccurred())
	at, err := name.ParseReference(host + "/system/base:1")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(remote.Write(at, base)).To(Succeed())

	read, err := client.Image(t.Context(), host+"/system/base:1")
	g.Expect(err).NotTo(HaveOccurred())
	layers, err := client.LayersOf(host+"/system/base:1", read)
	g.Expect(err).NotTo(HaveOccurred())
	s.mounts, s.asked = true, nil
	for _, layer := range layers {
		g.Expect(client.Upload(t.Context(), host+"/ns/fn", layer)).To(Succeed())
	}
	g.Expect(s.asked).To(HaveLen(2+2*2), "two greetings, one for each scope; look and mount for each layer: %v", s.asked)
	g.Expect(s.asked[3]).To(ContainSubstring("from=system%2Fbase&mount=sha256"), "base layers are mounted, not read")
	s.mounts = false
	own, err := random.Layer(64, types.DockerLayer)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(client.Upload(t.Context(), host+"/ns/fn", own)).To(Succeed())
	image, err := mutate.AppendLayers(read, own)
	g.Expect(err).NotTo(HaveOccurred())
	digest, err := client.Put(t.Context(), host+"/ns/fn:key", image)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(client.Digest(t.Context(), host+"/ns/fn:key")).To(Equal(digest))
	pushed, err := client.Image(t.Context(), host+"/ns/fn@"+digest)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(validate.Image(pushed)).To(Succeed())

	s.answer = http.StatusForbidden
	_, err = client.Put(t.Context(), host+"/ns/fn:key", image)
	g.Expect(err).To(MatchError(ErrAuth))
	// What a client has sent it does not send again, so another one asks.
	g.Expect(New(plain(host), "", "").Upload(t.Context(), host+"/ns/fn", own)).To(MatchError(ErrAuth))
}

func TestImageOfAList(t *testing.T) {
	g := NewWithT(t)
	_, host := startStore(t)
	client := New(plain(host), "", "")
	mine, err := random.Image(16, 1)
	g.Expect(err).NotTo(HaveOccurred())
	other, err := random.Image(16, 1)
	g.Expect(err).NotTo(HaveOccurred())
	add := func(image v1.Image, architecture string) mutate.IndexAddendum {
		return mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: architecture}}}
	}
	for reference, list := range map[string]v1.ImageIndex{
		host + "/list:both":  mutate.AppendManifests(empty.Index, add(other, "s390x"), add(mine, runtime.GOARCH)),
		host + "/list:other": mutate.AppendManifests(empty.Index, add(other, "s390x")),
	} {
		ref, err := name.ParseReference(reference)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(remote.WriteIndex(ref, list)).To(Succeed())
	}
	got, err := client.Image(t.Context(), host+"/list:both")
	g.Expect(err).NotTo(HaveOccurred())
	gotText, err := got.RawManifest()
	g.Expect(err).NotTo(HaveOccurred())
	wantText, err := mine.RawManifest()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(bytes.Equal(gotText, wantText)).To(BeTrue())
	_, err = client.Image(t.Context(), host+"/list:other")
	g.Expect(err).To(MatchError(ErrNotFound))
	g.Expect(err).To(MatchError(ContainSubstring("linux/" + runtime.GOARCH)))
}

func TestAddress(t *testing.T) {
	g := NewWithT(t)
	address := Address{Push: "registry.svc:5000", Pull: "localhost:32137"}
	g.Expect(address.ForPush("localhost:32137/ns/fn@sha256:1")).To(Equal("registry.svc:5000/ns/fn@sha256:1"))
	g.Expect(address.ForPull("registry.svc:5000/ns/fn:1")).To(Equal("localhost:32137/ns/fn:1"))
	g.Expect(address.ForPull("elsewhere/fn:1")).To(Equal("elsewhere/fn:1"), "a foreign reference stays as it is")
	g.Expect(address.ForPush("localhost:321370/fn:1")).To(Equal("localhost:321370/fn:1"), "a longer host is another host")
}
