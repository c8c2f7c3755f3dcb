package e2e

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	. "github.com/onsi/gomega"
)

// Names of what gitfn puts into a namespace.
const (
	secretPush = "serverless-registry-config-default"
	secretPull = "serverless-registry-config-pull"
)

// credential is what a Secret of the namespace opens the registry with.
func (s *space) credential(secret string) authn.Authenticator {
	s.t.Helper()
	return &authn.Basic{Username: s.secretValue(secret, "username"), Password: s.secretValue(secret, "password")}
}

// repositoryOf is a repository of the internal registry as this machine reaches it.
func (s *space) repositoryOf(path string) name.Repository {
	s.t.Helper()
	repository, err := name.NewRepository(facts.Registry+"/"+path, name.Insecure)
	s.g.Expect(err).NotTo(HaveOccurred())
	return repository
}

// image pulls the image that a Function runs, by its digest.
func (s *space) image(function string) v1.Image {
	s.t.Helper()
	fn := s.function(function)
	s.g.Expect(digest(fn.Status.Image)).To(HavePrefix("sha256:"), "status.image of %s", function)
	image, err := remote.Image(s.repositoryOf(s.name+"/"+function).Digest(digest(fn.Status.Image)), remote.WithAuth(s.credential(secretPush)))
	s.g.Expect(err).NotTo(HaveOccurred())
	return image
}

// ownLayers are the layers of an image that are not of its base.
func (s *space) ownLayers(function string) []v1.Layer {
	s.t.Helper()
	_, path, _ := strings.Cut(s.function(function).Status.RuntimeImage, "/")
	path, baseDigest, _ := strings.Cut(path, "@")
	base, err := remote.Image(s.repositoryOf(path).Digest(baseDigest), remote.WithAuth(s.credential(secretPush)))
	s.g.Expect(err).NotTo(HaveOccurred(), "pull the base image")
	below, err := base.Manifest()
	s.g.Expect(err).NotTo(HaveOccurred())
	layers, err := s.image(function).Layers()
	s.g.Expect(err).NotTo(HaveOccurred())
	return slices.DeleteFunc(layers, func(layer v1.Layer) bool {
		digest, err := layer.Digest()
		s.g.Expect(err).NotTo(HaveOccurred())
		return slices.ContainsFunc(below.Layers, func(d v1.Descriptor) bool { return d.Digest == digest })
	})
}

// imageFile is one entry of a layer.
type imageFile struct {
	header  tar.Header
	content []byte
}

// files reads what gitfn added to the base image.
func (s *space) files(function string) (files []imageFile) {
	s.t.Helper()
	for _, layer := range s.ownLayers(function) {
		reader, err := layer.Uncompressed()
		s.g.Expect(err).NotTo(HaveOccurred())
		defer reader.Close()
		for archive := tar.NewReader(reader); ; {
			header, err := archive.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			s.g.Expect(err).NotTo(HaveOccurred())
			content, err := io.ReadAll(archive)
			s.g.Expect(err).NotTo(HaveOccurred())
			files = append(files, imageFile{*header, content})
		}
	}
	return files
}

// imageHides expects that no secret is in the layers or the configuration of an image.
func (s *space) imageHides(function string, secrets map[string]string) {
	s.t.Helper()
	config, err := s.image(function).RawConfigFile()
	s.g.Expect(err).NotTo(HaveOccurred())
	manifest, err := s.image(function).RawManifest()
	s.g.Expect(err).NotTo(HaveOccurred())
	files := s.files(function)
	s.g.Expect(files).NotTo(BeEmpty())
	for what, secret := range secrets {
		s.g.Expect(bytes.Contains(config, []byte(secret))).To(BeFalse(), "%s is in the image's configuration", what)
		s.g.Expect(bytes.Contains(manifest, []byte(secret))).To(BeFalse(), "%s is in the image's manifest", what)
		for _, file := range files {
			s.g.Expect(bytes.Contains(file.content, []byte(secret))).To(BeFalse(), "%s is in %s", what, file.header.Name)
		}
	}
}
