package executor

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/gitfn/gitfn/builder"
	"github.com/gitfn/gitfn/builder/cache"
)

// push puts the layers on top of the base image, where the pin says.
func push(ctx context.Context, o *options) (*builder.Result, error) {
	store, err := o.store()
	if err != nil {
		return nil, err
	}
	// The base is read while the other stages work.
	base := make(chan baseImage, 1)
	go func() { base <- readBase(ctx, store, o.plan.Base) }()

	var word fetched
	if err := await(ctx, o.source, fileFetched, &word); err != nil {
		return nil, err
	}
	if word.Failed {
		return nil, errPredecessor
	}
	result := &builder.Result{
		DependencyKey: word.DependencyKey, Cached: word.Cached != "",
		Floating: word.DependencyKey != "" && !word.Locked,
		Seconds:  map[builder.Stage]float64{builder.StageFetch: word.Seconds},
	}
	var said installed
	if word.DependencyKey != "" && word.Cached == "" {
		if err := await(ctx, o.layers, fileInstalled, &said); err != nil {
			return nil, err
		}
		if said.Failed {
			return nil, errPredecessor
		}
		result.Seconds[builder.StageInstall] = said.Seconds
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	layers, err := o.layersOf(ctx, store, word, result)
	if err != nil {
		return nil, err
	}
	bottom := <-base
	if bottom.err != nil {
		return nil, bottom.err
	}
	image, err := assemble(o.plan, bottom.image, layers)
	if err != nil {
		return nil, fmt.Errorf("assemble image: %w", err)
	}
	if err := store.push(ctx, o.plan.Pin(), image); err != nil {
		return nil, err
	}
	o.tell(ctx)
	digest, err := image.Digest()
	if err != nil {
		return nil, err
	}
	result.Digest = digest.String()
	result.Seconds[builder.StagePush] = time.Since(began).Seconds()
	return result, nil
}

type baseImage struct {
	image v1.Image
	err   error
}

// readBase reads the manifest and the configuration of the base image.
func readBase(ctx context.Context, store *store, reference string) baseImage {
	image, err := store.image(ctx, reference)
	if err == nil {
		_, err = image.ConfigFile()
	}
	return baseImage{image, err}
}

// layersOf are the layers above the base: dependencies, if there are any, and
// the source.
func (o *options) layersOf(ctx context.Context, store *store, word fetched, result *builder.Result) ([]v1.Layer, error) {
	var layers []v1.Layer
	if word.DependencyKey != "" {
		layer, err := o.dependencyLayer(ctx, store, word)
		if err != nil {
			return nil, err
		}
		if result.DependencyBytes, err = layer.Size(); err != nil {
			return nil, err
		}
		layers = append(layers, layer)
	}
	source, err := tarball.LayerFromFile(filepath.Join(o.source, fileSourceLayer), tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, fmt.Errorf("read source layer: %w", err)
	}
	if result.SourceBytes, err = source.Size(); err != nil {
		return nil, err
	}
	return append(layers, source), nil
}

// dependencyLayer is the layer that the registry holds, or a new one, which it
// holds from then on.
func (o *options) dependencyLayer(ctx context.Context, store *store, word fetched) (v1.Layer, error) {
	if word.Cached != "" {
		image, err := store.image(ctx, o.plan.Repository+"@"+word.Cached)
		if err != nil {
			return nil, err
		}
		layers, err := image.Layers()
		if err != nil || len(layers) != 1 {
			return nil, errors.Join(err, fmt.Errorf("read dependency layer: the image has %d layers, not one", len(layers)))
		}
		return layers[0], nil
	}
	layer, err := o.newDependencyLayer()
	if err != nil {
		return nil, err
	}
	image, err := mutate.AppendLayers(ociEmpty(), layer)
	if err != nil {
		return nil, err
	}
	return layer, store.push(ctx, dependencyTag(o.plan, word.DependencyKey), image)
}

func ociEmpty() v1.Image {
	return mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
}

// newDependencyLayer reads what install wrote, once, and makes a layer of it
// that install can no longer touch.
func (o *options) newDependencyLayer() (_ v1.Layer, err error) {
	in, err := openPlain(filepath.Join(o.layers, fileDeps))
	if err != nil {
		return nil, &builder.StepError{Class: builder.ClassInstallFailed, Message: "install left no dependencies: " + err.Error()}
	}
	defer in.Close()
	name := filepath.Join(os.TempDir(), "deps.tar.gz")
	out, err := os.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	packed, err := gzip.NewWriterLevel(out, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	_, err = cache.CopyInstalled(packed, io.LimitReader(in, cache.DefaultLimits.Bytes), o.runtime.Dir, installedDir, cache.DefaultLimits)
	if err = errors.Join(err, packed.Close(), out.Close()); err != nil {
		if errors.Is(err, cache.ErrUnsafe) {
			return nil, &builder.StepError{Class: builder.ClassInstallFailed, Message: err.Error()}
		}
		return nil, fmt.Errorf("make dependency layer: %w", err)
	}
	return tarball.LayerFromFile(name, tarball.WithMediaType(types.OCILayer))
}

// Labels of images, facts of the plan alone.
const (
	labelTree   = "serverless.kyma-project.io/tree"
	labelRecipe = "serverless.kyma-project.io/recipe"
	labelBase   = "org.opencontainers.image.base.digest"
	labelBaseOf = "org.opencontainers.image.base.name"
)

// assemble appends the layers to the base. The same plan gives the same digest.
func assemble(plan builder.Plan, base v1.Image, layers []v1.Layer) (v1.Image, error) {
	var additions []mutate.Addendum
	for _, layer := range layers {
		additions = append(additions, mutate.Addendum{
			Layer:     layer,
			MediaType: types.OCILayer,
			History:   v1.History{Created: v1.Time{Time: time.Unix(0, 0).UTC()}, CreatedBy: "gitfn"},
		})
	}
	image, err := mutate.Append(base, additions...)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.Created = v1.Time{Time: time.Unix(0, 0).UTC()}
	if config.Config.Labels == nil {
		config.Config.Labels = map[string]string{}
	}
	baseName, baseDigest, _ := strings.Cut(plan.Base, "@")
	_, repository, _ := strings.Cut(baseName, "/") // the host differs from cluster to cluster
	config.Config.Labels[labelTree] = plan.Tree
	config.Config.Labels[labelRecipe] = strconv.Itoa(plan.Recipe)
	config.Config.Labels[labelBase] = baseDigest
	config.Config.Labels[labelBaseOf] = repository
	return mutate.ConfigFile(image, config)
}

// tell hints to the manager that the pin is there. It is only a hint: if it is
// lost, the end of the Pod tells the same.
func (o *options) tell(ctx context.Context) {
	if o.hint == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	body, err := json.Marshal(map[string]string{"pin": o.plan.Pin()})
	if err != nil {
		return
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, o.hint, bytes.NewReader(body))
	if err != nil {
		return
	}
	if answer, err := http.DefaultClient.Do(request); err == nil {
		answer.Body.Close()
	}
}
