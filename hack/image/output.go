package main

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// describe gives the digest and the size of an image, as a registry would hold it.
func describe(img v1.Image) (line, error) {
	digest, err := img.Digest()
	if err != nil {
		return line{}, err
	}
	manifest, err := img.Manifest()
	if err != nil {
		return line{}, err
	}
	size, err := img.Size()
	if err != nil {
		return line{}, err
	}
	size += manifest.Config.Size
	for _, l := range manifest.Layers {
		size += l.Size
	}
	return line{Digest: digest.String(), Size: size}, nil
}

// writeTar writes img as an OCI layout in a tar, which containerd imports under reference. The
// file appears when it is complete.
func writeTar(img v1.Image, reference, file string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(file), ".image-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if err := writeLayout(f, img, reference); err != nil {
		return err
	}
	if err := f.Chmod(0o644); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), file)
}

func writeLayout(w io.Writer, img v1.Image, reference string) error {
	tag := reference[strings.LastIndex(reference, ":")+1:]
	descriptor, err := partial.Descriptor(img)
	if err != nil {
		return err
	}
	descriptor.ArtifactType = ""
	descriptor.Platform = &v1.Platform{OS: "linux", Architecture: "amd64"}
	descriptor.Annotations = map[string]string{
		"io.containerd.image.name":          reference,
		"org.opencontainers.image.ref.name": tag,
	}
	index, err := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: img, Descriptor: *descriptor}).RawManifest()
	if err != nil {
		return err
	}
	manifest, err := img.RawManifest()
	if err != nil {
		return err
	}
	config, err := img.RawConfigFile()
	if err != nil {
		return err
	}
	configName, err := img.ConfigName()
	if err != nil {
		return err
	}
	layers, err := img.Layers()
	if err != nil {
		return err
	}

	tw := tar.NewWriter(w)
	add := func(path string, size int64, r io.Reader) error {
		h := &tar.Header{Name: path, Mode: 0o644, Size: size, ModTime: time.Unix(0, 0), Format: tar.FormatPAX}
		if err := tw.WriteHeader(h); err != nil {
			return err
		}
		_, err := io.Copy(tw, r)
		return err
	}
	for _, file := range []struct {
		path string
		data []byte
	}{
		{"oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`)},
		{"index.json", index},
		{"blobs/sha256/" + descriptor.Digest.Hex, manifest},
		{"blobs/sha256/" + configName.Hex, config},
	} {
		if err := add(file.path, int64(len(file.data)), bytes.NewReader(file.data)); err != nil {
			return err
		}
	}
	for _, l := range layers {
		if err := addLayer(add, l); err != nil {
			return err
		}
	}
	return tw.Close()
}

func addLayer(add func(string, int64, io.Reader) error, l v1.Layer) error {
	digest, err := l.Digest()
	if err != nil {
		return err
	}
	size, err := l.Size()
	if err != nil {
		return err
	}
	r, err := l.Compressed()
	if err != nil {
		return err
	}
	defer r.Close()
	return add("blobs/sha256/"+digest.Hex, size, r)
}

// PushOptions say to which registry images go, and as whom.
type PushOptions struct {
	// Prefix is a registry and the path in it that the images' names are added to; empty
	// pushes nothing.
	Prefix string
	// DockerConfig is the directory of a config.json with credentials. Username and the
	// content of PasswordFile come before it; with neither, Docker's usual places are asked.
	DockerConfig           string
	Username, PasswordFile string
	// Insecure allows plain HTTP and certificates that nobody vouches for.
	Insecure bool
}

// push uploads img and gives its reference by digest.
func push(ctx context.Context, img v1.Image, image, tag string, o PushOptions) (string, error) {
	var parse []name.Option
	if o.Insecure {
		parse = append(parse, name.Insecure)
	}
	target, err := name.NewTag(o.Prefix+"/"+image+":"+tag, parse...)
	if err != nil {
		return "", err
	}
	auth, err := o.auth()
	if err != nil {
		return "", err
	}
	transport := remote.DefaultTransport
	if o.Insecure {
		t := remote.DefaultTransport.(*http.Transport).Clone()
		t.TLSClientConfig = &tls.Config{InsecureSkipVerify: true} //nolint:gosec // asked for by --insecure
		transport = t
	}
	if err := remote.Write(target, img, remote.WithContext(ctx), remote.WithTransport(transport), auth); err != nil {
		return "", err
	}
	digest, err := img.Digest()
	if err != nil {
		return "", err
	}
	return target.Context().Digest(digest.String()).String(), nil
}

func (o PushOptions) auth() (remote.Option, error) {
	if o.Username != "" {
		password, err := os.ReadFile(o.PasswordFile)
		if err != nil {
			return nil, fmt.Errorf("read --password-file: %w", err)
		}
		return remote.WithAuth(&authn.Basic{Username: o.Username, Password: strings.TrimRight(string(password), "\r\n")}), nil
	}
	if o.DockerConfig != "" {
		// The keychain knows no other way to be told.
		if err := os.Setenv("DOCKER_CONFIG", o.DockerConfig); err != nil {
			return nil, err
		}
	}
	return remote.WithAuthFromKeychain(authn.DefaultKeychain), nil
}
