package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	. "github.com/onsi/gomega"

	"github.com/gitfn/gitfn/registry/gateway"
	"github.com/gitfn/gitfn/registry/tenant"
)

const system = "gitfn-system"

// shop is a gateway with a registry behind it, and all that was said to it.
type shop struct {
	key  tenant.Key
	url  string
	host string

	mu       sync.Mutex
	log      bytes.Buffer
	requests []string // method, path, status
}

func (s *shop) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.Write(p)
}

func open(t *testing.T, modify ...func(*gateway.Options)) *shop {
	t.Helper()
	s := &shop{key: tenant.NewKey()}
	o := gateway.Options{
		Key: s.key, Policy: tenant.Policy{System: system}, Registry: newBackend(t, s.key),
		Log: slog.New(slog.NewJSONHandler(s, nil)),
	}
	for _, m := range modify {
		m(&o)
	}
	server := httptest.NewServer(gateway.Handler(o))
	t.Cleanup(server.Close)
	s.url, s.host = server.URL, strings.TrimPrefix(server.URL, "http://")
	return s
}

// RoundTrip notes what the client asks, and takes every name for the gateway's.
func (s *shop) RoundTrip(r *http.Request) (*http.Response, error) {
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, s.host)
	}
	tr := &http.Transport{DialContext: dial, DisableKeepAlives: true}
	response, err := tr.RoundTrip(r)
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.requests = append(s.requests, r.Method+" "+r.URL.Path+"?"+r.URL.RawQuery+" "+response.Status)
	}
	return response, err
}

func (s *shop) as(t *testing.T, c tenant.Credential) []remote.Option {
	return []remote.Option{
		remote.WithContext(t.Context()), remote.WithTransport(s),
		remote.WithAuth(&authn.Basic{Username: c.Username, Password: c.Password}),
		remote.WithRetryBackoff(remote.Backoff{Duration: time.Millisecond, Steps: 1}),
	}
}

func (s *shop) ref(g *WithT, path string) name.Tag {
	tag, err := name.NewTag(s.host + "/" + path)
	g.Expect(err).NotTo(HaveOccurred())
	return tag
}

func newImage(g *WithT) v1.Image {
	image, err := random.Image(3000, 2)
	g.Expect(err).NotTo(HaveOccurred())
	return image
}

// code is the HTTP status and the registry's word for an error of the client.
func code(err error) (int, string) {
	var refusal *transport.Error
	if !errors.As(err, &refusal) || len(refusal.Errors) == 0 {
		return 0, ""
	}
	return refusal.StatusCode, string(refusal.Errors[0].Code)
}

func TestWhoMayPushWhere(t *testing.T) {
	s := open(t)
	for _, tt := range []struct {
		name       string
		credential tenant.Credential
		to         string
		status     int
		code       string
		says       string
	}{
		{name: "a namespace pushes its own image", credential: s.key.Credential("a", tenant.Push), to: "a/fn:1"},
		{name: "a namespace pushes a nested repository", credential: s.key.Credential("a", tenant.Push), to: "a/fn/deps:1"},
		{name: "the system namespace pushes a runtime", credential: s.key.Credential(system, tenant.Push), to: system + "/runtimes/nodejs22:1"},
		{name: "a namespace does not push to another", credential: s.key.Credential("a", tenant.Push), to: "b/fn:1",
			status: 403, code: "DENIED", says: "credential of namespace a cannot push to b/fn"},
		{name: "a namespace does not push to one whose name begins alike", credential: s.key.Credential("a", tenant.Push), to: "a-b/fn:1",
			status: 403, code: "DENIED", says: "cannot push to a-b/fn"},
		{name: "a namespace does not push a runtime", credential: s.key.Credential("a", tenant.Push), to: system + "/runtimes/nodejs22:1",
			status: 403, code: "DENIED", says: "cannot push to gitfn-system/runtimes/nodejs22"},
		{name: "a pull credential does not push at home", credential: s.key.Credential("a", tenant.Pull), to: "a/fn:1",
			status: 403, code: "DENIED", says: "cannot push to a/fn"},
		{name: "a wrong password is refused", credential: tenant.Credential{Username: "a.push", Password: "guess"}, to: "a/fn:1",
			status: 401, code: "UNAUTHORIZED", says: "user name or password refused"},
		{name: "the password of another installation is refused", credential: tenant.NewKey().Credential("a", tenant.Push), to: "a/fn:1",
			status: 401, code: "UNAUTHORIZED", says: "user name or password refused"},
		{name: "nobody is refused", credential: tenant.Credential{}, to: "a/fn:1",
			status: 401, code: "UNAUTHORIZED", says: "user name or password refused"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			err := remote.Write(s.ref(g, tt.to), newImage(g), s.as(t, tt.credential)...)
			status, word := code(err)
			g.Expect(status).To(Equal(tt.status))
			g.Expect(word).To(Equal(tt.code))
			if tt.says == "" {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			g.Expect(err).To(MatchError(ContainSubstring(tt.says)))
		})
	}
}

