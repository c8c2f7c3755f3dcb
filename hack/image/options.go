package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
)

// Options say which images to assemble and where to put them.
type Options struct {
	// OutDir receives NAME.tar for each image; "-" writes none.
	OutDir string
	// Names are keys of the table in images.go.
	Names []string
	// TagPrefix and Tag make the reference that a tar carries: PREFIX/NAME:TAG.
	TagPrefix, Tag string
	// Version is what the Go programs call themselves; Tag when empty.
	Version string
	// SourceDir is the root of the gitfn module, from which programs and servers are taken.
	SourceDir string
	// RegistryBinary is the registry program that the image "registry" holds.
	RegistryBinary string
	// CacheDir keeps layers and programs between runs.
	CacheDir string
	// Push says where to push to, if anywhere.
	Push PushOptions
}

// Validate says what is wrong with o, in words for the person who typed it.
func (o *Options) Validate() error {
	if len(o.Names) == 0 {
		return fmt.Errorf("no image named; known are %s", strings.Join(knownImages(), ", "))
	}
	for _, n := range o.Names {
		if !slices.Contains(knownImages(), n) {
			return fmt.Errorf("no image is named %q; known are %s", n, strings.Join(knownImages(), ", "))
		}
		if n == "registry" && o.RegistryBinary == "" {
			return errors.New("the image registry needs --registry-binary")
		}
	}
	if _, err := name.NewTag(o.TagPrefix + "/x:" + o.Tag); err != nil {
		return fmt.Errorf("check --tag-prefix and --tag: %w", err)
	}
	return nil
}

func parseOptions(args []string, usage io.Writer) (Options, error) {
	o := Options{}
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	flags.SetOutput(usage)
	flags.Usage = func() {
		fmt.Fprintf(usage, "usage: image [flags] OUT_DIR|- NAME...\nnames: %s\n", strings.Join(knownImages(), " "))
		flags.PrintDefaults()
	}
	flags.StringVar(&o.TagPrefix, "tag-prefix", "gitfn.local/gitfn", "what the references of tars begin with")
	flags.StringVar(&o.Tag, "tag", "dev", "tag of the references")
	flags.StringVar(&o.Version, "version", "", "version that the Go programs report (default: the tag)")
	flags.StringVar(&o.SourceDir, "source", ".", "root of the gitfn module")
	flags.StringVar(&o.RegistryBinary, "registry-binary", "", "registry program for the image registry")
	flags.StringVar(&o.CacheDir, "cache-dir", "", "where layers are kept (default: gitfn/images in the user's cache directory)")
	flags.StringVar(&o.Push.Prefix, "push", "", "push to REGISTRY/PATH as well")
	flags.StringVar(&o.Push.DockerConfig, "docker-config", "", "directory of the config.json with credentials for --push")
	flags.StringVar(&o.Push.Username, "username", "", "user name for --push")
	flags.StringVar(&o.Push.PasswordFile, "password-file", "", "file with the password for --push")
	flags.BoolVar(&o.Push.Insecure, "insecure", false, "push over plain HTTP, or without checking the certificate")

	// Flags may stand before, between and after the names.
	var words []string
	for len(args) > 0 {
		if err := flags.Parse(args); err != nil {
			return o, err
		}
		if args = flags.Args(); len(args) > 0 {
			words, args = append(words, args[0]), args[1:]
		}
	}
	if len(words) > 0 {
		o.OutDir, o.Names = words[0], words[1:]
	}
	if o.Version == "" {
		o.Version = o.Tag
	}
	if o.CacheDir == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			return o, fmt.Errorf("find a place to keep layers: %w; name one by --cache-dir", err)
		}
		o.CacheDir = filepath.Join(dir, "gitfn", "images")
	}
	return o, o.Validate()
}

// line is what run prints about each image.
type line struct {
	Name      string `json:"name"`
	Reference string `json:"reference"`
	Digest    string `json:"digest"`
	Size      int64  `json:"size"`
	Tar       string `json:"tar,omitempty"`
	Pushed    string `json:"pushed,omitempty"`
}

// run assembles the images one after the other and prints a JSON line about each.
func run(ctx context.Context, o Options, out io.Writer) error {
	w := &workshop{cache: cache{dir: o.CacheDir}, options: o}
	for _, n := range o.Names {
		img, err := w.build(ctx, n)
		if err != nil {
			return fmt.Errorf("assemble %s: %w", n, err)
		}
		l, err := describe(img)
		if err != nil {
			return fmt.Errorf("assemble %s: %w", n, err)
		}
		l.Name, l.Reference = n, o.TagPrefix+"/"+n+":"+o.Tag
		if o.OutDir != "-" {
			l.Tar = filepath.Join(o.OutDir, n+".tar")
			if err := writeTar(img, l.Reference, l.Tar); err != nil {
				return fmt.Errorf("write %s: %w", l.Tar, err)
			}
		}
		if o.Push.Prefix != "" {
			if l.Pushed, err = push(ctx, img, n, o.Tag, o.Push); err != nil {
				return fmt.Errorf("push %s: %w", n, err)
			}
		}
		if err := json.NewEncoder(out).Encode(l); err != nil {
			return err
		}
	}
	return nil
}
