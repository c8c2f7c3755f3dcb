package cache

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"

	"github.com/gitfn/gitfn/gitsource"
)

// Facts is what a layer of dependencies depends on besides the files.
type Facts struct {
	// Base is the digest of the base image, whose package manager runs.
	Base string
	// Platform is "<operating system>/<architecture>".
	Platform string
	// Recipe is the version of how layers are made.
	Recipe int
	// Rebuild is the annotation's value: whoever asks for another build wants
	// packages that are not locked to be looked up again.
	Rebuild string
}

// Key is the hash of the facts and of every input: its path, its permission, its
// content. It is 64 hexadecimal digits. Without inputs there is no key.
func Key(facts Facts, inputs Inputs, tree *gitsource.Tree) (string, error) {
	if inputs.None() {
		return "", nil
	}
	hash := sha256.New()
	// One JSON value a line: no content can be taken for another's.
	lines := json.NewEncoder(hash)
	if err := lines.Encode(facts); err != nil {
		return "", err
	}
	for _, file := range inputs.Files {
		content, err := contentHash(tree, file.Path)
		if err != nil {
			return "", err
		}
		if err := lines.Encode([]any{file.Path, file.Executable, file.Symlink != "", content}); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

func contentHash(tree *gitsource.Tree, name string) (string, error) {
	reader, err := tree.Open(name)
	if err != nil {
		return "", err
	}
	defer reader.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, reader); err != nil {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}