func TestWhoMayPullWhat(t *testing.T) {
	s := open(t)
	g := NewWithT(t)
	for path, owner := range map[string]string{
		"a/fn:1": "a", "b/fn:1": "b", system + "/runtimes/nodejs22:1": system, system + "/builder:1": system, system + "/secret:1": system,
	} {
		g.Expect(remote.Write(s.ref(g, path), newImage(g), s.as(t, s.key.Credential(owner, tenant.Push))...)).To(Succeed())
	}
	manager := s.key.Credential(system, tenant.Manage)
	for _, tt := range []struct {
		name       string
		credential tenant.Credential
		from       string
		status     int
	}{
		{name: "a pull credential pulls at home", credential: s.key.Credential("a", tenant.Pull), from: "a/fn:1"},
		{name: "a push credential pulls at home", credential: s.key.Credential("a", tenant.Push), from: "a/fn:1"},
		{name: "everybody pulls runtimes", credential: s.key.Credential("a", tenant.Pull), from: system + "/runtimes/nodejs22:1"},
		{name: "everybody pulls the builder", credential: s.key.Credential("b", tenant.Pull), from: system + "/builder:1"},
		{name: "the manager pulls everything", credential: manager, from: "b/fn:1"},
		{name: "a namespace does not pull from another", credential: s.key.Credential("a", tenant.Pull), from: "b/fn:1", status: 403},
		{name: "a namespace does not pull the rest of the system's", credential: s.key.Credential("a", tenant.Pull), from: system + "/secret:1", status: 403},
		{name: "a manager of another namespace is nobody", credential: s.key.Credential("a", tenant.Manage), from: "b/fn:1", status: 403},
		{name: "nobody pulls nothing", credential: tenant.Credential{}, from: system + "/runtimes/nodejs22:1", status: 401},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			_, err := remote.Get(s.ref(g, tt.from), s.as(t, tt.credential)...)
			status, _ := code(err)
			g.Expect(status).To(Equal(tt.status), "%v", err)
		})
	}
	t.Run("a pin that is not there is 404 for who may pull it", func(t *testing.T) {
		g := NewWithT(t)
		_, err := remote.Get(s.ref(g, "b/fn:other"), s.as(t, manager)...)
		status, _ := code(err)
		g.Expect(status).To(Equal(http.StatusNotFound))
	})
}

func TestLayersOfARuntimeAreMounted(t *testing.T) {
	g := NewWithT(t)
	s := open(t)
	base := s.ref(g, system+"/runtimes/nodejs22:1")
	g.Expect(remote.Write(base, newImage(g), s.as(t, s.key.Credential(system, tenant.Push))...)).To(Succeed())

	push := s.as(t, s.key.Credential("a", tenant.Push))
	image, err := remote.Image(base, push...)
	g.Expect(err).NotTo(HaveOccurred())
	layer, err := random.Layer(500, "application/vnd.oci.image.layer.v1.tar+gzip")
	g.Expect(err).NotTo(HaveOccurred())
	image, err = mutate.AppendLayers(image, layer)
	g.Expect(err).NotTo(HaveOccurred())
	s.requests = nil
	g.Expect(remote.Write(s.ref(g, "a/fn:1"), image, push...)).To(Succeed())

	var mounted, uploaded int
	for _, line := range s.requests {
		switch {
		case strings.HasPrefix(line, "POST ") && strings.Contains(line, "mount=") && strings.HasSuffix(line, "201 Created"):
			mounted++
		case strings.HasPrefix(line, "PATCH "):
			uploaded++
		}
	}
	if *distribution != "" { // the stand-in has all blobs in all repositories
		g.Expect(mounted).To(Equal(2), "%v", s.requests)
	}
	g.Expect(uploaded).To(Equal(2), "the new layer and the config: %v", s.requests)
}

