package apitest

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	ggcr "github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// imageServer is a registry. With an answer set it gives that status to all who
// ask for a manifest.
type imageServer struct {
	t      testing.TB
	host   string
	answer atomic.Int32
}

func newImageServer(t testing.TB) *imageServer {
	s := &imageServer{t: t}
	images := ggcr.New(ggcr.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if code := int(s.answer.Load()); code != 0 && strings.Contains(r.URL.Path, "/manifests/") {
			w.WriteHeader(code)
			return
		}
		images.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	s.host = strings.TrimPrefix(server.URL, "http://")
	return s
}

// push makes an image and pushes it; it returns the digest.
func (s *imageServer) push(pin string) string {
	s.t.Helper()
	image, err := random.Image(64, 1)
	if err != nil {
		s.t.Fatal(err)
	}
	reference, err := name.ParseReference(pin, name.Insecure)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := remote.Write(reference, image); err != nil {
		s.t.Fatal(err)
	}
	digest, err := image.Digest()
	if err != nil {
		s.t.Fatal(err)
	}
	return digest.String()
}
