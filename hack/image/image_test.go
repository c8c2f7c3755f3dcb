package main

import (
	"archive/tar"
	"bytes"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	. "github.com/onsi/gomega"
)

func TestTreeBecomesTheSameTarWhateverTheOrder(t *testing.T) {
	g := NewWithT(t)
	first, second := tree{}, tree{}
	first.addFile("b/c", 0o755, []byte("1"))
	first.addLink("a", "b/c")
	first.addDir("tmp", 0o777|os.ModeSticky)
	second.addDir("tmp", 0o777|os.ModeSticky)
	second.addLink("a", "b/c")
	second.addDir("b", 0o755)
	second.addFile("b/c", 0o755, []byte("1"))
	var one, two bytes.Buffer
	g.Expect(first.writeTo(&one)).To(Succeed())
	g.Expect(second.writeTo(&two)).To(Succeed())
	g.Expect(one.Bytes()).To(Equal(two.Bytes()))

	var seen []string
	for tr := tar.NewReader(&one); ; {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect([]int{h.Uid, h.Gid}).To(Equal([]int{0, 0}))
		g.Expect(h.ModTime.Unix()).To(BeZero())
		seen = append(seen, h.Name)
		if h.Name == "tmp/" {
			g.Expect(h.Mode).To(Equal(int64(0o1777)))
		}
	}
	g.Expect(seen).To(Equal([]string{"a", "b/", "b/c", "tmp/"}))
}

func TestAddTarKeepsWhatIsAskedFor(t *testing.T) {
	g := NewWithT(t)
	var archive bytes.Buffer
	tw := tar.NewWriter(&archive)
	for _, h := range []tar.Header{
		{Name: "./bin/program", Typeflag: tar.TypeReg, Mode: 0o4755, Uid: 7, Size: 2},
		{Name: "./bin/twin", Typeflag: tar.TypeLink, Linkname: "./bin/program"},
		{Name: "./bin/link", Typeflag: tar.TypeSymlink, Linkname: "program"},
		{Name: "./dev/null", Typeflag: tar.TypeChar},
		{Name: "./doc/page", Typeflag: tar.TypeReg},
	} {
		g.Expect(tw.WriteHeader(&h)).To(Succeed())
		_, err := tw.Write(make([]byte, h.Size))
		g.Expect(err).NotTo(HaveOccurred())
	}
	g.Expect(tw.Close()).To(Succeed())
	got := tree{}
	g.Expect(got.addTar(&archive, func(p string) (string, bool) { return "x/" + p, !strings.HasPrefix(p, "doc") })).To(Succeed())
	g.Expect(got).To(Equal(tree{
		"x/bin/program": {mode: 0o755, data: []byte{0, 0}},
		"x/bin/twin":    {mode: 0o755, data: []byte{0, 0}},
		"x/bin/link":    {mode: os.ModeSymlink | 0o777, link: "program"},
	}))
}

func TestDebianTreeHasItsOwnCertificatesAndAccounts(t *testing.T) {
	g := NewWithT(t)
	root := tree{}
	root.addFile("usr/share/ca-certificates/mozilla/B.crt", 0o644, []byte("b\n"))
	root.addFile("usr/share/ca-certificates/mozilla/A.crt", 0o644, []byte("a\n"))
	root.addFile("usr/share/doc/dash/copyright", 0o644, []byte("licence"))
	root.addFile("usr/share/doc/dash/changelog.gz", 0o644, nil)
	root.addFile("etc/resolv.conf", 0o644, []byte("the machine's"))
	root.addFile("usr/bin/dash", 0o755, nil)
	var archive bytes.Buffer
	g.Expect(root.writeTo(&archive)).To(Succeed())
	got, certificates, err := debianTree(&archive)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(certificates)).To(Equal("a\nb\n"))
	g.Expect(got[certificatePath].data).To(Equal(certificates))
	g.Expect(string(got["etc/passwd"].data)).To(ContainSubstring(":10001:"))
	for path, there := range map[string]bool{
		"usr/bin/dash": true, "usr/share/doc/dash/copyright": true,
		"usr/share/doc/dash/changelog.gz": false, "etc/resolv.conf": false,
	} {
		_, ok := got[path]
		g.Expect(ok).To(Equal(there), path)
	}
}

func TestSameInputsGiveTheSameImage(t *testing.T) {
	g := NewWithT(t)
	digests := map[v1.Hash]bool{}
	for range 2 {
		img := newImage(t, t.TempDir(), "one")
		g.Expect(validate.Image(img)).To(Succeed())
		digest, err := img.Digest()
		g.Expect(err).NotTo(HaveOccurred())
		digests[digest] = true
	}
	g.Expect(digests).To(HaveLen(1))
	digest, err := newImage(t, t.TempDir(), "two").Digest()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(digests).NotTo(HaveKey(digest))
}

