package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gitfn/gitfn/localcluster/binaries"
)

// Home is the directory with the state of all clusters of this machine's root.
type Home string

// DefaultHome returns the directory gitfn in the user's cache directory.
func DefaultHome() (Home, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache directory: %w; set HOME or XDG_CACHE_HOME", err)
	}
	return Home(filepath.Join(dir, "gitfn")), nil
}

// Binaries is the directory of built programs.
func (h Home) Binaries() string { return filepath.Join(string(h), "bin") }

// Dir is the state directory of one cluster.
func (h Home) Dir(name string) Dir { return Dir(filepath.Join(string(h), "clusters", name)) }

// Lock takes the lock of one cluster, which `up` and `down` hold while they work.
func (h Home) Lock(name string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Join(string(h), "clusters"), 0o700); err != nil {
		return nil, err
	}
	return binaries.Lock(filepath.Join(string(h), "clusters", "."+name+".lock"))
}

// Records is what all clusters of a machine share.
type Records struct {
	// Clusters is the index of each cluster by name.
	Clusters map[string]int `json:"clusters"`
	// IPForward is what net.ipv4.ip_forward was before the first cluster; empty while there is none.
	IPForward string `json:"ipForward,omitempty"`
}

// Update reads the records, lets change work on them under a lock, and stores them if it returns nil.
func (h Home) Update(change func(*Records) error) error {
	if err := os.MkdirAll(filepath.Join(string(h), "clusters"), 0o700); err != nil {
		return err
	}
	path := filepath.Join(string(h), "clusters.json")
	unlock, err := binaries.Lock(path + ".lock")
	if err != nil {
		return err
	}
	defer unlock()
	records := &Records{}
	if err := readJSON(path, records); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if records.Clusters == nil {
		records.Clusters = map[string]int{}
	}
	if err := change(records); err != nil {
		return err
	}
	return writeJSON(path, records)
}

// Allocate returns the index of a cluster: the one it has, or the lowest that no other cluster has and
// that the machine's own routes leave free.
func (r *Records) Allocate(name string, taken func(index int) bool) (int, error) {
	if i, ok := r.Clusters[name]; ok {
		return i, nil
	}
	used := map[int]bool{}
	for _, i := range r.Clusters {
		used[i] = true
	}
	for i := 1; i <= 254; i++ {
		if !used[i] && !taken(i) {
			r.Clusters[name] = i
			return i, nil
		}
	}
	return 0, fmt.Errorf("find free subnets for cluster %s: all of 10.76-78.1-254 are taken; take a cluster down", name)
}
