package main

import (
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// keptLayer is a compressed layer in a file whose hashes are known, so that an image can be
// made of it without reading it.
type keptLayer struct {
	dir  string
	fact layerFact
}

type layerFact struct {
	DigestHash v1.Hash `json:"digest"`
	DiffHash   v1.Hash `json:"diffID"`
	Bytes      int64   `json:"size"`
}

const (
	layerFile = "layer.tar.gz"
	factFile  = "layer.json"
)

// writeLayer compresses t into dir, with its hashes beside it.
func writeLayer(dir string, t tree) error {
	f, err := os.Create(filepath.Join(dir, layerFile))
	if err != nil {
		return err
	}
	defer f.Close()
	digest, diff := sha256.New(), sha256.New()
	buffered := bufio.NewWriterSize(io.MultiWriter(f, digest), 1<<20)
	// The best speed: a layer is read more often from a local disk than over a slow line.
	gz, err := gzip.NewWriterLevel(buffered, gzip.BestSpeed)
	if err != nil {
		return err
	}
	plain := bufio.NewWriterSize(io.MultiWriter(gz, diff), 1<<20)
	if err := t.writeTo(plain); err != nil {
		return err
	}
	for _, end := range []func() error{plain.Flush, gz.Close, buffered.Flush} {
		if err := end(); err != nil {
			return err
		}
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	data, err := json.Marshal(layerFact{
		DigestHash: v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(digest.Sum(nil))},
		DiffHash:   v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(diff.Sum(nil))},
		Bytes:      info.Size(),
	})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, factFile), data, 0o644); err != nil {
		return err
	}
	return f.Close()
}

// readLayer gives the layer that writeLayer has left in dir.
func readLayer(dir string) (v1.Layer, error) {
	l := &keptLayer{dir: dir}
	data, err := os.ReadFile(filepath.Join(dir, factFile))
	if err != nil {
		return nil, err
	}
	return l, json.Unmarshal(data, &l.fact)
}

func (l *keptLayer) Digest() (v1.Hash, error)            { return l.fact.DigestHash, nil }
func (l *keptLayer) DiffID() (v1.Hash, error)            { return l.fact.DiffHash, nil }
func (l *keptLayer) Size() (int64, error)                { return l.fact.Bytes, nil }
func (l *keptLayer) MediaType() (types.MediaType, error) { return types.OCILayer, nil }
func (l *keptLayer) Compressed() (io.ReadCloser, error) {
	return os.Open(filepath.Join(l.dir, layerFile))
}
func (l *keptLayer) Uncompressed() (io.ReadCloser, error) {
	f, err := l.Compressed()
	if err != nil {
		return nil, err
	}
	gz, err := gzip.NewReader(f)
	if err != nil {
		f.Close()
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{gz, f}, nil
}