func TestCacheMakesALayerOnce(t *testing.T) {
	g := NewWithT(t)
	w := &workshop{cache: cache{dir: t.TempDir()}}
	made := 0
	content := func() (tree, error) { made++; return tree{}, nil }
	for _, inputs := range []string{"a", "a", "b"} {
		_, err := w.layer("kind", inputs, content)
		g.Expect(err).NotTo(HaveOccurred())
	}
	g.Expect(made).To(Equal(2))

	_, err := w.layer("kind", "broken", func() (tree, error) { return nil, os.ErrInvalid })
	g.Expect(err).To(MatchError(os.ErrInvalid))
	_, err = w.layer("kind", "broken", content)
	g.Expect(err).NotTo(HaveOccurred())
	left, err := filepath.Glob(filepath.Join(w.cache.dir, "new-*"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(left).To(BeEmpty())
}

func TestTarIsAnOCILayoutWithTheReference(t *testing.T) {
	g := NewWithT(t)
	img := newImage(t, t.TempDir(), "one")
	file := filepath.Join(t.TempDir(), "out", "one.tar")
	g.Expect(writeTar(img, "gitfn.local/gitfn/one:dev", file)).To(Succeed())

	f, err := os.Open(file)
	g.Expect(err).NotTo(HaveOccurred())
	defer f.Close()
	content := tree{}
	g.Expect(content.addTar(f, func(p string) (string, bool) { return p, true })).To(Succeed())
	dir := t.TempDir()
	for p, e := range content {
		g.Expect(os.MkdirAll(filepath.Dir(filepath.Join(dir, p)), 0o755)).To(Succeed())
		g.Expect(os.WriteFile(filepath.Join(dir, p), e.data, 0o644)).To(Succeed())
	}
	path, err := layout.FromPath(dir)
	g.Expect(err).NotTo(HaveOccurred())
	index, err := path.ImageIndex()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(validate.Index(index)).To(Succeed())
	manifest, err := index.IndexManifest()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(manifest.Manifests).To(HaveLen(1))
	g.Expect(manifest.Manifests[0].Annotations).To(HaveKeyWithValue("io.containerd.image.name", "gitfn.local/gitfn/one:dev"))
}

func TestPushGivesTheReferenceByDigest(t *testing.T) {
	g := NewWithT(t)
	server := httptest.NewServer(registry.New())
	t.Cleanup(server.Close)
	img := newImage(t, t.TempDir(), "one")
	password := filepath.Join(t.TempDir(), "password")
	g.Expect(os.WriteFile(password, []byte("word\n"), 0o600)).To(Succeed())
	prefix := strings.TrimPrefix(server.URL, "http://") + "/team"
	got, err := push(t.Context(), img, "one", "dev", PushOptions{Prefix: prefix, Username: "me", PasswordFile: password, Insecure: true})
	g.Expect(err).NotTo(HaveOccurred())
	digest, err := img.Digest()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got).To(Equal(prefix + "/one@" + digest.String()))

	reference, err := name.ParseReference(got)
	g.Expect(err).NotTo(HaveOccurred())
	pulled, err := remote.Image(reference)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(validate.Image(pulled)).To(Succeed())
}

func TestOptions(t *testing.T) {
	for _, row := range []struct {
		name, args, problem string
		want                func(*WithT, Options)
	}{
		{name: "flags may follow the names", args: "out manager --tag v1 builder", want: func(g *WithT, o Options) {
			g.Expect(o.OutDir).To(Equal("out"))
			g.Expect(o.Names).To(Equal([]string{"manager", "builder"}))
			g.Expect(o.Version).To(Equal("v1"))
		}},
		{name: "an unknown image is refused", args: "out nothing", problem: `no image is named "nothing"`},
		{name: "no image at all is refused", args: "out", problem: "no image named"},
		{name: "the registry needs its program", args: "out registry", problem: "--registry-binary"},
		{name: "a tag that no registry takes is refused", args: "out manager --tag a/b", problem: "--tag"},
	} {
		t.Run(row.name, func(t *testing.T) {
			g := NewWithT(t)
			o, err := parseOptions(strings.Fields(row.args+" --cache-dir x"), io.Discard)
			if row.problem != "" {
				g.Expect(err).To(MatchError(ContainSubstring(row.problem)))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			row.want(g, o)
		})
	}
}

// newImage assembles an image of two small layers with a cache of its own.
func newImage(t *testing.T, cacheDir, content string) v1.Image {
	t.Helper()
	g := NewWithT(t)
	w := &workshop{cache: cache{dir: cacheDir}}
	var layers []v1.Layer
	for _, p := range []string{"etc/passwd", "gitfn/program"} {
		layer, err := w.layer("test", []string{p, content}, func() (tree, error) {
			files := tree{}
			files.addFile(p, 0o755, []byte(content))
			return files, nil
		})
		g.Expect(err).NotTo(HaveOccurred())
		layers = append(layers, layer)
	}
	img, err := assemble(v1.Config{User: "10001", Entrypoint: []string{"/gitfn/program"}}, layers...)
	g.Expect(err).NotTo(HaveOccurred())
	return img
}
