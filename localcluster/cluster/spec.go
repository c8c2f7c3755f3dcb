// Package cluster says what a local cluster is called, which addresses it has and where its files are.
//
// In go a name and the state directory; out come plain values that can be printed and stored. It never
// starts anything and never touches the network; the only files it writes are its own records.
package cluster

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/gitfn/gitfn/localcluster/binaries"
)

// Spec is everything that is decided about a cluster before it starts. It is handed to the supervisor and
// stored in the state directory.
type Spec struct {
	// Name is at most 20 characters: lower-case letters, digits and inner dashes.
	Name string `json:"name"`
	// Index tells the subnets of clusters on one machine apart, 1 to 254.
	Index int `json:"index"`
	// Dir is the state directory, absolute.
	Dir Dir `json:"dir"`
	// Binaries is where the programs are.
	Binaries binaries.Dirs `json:"binaries"`
	// MTU is that of the machine's default route, in bytes.
	MTU int `json:"mtu"`
	// Nameservers are asked for names outside of the cluster. Empty when the machine has none that a
	// cluster can reach.
	Nameservers []string `json:"nameservers"`
}

var nameRule = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,18}[a-z0-9])?$`)

// CheckName returns an error for a name that cannot be a node name, a part of a path and of a socket path.
func CheckName(name string) error {
	if !nameRule.MatchString(name) {
		return fmt.Errorf("cluster name %q: use at most 20 lower-case letters, digits and inner dashes", name)
	}
	return nil
}

// HostIP is the machine's address on the link to the cluster.
func (s Spec) HostIP() string { return fmt.Sprintf("10.76.%d.1", s.Index) }

// NodeIP is the address of the node, of its API server, DNS server and Git server.
func (s Spec) NodeIP() string { return fmt.Sprintf("10.76.%d.2", s.Index) }

// LinkCIDR is the subnet of HostIP and NodeIP.
func (s Spec) LinkCIDR() string { return fmt.Sprintf("10.76.%d.0/30", s.Index) }

// PodCIDR is the subnet of the Pods.
func (s Spec) PodCIDR() string { return fmt.Sprintf("10.77.%d.0/24", s.Index) }

// ServiceCIDR is the subnet of the Services' cluster addresses.
func (s Spec) ServiceCIDR() string { return fmt.Sprintf("10.78.%d.0/24", s.Index) }

// APIServiceIP is the address of the Service `kubernetes`.
func (s Spec) APIServiceIP() string { return fmt.Sprintf("10.78.%d.1", s.Index) }

// Link is the machine's network device towards the cluster.
func (s Spec) Link() string { return fmt.Sprintf("gitfn-%d", s.Index) }

// Table is the name of the machine's nftables table for the cluster.
func (s Spec) Table() string { return "gitfn_" + strings.ReplaceAll(s.Name, "-", "_") }

// Cgroup is the cluster's control group, from the root of each hierarchy.
func (s Spec) Cgroup() string { return "/gitfn-" + s.Name }

// APIURL is where the API server answers, for the machine, the node and the Pods alike.
func (s Spec) APIURL() string { return "https://" + s.NodeIP() + ":6443" }

// GitURL is where the Git server answers, without a slash at its end.
func (s Spec) GitURL() string { return "http://" + s.NodeIP() + ":" + GitPort }

// GitPort is the port of the Git server on the node's address.
const GitPort = "3000"

// GitSSHURL is where the Git server answers over SSH, without a slash at its end. Port 22 answers too, for
// URLs of the form git@host:path.
func (s Spec) GitSSHURL() string { return "ssh://" + GitUser + "@" + s.NodeIP() + ":" + GitSSHPort }

// GitSSHPort is the port of the SSH server on the node's address, besides port 22.
const GitSSHPort = "2222"

// GitUser is the user for paths below /private/, and of SSH.
const GitUser = "git"

// Save stores the spec in the state directory.
func (s Spec) Save() error { return writeJSON(s.Dir.Path("cluster.json"), s) }

// Load reads the spec of a cluster. The error matches os.ErrNotExist when there is no such cluster.
func Load(dir Dir) (Spec, error) {
	var s Spec
	err := readJSON(dir.Path("cluster.json"), &s)
	return s, err
}

// Dir is the state directory of one cluster.
type Dir string

// Path returns the path of something below the state directory.
func (d Dir) Path(elem ...string) string {
	return filepath.Join(append([]string{string(d)}, elem...)...)
}

// Kubeconfig is the administrator's kubeconfig.
func (d Dir) Kubeconfig() string { return d.Path("kubeconfig") }

// Logs is the directory with one file per part.
func (d Dir) Logs() string { return d.Path("logs") }

// Log is the log file of a part.
func (d Dir) Log(part string) string { return d.Path("logs", part+".log") }

// Control is the supervisor's socket.
func (d Dir) Control() string { return d.Path("control.sock") }

// Containerd is containerd's socket.
func (d Dir) Containerd() string { return d.Path("containerd.sock") }

// GitPassword is the file with the password of GitUser.
func (d Dir) GitPassword() string { return d.Path("git-password") }

// GitSSHKey is the file with a private key that the SSH server takes.
func (d Dir) GitSSHKey() string { return d.Path("ssh", "id_ed25519") }

// GitSSHKnownHosts is the file with the lines that name the SSH server's host keys.
func (d Dir) GitSSHKnownHosts() string { return d.Path("ssh", "known_hosts") }

// GitSSHAuthorizedKeys is the file with the public keys that the SSH server takes. It is read at each login.
func (d Dir) GitSSHAuthorizedKeys() string { return d.Path("ssh", "authorized_keys") }

// Self is the copy of this program from which the supervisor runs: `go run` deletes the original.
func (d Dir) Self() string { return d.Path("localcluster") }

// Ready is a file that exists once `up` has finished for the running supervisor.
func (d Dir) Ready() string { return d.Path("ready") }

func writeJSON(path string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", append(data, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

func readJSON(path string, v any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("read %s: %w; remove the file to start afresh", path, err)
	}
	return nil
}
