package registry

import (
	"context"
	"fmt"
	"runtime"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// Image returns an image, of a list the one for this machine's architecture. Its
// manifest is read here, and all else with the same context when it is asked for.
// Errors match ErrNotFound, ErrAuth or ErrUnavailable.
func (c *Client) Image(ctx context.Context, reference string) (v1.Image, error) {
	ref, err := ParseReference(reference, c.address)
	if err != nil {
		return nil, fmt.Errorf("read image: %w", err)
	}
	descriptor, err := c.puller.Get(ctx, ref)
	if err != nil {
		return nil, fmt.Errorf("read image %s: %w", ref, Classify(err))
	}
	if !descriptor.MediaType.IsIndex() {
		return descriptor.Image()
	}
	index, err := descriptor.ImageIndex()
	if err != nil {
		return nil, fmt.Errorf("read image %s: %w", ref, Classify(err))
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, fmt.Errorf("read image %s: %w", ref, Classify(err))
	}
	for _, child := range manifest.Manifests {
		if p := child.Platform; p != nil && p.OS == "linux" && p.Architecture == runtime.GOARCH && child.MediaType.IsImage() {
			image, err := index.Image(child.Digest)
			if err != nil {
				return nil, fmt.Errorf("read image %s: %w", ref, Classify(err))
			}
			return image, nil
		}
	}
	return nil, fmt.Errorf("read image %s: %w: it has none for linux/%s", ref, ErrNotFound, runtime.GOARCH)
}

// Upload sends a layer to a repository unless it is there. A layer of an image
// in another repository of the same registry, as LayersOf gives it, is mounted
// if the registry can do that. Errors match ErrAuth or ErrUnavailable.
func (c *Client) Upload(ctx context.Context, repository string, layer v1.Layer) error {
	repo, err := name.NewRepository(repository, nameOptions(repository, c.address)...)
	if err != nil {
		return fmt.Errorf("push layer: %w", err)
	}
	if err := c.pusher.Upload(ctx, repo, layer); err != nil {
		return fmt.Errorf("push layer to %s: %w", repo, Classify(err))
	}
	return nil
}

// LayersOf lists the layers of an image that stands at reference, such that
// Upload may mount them.
func (c *Client) LayersOf(reference string, image v1.Image) ([]v1.Layer, error) {
	ref, err := ParseReference(reference, c.address)
	if err != nil {
		return nil, fmt.Errorf("list layers: %w", err)
	}
	layers, err := image.Layers()
	if err != nil {
		return nil, fmt.Errorf("list layers of %s: %w", ref, Classify(err))
	}
	for i, layer := range layers {
		layers[i] = &remote.MountableLayer{Layer: layer, Reference: ref}
	}
	return layers, nil
}

// Put sends configuration and manifest of an image whose layers are there, and
// returns its digest. Errors match ErrAuth or ErrUnavailable.
func (c *Client) Put(ctx context.Context, reference string, image v1.Image) (string, error) {
	ref, err := ParseReference(reference, c.address)
	if err != nil {
		return "", fmt.Errorf("push image: %w", err)
	}
	digest, err := image.Digest()
	if err != nil {
		return "", fmt.Errorf("push image %s: %w", ref, err)
	}
	config, err := partial.ConfigLayer(image)
	if err != nil {
		return "", fmt.Errorf("push image %s: %w", ref, err)
	}
	if err := c.pusher.Upload(ctx, ref.Context(), config); err != nil {
		return "", fmt.Errorf("push image %s: %w", ref, Classify(err))
	}
	if err := c.pusher.Put(ctx, ref, image); err != nil {
		return "", fmt.Errorf("push image %s: %w", ref, Classify(err))
	}
	return digest.String(), nil
}
