package executor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gitfn/gitfn/builder"
	"github.com/gitfn/gitfn/builder/cache"
	"github.com/gitfn/gitfn/gitsource"
	"github.com/gitfn/gitfn/registry"
)

// platform is what images are built for: the node's own.
const platform = "linux/" + runtime.GOARCH

// fetch gets the files and says what there is to do.
func fetch(ctx context.Context, o *options) (*builder.Result, error) {
	began := time.Now()
	limited, cancel := o.limited(ctx)
	defer cancel()
	word, err := o.fetch(limited)
	if err = o.classified(limited, builder.StageFetch, err); err != nil {
		word = fetched{Failed: true}
	}
	word.Seconds = time.Since(began).Seconds()
	return nil, errors.Join(err, say(o.source, fileFetched, word))
}

func (o *options) fetch(ctx context.Context) (word fetched, err error) {
	tree, err := o.tree(ctx)
	if err != nil {
		return word, err
	}
	defer tree.Close()
	if err := o.checkTree(tree); err != nil {
		return word, err
	}
	inputs, err := cache.Select(o.runtime, tree)
	if err != nil {
		return word, classifyInputs(err)
	}
	files, err := cache.SourceFiles(o.runtime, tree, !inputs.None())
	if err != nil {
		return word, classifyInputs(err)
	}
	// The registry is asked while the layer is packed.
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		facts, err := packLayer(filepath.Join(o.source, fileSourceLayer), func(w io.Writer) error {
			return cache.WriteSource(w, tree, files, o.runtime.Dir)
		})
		word.Source = &facts
		return err
	})
	group.Go(func() (err error) {
		if inputs.None() {
			return nil
		}
		word.Locked = inputs.Locked
		facts := cache.Facts{Base: o.plan.BaseDigest(), Platform: platform, Recipe: o.plan.Recipe, Rebuild: o.plan.Rebuild}
		if word.DependencyKey, err = cache.Key(facts, inputs, tree); err != nil {
			return err
		}
		if word.Cached, err = o.cachedLayer(ctx, word.DependencyKey); err != nil || word.Cached != nil {
			return err
		}
		return o.writeInputs(tree, inputs)
	})
	return word, group.Wait()
}

// classifyInputs translates errors of package cache.
func classifyInputs(err error) error {
	switch {
	case errors.Is(err, cache.ErrForeignLock):
		return &builder.StepError{Class: builder.ClassInstallFailed, Message: err.Error()}
	case errors.Is(err, cache.ErrManifest), errors.Is(err, cache.ErrUnsafe):
		return &builder.StepError{Class: builder.ClassSourceInvalid, Message: err.Error()}
	}
	return err
}

// tree gets the files from where the plan says.
func (o *options) tree(ctx context.Context) (*gitsource.Tree, error) {
	if o.plan.Origin.Inline() {
		source, err := os.ReadFile(filepath.Join(o.inline, "source"))
		if err != nil {
			return nil, fmt.Errorf("read inline source: %w", err)
		}
		dependencies, err := os.ReadFile(filepath.Join(o.inline, "dependencies"))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("read inline dependencies: %w", err)
		}
		return gitsource.NewTree(builder.InlineFiles(o.runtime, string(source), string(dependencies)))
	}
	repository, err := o.repository()
	if err != nil {
		return nil, err
	}
	bundle, err := o.bundle()
	if err != nil {
		return nil, err
	}
	client, err := gitsource.New(gitsource.Options{
		CacheDir: filepath.Join(o.tmp, "mirror"), Allow: o.allow, Deny: o.deny, RootCAs: bundle, Timeout: o.timeout,
		Proxy: o.proxy, NoProxy: o.noProxy,
	})
	if err != nil {
		return nil, err
	}
	origin := o.plan.Origin
	tree, err := client.Fetch(ctx, repository, origin.Commit, gitsource.Selection{BaseDir: origin.BaseDir, Include: origin.Include, Submodules: origin.Submodules})
	if err != nil {
		return nil, classifyFetch(err)
	}
	return tree, nil
}

