package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// cache is a folder of folders, each named by the hash of what its content was made from.
// Several processes may use it at once. Nothing in it ever changes, and all of it may be deleted.
type cache struct{ dir string }

// folder gives the folder for inputs. If it is not there yet, make fills it: after an error, or
// when the machine stops halfway, it is still not there.
func (c cache) folder(kind string, inputs any, make func(dir string) error) (string, error) {
	description, err := json.Marshal(inputs)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(description)
	final := filepath.Join(c.dir, kind+"-"+hex.EncodeToString(sum[:])[:32])
	if _, err := os.Stat(final); err == nil {
		return final, nil
	}
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return "", err
	}
	temporary, err := os.MkdirTemp(c.dir, "new-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(temporary)
	if err := make(temporary); err != nil {
		return "", err
	}
	// Somebody else may have been faster with the same content.
	if err := os.Rename(temporary, final); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return final, nil
}