func TestMountFromAnotherNamespaceIsRefused(t *testing.T) {
	g := NewWithT(t)
	s := open(t)
	image := newImage(g)
	g.Expect(remote.Write(s.ref(g, "b/fn:1"), image, s.as(t, s.key.Credential("b", tenant.Push))...)).To(Succeed())
	layers, err := image.Layers()
	g.Expect(err).NotTo(HaveOccurred())
	digest, err := layers[0].Digest()
	g.Expect(err).NotTo(HaveOccurred())

	token := s.token(g, s.key.Credential("a", tenant.Push), "repository:a/fn:push,pull repository:b/fn:pull")
	response := s.send(g, http.MethodPost, s.url+"/v2/a/fn/blobs/uploads/?mount="+digest.String()+"&from=b/fn", token, nil)
	g.Expect(response.StatusCode).To(Equal(http.StatusUnauthorized))
}

func TestUploadInChunks(t *testing.T) {
	for _, tt := range []struct{ name, address string }{
		{"a client on the node comes back to localhost", "localhost:32137"},
		{"a client in a Pod comes back to the Service", "serverless-docker-registry.gitfn-system.svc.cluster.local:5000"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			s := open(t)
			address := &url.URL{Scheme: "http", Host: tt.address}

			challenge := s.send(g, http.MethodGet, address.JoinPath("/v2/").String(), "", nil).Header.Get("WWW-Authenticate")
			g.Expect(challenge).To(ContainSubstring(`realm="http://` + tt.address + `/auth/token"`))

			token := s.token(g, s.key.Credential("a", tenant.Push), "repository:a/fn:pull,push")
			blob := []byte("hello, world")
			at := address.JoinPath("/v2/a/fn/blobs/uploads/")
			at = s.next(g, at, s.send(g, http.MethodPost, at.String(), token, nil), http.StatusAccepted)
			for i, chunk := range [][]byte{blob[:5], blob[5:]} {
				ranges := []string{"0-4", "5-11"}
				response := s.send(g, http.MethodPatch, at.String(), token, chunk, "Content-Range", ranges[i])
				at = s.next(g, at, response, http.StatusAccepted)
				g.Expect(at.Host).To(Equal(tt.address))
			}
			digest, _, err := v1.SHA256(bytes.NewReader(blob))
			g.Expect(err).NotTo(HaveOccurred())
			query := at.Query()
			query.Set("digest", digest.String())
			at.RawQuery = query.Encode()
			at = s.next(g, at, s.send(g, http.MethodPut, at.String(), token, nil), http.StatusCreated)
			g.Expect(at.Host).To(Equal(tt.address))

			response := s.send(g, http.MethodGet, address.JoinPath("/v2/a/fn/blobs/", digest.String()).String(), token, nil)
			g.Expect(io.ReadAll(response.Body)).To(Equal(blob))
		})
	}
}

func TestOnlyTheManagerDeletes(t *testing.T) {
	g := NewWithT(t)
	s := open(t)
	pin := s.ref(g, "a/fn:1")
	push, manager := s.as(t, s.key.Credential("a", tenant.Push)), s.as(t, s.key.Credential(system, tenant.Manage))
	g.Expect(remote.Write(pin, newImage(g), push...)).To(Succeed())
	g.Expect(remote.Catalog(t.Context(), pin.Registry, manager...)).To(ConsistOf("a/fn"))
	_, err := remote.Catalog(t.Context(), pin.Registry, push...)
	g.Expect(err).To(HaveOccurred())

	token := s.token(g, s.key.Credential("a", tenant.Push), "repository:a/fn:push,pull,delete")
	response := s.send(g, http.MethodDelete, s.url+"/v2/a/fn/manifests/1", token, nil)
	g.Expect(response.StatusCode).To(Equal(http.StatusUnauthorized))
	g.Expect(remote.Delete(pin, manager...)).To(Succeed())
	_, err = remote.Head(pin, manager...)
	g.Expect(err).To(HaveOccurred())
}

