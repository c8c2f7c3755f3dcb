package binaries

import (
	"path/filepath"
	"strings"
)

// Dirs is the directory of each set, by the name of its module.
type Dirs map[string]string

// Program returns the absolute path of a program. It panics for a name that no set has.
func (d Dirs) Program(name string) string {
	for _, s := range Sets {
		for _, p := range s.Programs {
			if p.Name == name {
				return filepath.Join(d[s.Module], name)
			}
		}
	}
	panic("no program " + name + " in binaries.Sets")
}

// PauseImage returns the path of the image archive for the container that holds a Pod's namespaces.
func (d Dirs) PauseImage() string { return filepath.Join(d["pause"], "pause.tar") }

// EnvtestAssets returns the directory with kube-apiserver, etcd and kubectl, as KUBEBUILDER_ASSETS wants it.
func (d Dirs) EnvtestAssets() string { return d["kubernetes"] }

// Path returns a value for PATH that has the programs before those of the machine.
func (d Dirs) Path() string {
	return strings.Join([]string{
		d["kubernetes"], d["containerd"],
		"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin",
	}, ":")
}
