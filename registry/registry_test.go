package registry

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	ggcr "github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	. "github.com/onsi/gomega"
)

func TestDigest(t *testing.T) {
	store := ggcr.New()
	answer := 0 // what the registry answers instead, if not zero
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if answer != 0 && r.URL.Path != "/v2/" {
			http.Error(w, "no", answer)
			return
		}
		store.ServeHTTP(w, r)
	}))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	g := NewWithT(t)
	image, err := random.Image(64, 1)
	g.Expect(err).NotTo(HaveOccurred())
	tag, err := name.ParseReference(host + "/ns/fn:key")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(remote.Write(tag, image)).To(Succeed())
	digest, err := image.Digest()
	g.Expect(err).NotTo(HaveOccurred())

	rows := []struct {
		name, reference string
		answer          int
		want            error
	}{
		{name: "an image that is there has its digest", reference: host + "/ns/fn:key"},
		{name: "an unknown tag is not found", reference: host + "/ns/fn:other", want: ErrNotFound},
		{name: "an unknown repository is not found", reference: host + "/ns/no:key", want: ErrNotFound},
		{name: "a refused credential is no answer", reference: host + "/ns/fn:key", answer: http.StatusForbidden, want: ErrAuth},
		{name: "a fault of the registry is no answer", reference: host + "/ns/fn:key", answer: http.StatusInsufficientStorage, want: ErrUnavailable},
		{name: "too many requests is no answer", reference: host + "/ns/fn:key", answer: http.StatusTooManyRequests, want: ErrUnavailable},
		{name: "a registry that is away is no answer", reference: "127.0.0.1:1/ns/fn:key", want: ErrUnavailable},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			g := NewWithT(t)
			answer = row.answer
			got, err := New(Address{Push: host, Pull: host}, "u", "p").Digest(t.Context(), row.reference)
			if row.want != nil {
				g.Expect(err).To(MatchError(row.want))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got).To(Equal(digest.String()))
		})
	}
}

func TestAddress(t *testing.T) {
	g := NewWithT(t)
	address := Address{Push: "registry.svc:5000", Pull: "localhost:32137"}
	g.Expect(address.ForPush("localhost:32137/ns/fn@sha256:1")).To(Equal("registry.svc:5000/ns/fn@sha256:1"))
	g.Expect(address.ForPull("registry.svc:5000/ns/fn:1")).To(Equal("localhost:32137/ns/fn:1"))
	g.Expect(address.ForPull("elsewhere/fn:1")).To(Equal("elsewhere/fn:1"), "a foreign reference stays as it is")
	g.Expect(address.ForPush("localhost:321370/fn:1")).To(Equal("localhost:321370/fn:1"), "a longer host is another host")
}