func TestTokensEnd(t *testing.T) {
	g := NewWithT(t)
	s := open(t, func(o *gateway.Options) {
		o.Now = func() time.Time { return time.Now().Add(-10 * time.Minute) }
	})
	token := s.token(g, s.key.Credential("a", tenant.Push), "repository:a/fn:pull")
	response := s.send(g, http.MethodGet, s.url+"/v2/a/fn/tags/list", token, nil)
	g.Expect(response.StatusCode).To(Equal(http.StatusUnauthorized))
}

func TestTokenRequests(t *testing.T) {
	s := open(t)
	c := s.key.Credential("a", tenant.Push)
	form := func(grant, password string) url.Values {
		return url.Values{"grant_type": {grant}, "username": {c.Username}, "password": {password}, "client_id": {"containerd"},
			"service": {gateway.Service}, "scope": {"repository:a/fn:pull,push repository:" + system + "/runtimes/nodejs22:pull"}}
	}
	post := func(v url.Values) *http.Request {
		r := httptest.NewRequest(http.MethodPost, s.url+gateway.TokenPath, strings.NewReader(v.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		return r
	}
	get := func(query string) *http.Request {
		r := httptest.NewRequest(http.MethodGet, s.url+gateway.TokenPath+"?"+query, nil)
		r.SetBasicAuth(c.Username, c.Password)
		return r
	}
	for _, tt := range []struct {
		name    string
		request *http.Request
		status  int
		scope   string
	}{
		{name: "containerd asks by OAuth", request: post(form("password", c.Password)), status: 200,
			scope: "repository:a/fn:pull,push repository:gitfn-system/runtimes/nodejs22:pull"},
		{name: "OAuth with a wrong password is refused", request: post(form("password", "guess")), status: 401},
		{name: "a refresh token is not understood", request: post(form("refresh_token", c.Password)), status: 400},
		{name: "a form too large is refused", request: post(url.Values{"grant_type": {strings.Repeat("x", 70000)}}), status: 400},
		{name: "docker login asks for nothing", request: get("service=gitfn-registry&account=a.push"), status: 200},
		{name: "several scope parameters are one list", request: get("scope=repository:a/fn:pull&scope=repository:a/other:push,pull"), status: 200,
			scope: "repository:a/fn:pull repository:a/other:push,pull"},
		{name: "what is not granted is left away", request: get("scope=repository:a/fn:push,pull,delete&scope=repository:b/fn:pull"), status: 200,
			scope: "repository:a/fn:push,pull"},
		{name: "nothing granted is denied", request: get("scope=repository:b/fn:pull&scope=repository:c/fn:pull"), status: 403},
		{name: "a refused push is denied, whatever else is granted", request: get("scope=repository:a/fn:pull&scope=repository:b/fn:push,pull"), status: 403},
		{name: "a repository named with dots is denied", request: get("scope=repository:a/../b/fn:pull"), status: 403},
		{name: "a repository of another host is denied", request: get("scope=repository:evil.example:443/a/fn:pull"), status: 403},
		{name: "the catalogue is denied", request: get("scope=registry:catalog:*"), status: 403},
		{name: "a scope without actions is refused", request: get("scope=repository"), status: 400},
		{name: "another method is refused", request: httptest.NewRequest(http.MethodPut, s.url+gateway.TokenPath, nil), status: 405},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			tt.request.RequestURI = ""
			response, err := s.RoundTrip(tt.request)
			g.Expect(err).NotTo(HaveOccurred())
			defer response.Body.Close()
			g.Expect(response.StatusCode).To(Equal(tt.status))
			var answer struct {
				Token, Scope string
				AccessToken  string `json:"access_token"`
				ExpiresIn    int    `json:"expires_in"`
			}
			g.Expect(json.NewDecoder(response.Body).Decode(&answer)).To(Succeed())
			g.Expect(answer.Scope).To(Equal(tt.scope))
			if tt.status == http.StatusOK {
				g.Expect(answer.ExpiresIn).To(Equal(300))
				g.Expect(answer.Token).NotTo(BeEmpty())
				g.Expect(answer.AccessToken).To(Equal(answer.Token))
			}
		})
	}
}