// repository is the Git source, with what its Secret holds.
func (o *options) repository() (gitsource.Repository, error) {
	repository := gitsource.Repository{URL: o.plan.Origin.URL}
	if o.gitCredentials == "" {
		return repository, nil
	}
	keys := map[string][]byte{}
	for _, key := range gitsource.SecretKeys() {
		value, err := os.ReadFile(filepath.Join(o.gitCredentials, key))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return repository, fmt.Errorf("read credentials of the Git source: %w", err)
		}
		keys[key] = value
	}
	var err error
	if repository.Credentials, err = gitsource.ParseCredentials(gitsource.AuthKind(o.gitAuth), keys); err != nil {
		return repository, classifyFetch(err)
	}
	return repository, nil
}

// classifyFetch translates errors of gitsource.
func classifyFetch(err error) error {
	for _, row := range []struct {
		err   error
		class builder.Class
	}{
		{gitsource.ErrAuth, builder.ClassGitAuth},
		{gitsource.ErrHostKey, builder.ClassGitHostKey},
		{gitsource.ErrRefNotFound, builder.ClassRefNotFound},
		{gitsource.ErrRepositoryNotFound, builder.ClassRefNotFound},
		{gitsource.ErrBaseDirNotFound, builder.ClassRefNotFound},
		{gitsource.ErrTooLarge, builder.ClassSourceTooLarge},
		{gitsource.ErrUnsafeTree, builder.ClassSourceInvalid},
		{gitsource.ErrAddressRefused, builder.ClassSourceInvalid},
		{gitsource.ErrInvalidURL, builder.ClassSourceInvalid},
		{gitsource.ErrUnsupported, builder.ClassSourceInvalid},
	} {
		if errors.Is(err, row.err) {
			return &builder.StepError{Class: row.class, Message: err.Error()}
		}
	}
	return err
}

// checkTree wants the plan's tree, with a handler in it.
func (o *options) checkTree(tree *gitsource.Tree) error {
	if tree.ID != o.plan.Tree {
		return &builder.StepError{Class: builder.ClassSourceInvalid,
			Message: fmt.Sprintf("the source has tree %s now, where the plan says %s", tree.ID, o.plan.Tree)}
	}
	if !slices.ContainsFunc(tree.Files, func(f gitsource.File) bool { return f.Path == o.runtime.Handler }) {
		where := "the root of the repository"
		if o.plan.Origin.BaseDir != "" {
			where = o.plan.Origin.BaseDir
		}
		return &builder.StepError{Class: builder.ClassSourceInvalid,
			Message: fmt.Sprintf("there is no %s in %s: it must export main", o.runtime.Handler, where)}
	}
	return nil
}

// dependencyTag is where the dependency layer of a key is kept: beside the
// Function's images, for it alone.
func dependencyTag(plan builder.Plan, key string) string { return plan.Repository + ":deps-" + key }

// cachedLayer asks whether the registry holds the dependencies already. Only its
// word that they are not there makes them be installed.
func (o *options) cachedLayer(ctx context.Context, key string) (*layerFacts, error) {
	client, err := o.client()
	if err != nil {
		return nil, err
	}
	image, err := client.Image(ctx, dependencyTag(o.plan, key))
	if errors.Is(err, registry.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	manifest, err := image.Manifest()
	if err != nil {
		return nil, fmt.Errorf("read dependency layer: %w", registry.Classify(err))
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("read dependency layer: %w", registry.Classify(err))
	}
	if len(manifest.Layers) != 1 || len(config.RootFS.DiffIDs) != 1 {
		return nil, nil // not of our making: it is made anew
	}
	return &layerFacts{Digest: manifest.Layers[0].Digest, DiffID: config.RootFS.DiffIDs[0], Size: manifest.Layers[0].Size}, nil
}

// writeInputs copies what the package manager is to see.
func (o *options) writeInputs(tree *gitsource.Tree, inputs cache.Inputs) error {
	for _, file := range inputs.Files {
		if err := writeInput(tree, file, filepath.Join(o.source, dirInputs, filepath.FromSlash(file.Path))); err != nil {
			return fmt.Errorf("write inputs: %w", err)
		}
	}
	return nil
}

func writeInput(tree *gitsource.Tree, file gitsource.File, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	if file.Symlink != "" {
		return os.Symlink(file.Symlink, to)
	}
	from, err := tree.Open(file.Path)
	if err != nil {
		return err
	}
	defer from.Close()
	if err := writeNew(to, func(w io.Writer) error { _, err := io.Copy(w, from); return err }); err != nil {
		return err
	}
	if file.Executable {
		return os.Chmod(to, 0o755)
	}
	return nil
}
