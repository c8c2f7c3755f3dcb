package executor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/sync/errgroup"

	"github.com/gitfn/gitfn/builder"
	"github.com/gitfn/gitfn/builder/cache"
	"github.com/gitfn/gitfn/registry"
)

// push puts the layers on top of the base image, where the pin says.
func push(ctx context.Context, o *options) (*builder.Result, error) {
	client, err := o.client()
	if err != nil {
		return nil, err
	}
	working, cancel := context.WithCancelCause(ctx)
	p := &pusher{options: o, client: client, ctx: working, cancel: cancel}
	// The image of the dependencies may still be on its way when the report is written.
	defer o.background.Go(func() { p.pending.Wait(); cancel(nil) })
	result, err := p.push()
	return result, o.classified(working, builder.StagePush, err)
}

// pusher is one push. What it needs of the registry is under way while it waits
// for the stages before.
type pusher struct {
	*options
	client *registry.Client
	// ctx is that of the stage, which cancel ends when the time for work is up.
	ctx    context.Context
	cancel context.CancelCauseFunc
	group  errgroup.Group

	base   v1.Image
	layers []v1.Layer // above the base, in order; hides the volume of that name
	result builder.Result
	began  time.Time
	// pending is what still uses ctx.
	pending sync.WaitGroup
}

func (p *pusher) push() (*builder.Result, error) {
	p.result.Seconds = map[builder.Stage]float64{}
	p.start(p.prepareBase)
	p.start(p.collect)
	if err := p.group.Wait(); err != nil {
		return nil, context.Cause(p.ctx) // the first error, and not what came of it
	}
	image, err := assemble(p.plan, p.base, p.layers)
	if err != nil {
		return nil, fmt.Errorf("assemble image: %w", err)
	}
	if p.result.Digest, err = p.client.Put(p.ctx, p.plan.Pin(), image); err != nil {
		return nil, err
	}
	p.pending.Go(func() { p.tell(p.ctx) })
	p.result.Seconds[builder.StagePush] = time.Since(p.began).Seconds()
	return &p.result, nil
}

// start does a part of the work beside the others, and stops them if it fails.
func (p *pusher) start(part func() error) {
	p.group.Go(func() error {
		err := part()
		if err != nil {
			p.cancel(err)
		}
		return err
	})
}

// prepareBase reads the base image's manifest and configuration, and has its
// layers mounted, or copied from another registry. Nothing of it is unpacked.
func (p *pusher) prepareBase() error {
	image, err := p.client.Image(p.ctx, p.plan.Base)
	if err != nil {
		return err
	}
	if _, err := image.ConfigFile(); err != nil {
		return fmt.Errorf("read base image: %w", registry.Classify(err))
	}
	layers, err := p.client.LayersOf(p.plan.Base, image)
	if err != nil {
		return err
	}
	p.base = image
	for _, layer := range layers {
		p.upload(layer)
	}
	return nil
}

func (p *pusher) upload(layer v1.Layer) {
	p.start(func() error { return p.client.Upload(p.ctx, p.plan.Repository, layer) })
}

// collect waits for the stages before, and sends what they left as soon as it is there.
func (p *pusher) collect() error {
	word, err := p.awaitFetched(p.ctx)
	if err != nil {
		return err
	}
	source := &layer{*word.Source, filepath.Join(p.source, fileSourceLayer)}
	p.upload(source)
	p.result.DependencyKey, p.result.Cached = word.DependencyKey, word.Cached != nil
	p.result.Floating = word.DependencyKey != "" && !word.Locked
	p.result.SourceBytes = word.Source.Size
	p.result.Seconds[builder.StageFetch] = word.Seconds

	var dependencies *layer
	switch {
	case word.installs():
		began := time.Now()
		if err := p.awaitInstalled(p.ctx); err != nil {
			return err
		}
		p.result.Seconds[builder.StageInstall] = time.Since(began).Seconds()
		p.work()
		if dependencies, err = p.takeDependencies(); err != nil {
			return err
		}
		p.start(func() error { return p.keepDependencies(dependencies, word.DependencyKey) })
	case word.Cached != nil:
		p.work()
		dependencies = &layer{layerFacts: *word.Cached}
		p.upload(dependencies) // makes sure of it
	default:
		p.work()
	}
	if dependencies != nil {
		p.layers = append(p.layers, dependencies)
		p.result.DependencyBytes = dependencies.layerFacts.Size
	}
	p.layers = append(p.layers, source)
	return nil
}

// work begins the time that is limited: nobody is waited for any more.
func (p *pusher) work() {
	p.began = time.Now()
	stop := time.AfterFunc(p.timeout, func() { p.cancel(errTimeout) })
	context.AfterFunc(p.ctx, func() { stop.Stop() })
}