func TestTLSBeforeTheGatewayIsSeenInTheRealm(t *testing.T) {
	g := NewWithT(t)
	s := open(t)
	response := s.send(g, http.MethodGet, "http://registry.example/v2/", "", nil,
		"X-Forwarded-Proto", "https", "X-Forwarded-Host", "evil.example", "X-Forwarded-Port", "1")
	g.Expect(response.Header.Get("WWW-Authenticate")).To(ContainSubstring(`realm="https://registry.example/auth/token"`))
}

func TestHealth(t *testing.T) {
	g := NewWithT(t)
	s := open(t)
	g.Expect(s.send(g, http.MethodGet, s.url+"/healthz", "", nil).StatusCode).To(Equal(http.StatusOK))

	alone := open(t, func(o *gateway.Options) { o.Registry = &url.URL{Scheme: "http", Host: freeAddress(g)} })
	g.Expect(alone.send(g, http.MethodGet, alone.url+"/healthz", "", nil).StatusCode).To(Equal(http.StatusServiceUnavailable))
	g.Expect(alone.send(g, http.MethodGet, alone.url+"/livez", "", nil).StatusCode).To(Equal(http.StatusOK))

	_, err := remote.Get(alone.ref(g, "a/fn:1"), alone.as(t, s.key.Credential("a", tenant.Pull))...)
	g.Expect(err).To(MatchError(ContainSubstring("the registry does not answer; try again")))
}

func TestLogHoldsNoCredential(t *testing.T) {
	g := NewWithT(t)
	s := open(t)
	c := s.key.Credential("a", tenant.Push)
	g.Expect(remote.Write(s.ref(g, "a/fn:1"), newImage(g), s.as(t, c)...)).To(Succeed())
	g.Expect(remote.Write(s.ref(g, "b/fn:1"), newImage(g), s.as(t, c)...)).NotTo(Succeed())
	pasted := tenant.Credential{Username: c.Password, Password: c.Username}
	g.Expect(remote.Write(s.ref(g, "a/fn:1"), newImage(g), s.as(t, pasted)...)).NotTo(Succeed())

	text := s.log.String()
	g.Expect(text).To(And(ContainSubstring("token issued"), ContainSubstring("access denied"), ContainSubstring("credential refused")))
	g.Expect(text).NotTo(ContainSubstring(c.Password))
	g.Expect(text).NotTo(ContainSubstring("eyJ"), "the beginning of every token")
}

func (s *shop) token(g *WithT, c tenant.Credential, scopes string) string {
	request, err := http.NewRequest(http.MethodGet, s.url+gateway.TokenPath+"?"+url.Values{"scope": {scopes}}.Encode(), nil)
	g.Expect(err).NotTo(HaveOccurred())
	request.SetBasicAuth(c.Username, c.Password)
	response, err := s.RoundTrip(request)
	g.Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close()
	var answer struct{ Token string }
	g.Expect(json.NewDecoder(response.Body).Decode(&answer)).To(Succeed())
	return answer.Token
}

func (s *shop) send(g *WithT, method, address, token string, body []byte, headers ...string) *http.Response {
	request, err := http.NewRequest(method, address, bytes.NewReader(body))
	g.Expect(err).NotTo(HaveOccurred())
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := s.RoundTrip(request)
	g.Expect(err).NotTo(HaveOccurred())
	return response
}

// next is where an upload goes on.
func (s *shop) next(g *WithT, at *url.URL, response *http.Response, status int) *url.URL {
	body, _ := io.ReadAll(response.Body)
	g.Expect(response.StatusCode).To(Equal(status), "%s", body)
	next, err := at.Parse(response.Header.Get("Location"))
	g.Expect(err).NotTo(HaveOccurred())
	return next
}
