package node

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"github.com/gitfn/gitfn/localcluster/cluster"
)

// hostKeys are the kinds of keys that the SSH server has, with their bits; 0 leaves them to ssh-keygen.
var hostKeys = []struct {
	kind string
	bits int
}{{"ed25519", 0}, {"ecdsa", 256}, {"rsa", 2048}}

// writeSSH makes the keys and the settings of the SSH server. Nothing of the machine's own sshd is used or changed.
func writeSSH(s cluster.Spec) error {
	dir := s.Dir.Path("ssh")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	var knownHosts strings.Builder
	for _, key := range hostKeys {
		public, err := newSSHKey(filepath.Join(dir, "host_"+key.kind), key.kind, key.bits)
		if err != nil {
			return err
		}
		fmt.Fprintf(&knownHosts, "[%s]:%s,%s %s\n", s.NodeIP(), cluster.GitSSHPort, s.NodeIP(), public)
	}
	client, err := newSSHKey(s.Dir.GitSSHKey(), "ed25519", 0)
	if err != nil {
		return err
	}
	for file, content := range map[string]string{
		s.Dir.GitSSHKnownHosts():          knownHosts.String(),
		s.Dir.GitSSHAuthorizedKeys():      client + "\n",
		filepath.Join(dir, "sshd_config"): sshdConfig(s, sshdVersion()),
	} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// newSSHKey makes a key pair and returns the public key without its comment.
func newSSHKey(file, kind string, bits int) (public string, err error) {
	args := []string{"-q", "-N", "", "-C", "", "-t", kind, "-f", file}
	if bits > 0 {
		args = append(args, "-b", strconv.Itoa(bits))
	}
	if err := runQuietly(exec.Command("ssh-keygen", args...)); err != nil {
		return "", err
	}
	line, err := os.ReadFile(file + ".pub")
	return strings.TrimSpace(string(line)), err
}

// sshdConfig lets a client with a known key run git in the repositories, and do nothing else. The user git is
// root under another name, as the HTTP server is: both write the same repositories.
func sshdConfig(s cluster.Spec, version string) string {
	dir := s.Dir.Path("ssh")
	var b strings.Builder
	fmt.Fprintf(&b, "ListenAddress %s:%s\nListenAddress %s:22\n", s.NodeIP(), cluster.GitSSHPort, s.NodeIP())
	for _, key := range hostKeys {
		fmt.Fprintf(&b, "HostKey %q\n", filepath.Join(dir, "host_"+key.kind))
	}
	fmt.Fprintf(&b, `PidFile none
AllowUsers %s
PermitRootLogin prohibit-password
AuthenticationMethods publickey
AuthorizedKeysFile %q
StrictModes no
UsePAM no
ForceCommand %s %s %s
AcceptEnv GIT_PROTOCOL
DisableForwarding yes
PermitTTY no
PermitUserRC no
UseDNS no
MaxStartups 500
MaxSessions 100
`, cluster.GitUser, s.Dir.GitSSHAuthorizedKeys(), shellQuote(s.Dir.Self()), VerbGitSSH, shellQuote(s.Dir.Path("git")))
	if punishes(version) {
		// Tests show wrong keys on purpose.
		b.WriteString("PerSourcePenalties no\n")
	}
	return b.String()
}

var versionRule = regexp.MustCompile(`OpenSSH_(\d+)\.(\d+)`)

// punishes says whether an sshd of this version makes an address wait that has shown wrong keys: since 9.8.
func punishes(version string) bool {
	m := versionRule.FindStringSubmatch(version)
	if m == nil {
		return false
	}
	major, _ := strconv.Atoi(m[1])
	minor, _ := strconv.Atoi(m[2])
	return major > 9 || major == 9 && minor >= 8
}

// sshdVersion is what the machine's sshd says of itself. Old ones call the option unknown, and say it too.
func sshdVersion() string {
	out, _ := exec.Command(sshd(), "-V").CombinedOutput()
	return string(out)
}

// sshd is the path of the SSH server, which must be absolute.
func sshd() string {
	if path, err := exec.LookPath("sshd"); err == nil && filepath.IsAbs(path) {
		return path
	}
	return "/usr/sbin/sshd"
}

func shellQuote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// setUpSSH gives the cluster users git and sshd, and the empty directory that sshd wants.
func setUpSSH(s cluster.Spec) error {
	users, err := os.ReadFile("/etc/passwd")
	if err != nil {
		return err
	}
	file := s.Dir.Path("passwd")
	if err := os.WriteFile(file, []byte(withUsers(string(users))), 0o644); err != nil {
		return err
	}
	if err := syscall.Mount(file, "/etc/passwd", "", syscall.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount %s on /etc/passwd: %w", file, err)
	}
	return os.MkdirAll("/run/sshd", 0o755)
}

// withUsers is the machine's users with ours. The user git of a machine has its own repositories elsewhere.
func withUsers(users string) string {
	var b strings.Builder
	hasSSHD := false
	for line := range strings.Lines(users) {
		if strings.HasPrefix(line, cluster.GitUser+":") {
			continue
		}
		hasSSHD = hasSSHD || strings.HasPrefix(line, "sshd:")
		b.WriteString(strings.TrimSuffix(line, "\n") + "\n")
	}
	fmt.Fprintf(&b, "%s:*:0:0:Git over SSH:/:/bin/sh\n", cluster.GitUser)
	if !hasSSHD {
		b.WriteString("sshd:*:65534:65534:privilege separation:/run/sshd:/usr/sbin/nologin\n")
	}
	return b.String()
}

// greets returns a check that an SSH server says its first words.
func greets(address string) func(context.Context) error {
	return func(ctx context.Context) error {
		var d net.Dialer
		connection, err := d.DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		defer connection.Close()
		if deadline, ok := ctx.Deadline(); ok {
			_ = connection.SetReadDeadline(deadline)
		}
		greeting := make([]byte, 4)
		if _, err := connection.Read(greeting); err != nil {
			return err
		}
		if string(greeting) != "SSH-" {
			return fmt.Errorf("%s greets with %q", address, greeting)
		}
		return nil
	}
}
