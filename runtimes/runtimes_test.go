package runtimes_test

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/gitfn/gitfn/runtimes"
)

func TestWithImages(t *testing.T) {
	digest := "sha256:" + strings.Repeat("a", 64)
	rows := []struct {
		name   string
		images map[string]string
		err    string
	}{
		{name: "an image by digest is taken", images: map[string]string{"nodejs22": "localhost:1/x@" + digest}},
		{name: "none is fine: the runtime is then refused where it is asked for"},
		{name: "a tag is refused: it may move", images: map[string]string{"nodejs22": "localhost:1/x:1"}, err: "must end with @sha256:"},
		{name: "half a digest is refused", images: map[string]string{"nodejs22": "x@sha256:abc"}, err: "must end with @sha256:"},
		{name: "an unknown runtime is refused, and the known ones are named", images: map[string]string{"cobol": "x@" + digest}, err: "known are nodejs20, nodejs22, nodejs24, nodejs26"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			g := NewWithT(t)
			catalogue, err := runtimes.Default().WithImages(row.images)
			if row.err != "" {
				g.Expect(err).To(MatchError(ContainSubstring(row.err)))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			for name, image := range row.images {
				g.Expect(catalogue[name].Image).To(Equal(image))
				g.Expect(catalogue[name].Digest()).To(Equal(digest))
			}
			g.Expect(runtimes.Default()["nodejs22"].Image).To(BeEmpty(), "the shipped catalogue stays as it is")
		})
	}
}

func TestRowsAreComplete(t *testing.T) {
	for name, row := range runtimes.Default() {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(row.Name).To(Equal(name))
			g.Expect(row.Language).NotTo(BeEmpty())
			g.Expect(row.Handler).NotTo(BeEmpty())
			g.Expect(row.Manifest).NotTo(BeEmpty())
			g.Expect(row.Dir).To(HavePrefix("/"))
			g.Expect(row.Modules).NotTo(BeEmpty())
			g.Expect(row.Modules).NotTo(HavePrefix("/"))
			_, err := time.Parse(time.DateOnly, row.EndOfLife)
			g.Expect(err).NotTo(HaveOccurred())
		})
	}
}
