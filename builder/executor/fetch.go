package executor

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/gitfn/gitfn/builder"
	"github.com/gitfn/gitfn/builder/cache"
	"github.com/gitfn/gitfn/gitsource"
	"github.com/gitfn/gitfn/registry"
)

// platform is what images are built for: the node's own.
const platform = "linux/" + runtime.GOARCH

// fetch gets the files and says what there is to do.
func fetch(ctx context.Context, o *options) (_ *builder.Result, err error) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	var word fetched
	defer func() {
		if err != nil {
			word = fetched{Failed: true}
		}
		word.Seconds = time.Since(began).Seconds()
		err = errors.Join(err, say(o.source, fileFetched, word))
	}()

	tree, err := o.tree(ctx)
	if err != nil {
		return nil, err
	}
	defer tree.Close()
	if err := o.checkTree(tree); err != nil {
		return nil, err
	}
	if err := o.writeSourceLayer(tree); err != nil {
		return nil, err
	}
	inputs, err := cache.NodeInputs(tree)
	if err != nil {
		return nil, &builder.StepError{Class: builder.ClassSourceInvalid, Message: err.Error()}
	}
	if inputs.None() {
		return nil, nil
	}
	word.Locked = inputs.Locked
	if word.DependencyKey, err = cache.Key(o.plan, platform, tree, inputs); err != nil {
		return nil, err
	}
	if word.Cached, err = o.cachedLayer(ctx, word.DependencyKey); err != nil || word.Cached != "" {
		return nil, err
	}
	return nil, o.writeInputs(tree, inputs)
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
		CacheDir: filepath.Join(os.TempDir(), "mirror"), Allow: o.allow, RootCAs: bundle, Timeout: o.timeout,
	})
	if err != nil {
		return nil, err
	}
	tree, err := client.Fetch(ctx, repository, o.plan.Origin.Commit, o.plan.Origin.BaseDir)
	if err != nil {
		return nil, classifyFetch(err)
	}
	return tree, nil
}

func (o *options) repository() (gitsource.Repository, error) {
	repository := gitsource.Repository{URL: o.plan.Origin.URL}
	if o.gitCredentials == "" {
		return repository, nil
	}
	for file, value := range map[string]*string{"username": &repository.Credentials.Username, "password": &repository.Credentials.Password} {
		text, err := os.ReadFile(filepath.Join(o.gitCredentials, file))
		if err != nil {
			return repository, &builder.StepError{Class: builder.ClassGitAuth, Message: "the Secret of the Git source has no " + file}
		}
		*value = string(text)
	}
	if ca, err := os.ReadFile(filepath.Join(o.gitCredentials, "ca.crt")); err == nil {
		repository.Credentials.CABundle = ca
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

func (o *options) writeSourceLayer(tree *gitsource.Tree) (err error) {
	file, err := os.OpenFile(filepath.Join(o.source, fileSourceLayer), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("write source layer: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	packed := gzip.NewWriter(file)
	if err := cache.WriteSource(packed, tree, o.runtime.Dir); err != nil {
		return fmt.Errorf("write source layer: %w", err)
	}
	return packed.Close()
}

// cachedLayer asks whether the registry holds the dependencies already.
func (o *options) cachedLayer(ctx context.Context, key string) (string, error) {
	store, err := o.store()
	if err != nil {
		return "", err
	}
	digest, err := store.digest(ctx, dependencyTag(o.plan, key))
	if errors.Is(err, registry.ErrNotFound) {
		return "", nil
	}
	return digest, err
}

// writeInputs copies what the package manager is to see.
func (o *options) writeInputs(tree *gitsource.Tree, inputs cache.Inputs) error {
	for _, file := range tree.Files {
		if !slices.Contains(inputs.Files, file.Path) {
			continue
		}
		to := filepath.Join(o.source, dirInputs, filepath.FromSlash(file.Path))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if file.Symlink != "" {
			if err := os.Symlink(file.Symlink, to); err != nil {
				return err
			}
			continue
		}
		if err := copyFile(tree, file, to); err != nil {
			return fmt.Errorf("write inputs: %w", err)
		}
	}
	return nil
}

func copyFile(tree *gitsource.Tree, file gitsource.File, to string) (err error) {
	mode := os.FileMode(0o644)
	if file.Executable {
		mode = 0o755
	}
	from, err := tree.Open(file.Path)
	if err != nil {
		return err
	}
	defer from.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, from)
	return errors.Join(err, out.Close())
}