// takeDependencies reads what install wrote, once, and makes a layer of it that
// install can no longer touch.
func (p *pusher) takeDependencies() (*layer, error) {
	in, err := openPlain(filepath.Join(p.options.layers, fileDeps))
	if err != nil {
		return nil, &builder.StepError{Class: builder.ClassInstallFailed, Message: "install left no dependencies: " + err.Error()}
	}
	defer in.Close()
	file := filepath.Join(p.tmp, "deps.tar.gz")
	facts, err := packLayer(file, func(w io.Writer) error {
		return cache.CopyInstalled(ctxWriter{p.ctx, w}, in, p.runtime, p.limits)
	})
	if errors.Is(err, cache.ErrUnsafe) {
		return nil, &builder.StepError{Class: builder.ClassInstallFailed, Message: err.Error()}
	}
	if err != nil {
		return nil, fmt.Errorf("make dependency layer: %w", err)
	}
	return &layer{facts, file}, nil
}

// keepDependencies sends the layer, and an image of it alone, under the key by
// which the next build finds it. The Function does not wait for that image.
func (p *pusher) keepDependencies(dependencies *layer, key string) error {
	if err := p.client.Upload(p.ctx, p.plan.Repository, dependencies); err != nil {
		return err
	}
	p.pending.Go(func() {
		image, err := assemble(builder.Plan{}, empty.Image, []v1.Layer{dependencies})
		if err == nil {
			_, err = p.client.Put(p.ctx, dependencyTag(p.plan, key), image)
		}
		if err != nil {
			fmt.Fprintln(p.out, "the next build installs again:", builder.Printable(err.Error()))
		}
	})
	return nil
}

// Labels of images, facts of the plan alone.
const (
	labelTree   = "serverless.kyma-project.io/tree"
	labelRecipe = "serverless.kyma-project.io/recipe"
	labelBase   = "org.opencontainers.image.base.digest"
	labelBaseOf = "org.opencontainers.image.base.name"
)

// assemble appends the layers to the base. The same plan gives the same digest.
// A plan without a tree gives an image that is only a place for layers.
func assemble(plan builder.Plan, base v1.Image, layers []v1.Layer) (v1.Image, error) {
	kind := types.OCILayer
	if plan.Tree == "" {
		base = mutate.ConfigMediaType(mutate.MediaType(base, types.OCIManifestSchema1), types.OCIConfigJSON)
	} else if media, err := base.MediaType(); err != nil {
		return nil, err
	} else if media == types.DockerManifestSchema2 {
		kind = types.DockerLayer // one image is of one kind throughout
	}
	created := v1.Time{Time: cache.Epoch}
	var additions []mutate.Addendum
	for _, layer := range layers {
		additions = append(additions, mutate.Addendum{Layer: layer, MediaType: kind, History: v1.History{Created: created, CreatedBy: "gitfn"}})
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
	config.Created = created
	if plan.Tree == "" {
		config.OS, config.Architecture, _ = strings.Cut(platform, "/")
	} else {
		label(config, plan)
	}
	return mutate.ConfigFile(image, config)
}

func label(config *v1.ConfigFile, plan builder.Plan) {
	if config.Config.Labels == nil {
		config.Config.Labels = map[string]string{}
	}
	baseName, _, _ := strings.Cut(plan.Base, "@")
	_, repository, _ := strings.Cut(baseName, "/") // the host differs from cluster to cluster
	config.Config.Labels[labelTree] = plan.Tree
	config.Config.Labels[labelRecipe] = strconv.Itoa(plan.Recipe)
	config.Config.Labels[labelBase] = plan.BaseDigest()
	config.Config.Labels[labelBaseOf] = repository
}

// hintTimeout is how long the manager may take to take a hint.
const hintTimeout = time.Second

// tell hints to the manager that the pin is there. It is only a hint: if it is
// lost, the end of the Pod tells the same.
func (o *options) tell(ctx context.Context) {
	if o.hint == "" {
		return
	}
	body, err := json.Marshal(map[string]string{"pin": o.plan.Pin()})
	if err != nil {
		return
	}
	client := http.Client{
		Timeout:       hintTimeout,
		Transport:     &http.Transport{}, // no proxy: the manager is in the cluster
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, o.hint, bytes.NewReader(body))
	if err != nil {
		return
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := client.Do(request)
	if err != nil {
		fmt.Fprintln(o.out, "hint to the manager:", builder.Printable(err.Error()))
		return
	}
	answer.Body.Close()
}
