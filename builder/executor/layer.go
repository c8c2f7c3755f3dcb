package executor

import (
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// layerFacts is what an image says of a layer.
type layerFacts struct {
	// Digest is of the layer as it is sent, DiffID of the tar inside.
	Digest v1.Hash `json:"digest"`
	DiffID v1.Hash `json:"diffID"`
	// Size is the number of bytes as sent.
	Size int64 `json:"size"`
}

// packLayer writes a compressed layer to a new file.
func packLayer(file string, write func(io.Writer) error) (layerFacts, error) {
	var facts layerFacts
	err := writeNew(file, func(out io.Writer) error {
		sent, plain := sha256.New(), sha256.New()
		size := &counter{}
		buffer := bufio.NewWriterSize(out, 64<<10)
		// The best speed: a layer travels inside a cluster, and somebody waits.
		packed, err := gzip.NewWriterLevel(io.MultiWriter(buffer, sent, size), gzip.BestSpeed)
		if err != nil {
			return err
		}
		if err := errors.Join(write(io.MultiWriter(packed, plain)), packed.Close(), buffer.Flush()); err != nil {
			return err
		}
		facts = layerFacts{Digest: sum(sent), DiffID: sum(plain), Size: size.bytes}
		return nil
	})
	return facts, err
}

func sum(h hash.Hash) v1.Hash {
	return v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(h.Sum(nil))}
}

type counter struct{ bytes int64 }

// Write counts.
func (c *counter) Write(p []byte) (int, error) {
	c.bytes += int64(len(p))
	return len(p), nil
}

// layer is a layer whose facts are known, so that an image can be made of it
// without reading it.
type layer struct {
	layerFacts
	file string // empty if only the registry has it
}

// Digest is that of the layer as sent.
func (l *layer) Digest() (v1.Hash, error) { return l.layerFacts.Digest, nil }

// DiffID is the digest of the tar inside.
func (l *layer) DiffID() (v1.Hash, error) { return l.layerFacts.DiffID, nil }

// Size is that of the layer as sent.
func (l *layer) Size() (int64, error) { return l.layerFacts.Size, nil }

// MediaType is that of OCI images; an image of Docker's kind gives it its own.
func (l *layer) MediaType() (types.MediaType, error) { return types.OCILayer, nil }

// Compressed is the layer as sent.
func (l *layer) Compressed() (io.ReadCloser, error) {
	if l.file == "" {
		return nil, errors.New("read layer: only the registry has it")
	}
	return os.Open(l.file)
}

// Uncompressed is the tar inside.
func (l *layer) Uncompressed() (io.ReadCloser, error) {
	file, err := l.Compressed()
	if err != nil {
		return nil, err
	}
	packed, err := gzip.NewReader(file)
	if err != nil {
		file.Close()
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{packed, file}, nil
}
