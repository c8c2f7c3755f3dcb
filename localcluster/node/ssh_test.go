package node

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestPunishes(t *testing.T) {
	for version, want := range map[string]bool{
		"OpenSSH_9.2p1 Debian-2+deb12u10, OpenSSL 3.0.19": false,
		"unknown option -- V\nOpenSSH_8.4p1, OpenSSL":     false,
		"OpenSSH_9.8p1":                    true,
		"OpenSSH_9.10p1":                   true,
		"OpenSSH_10.0p2 Debian-7, OpenSSL": true,
		"":                                 false,
	} {
		NewWithT(t).Expect(punishes(version)).To(Equal(want), version)
	}
}

func TestWithUsers(t *testing.T) {
	const ours = "git:*:0:0:Git over SSH:/:/bin/sh\n"
	for name, row := range map[string]struct{ users, want string }{
		"a machine with OpenSSH":       {"root:x:0:0::/root:/bin/sh\nsshd:x:101:65534::/run/sshd:/bin/false\n", "root:x:0:0::/root:/bin/sh\nsshd:x:101:65534::/run/sshd:/bin/false\n" + ours},
		"a machine with a user git":    {"git:x:999:999::/srv/git:/bin/sh\nsshd:x:1:1:::\n", "sshd:x:1:1:::\n" + ours},
		"no line feed at the end":      {"sshd:x:1:1:::", "sshd:x:1:1:::\n" + ours},
		"no user sshd: one is made up": {"", ours + "sshd:*:65534:65534:privilege separation:/run/sshd:/usr/sbin/nologin\n"},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(withUsers(row.users)).To(Equal(row.want))
		})
	}
}

// What sshd makes of them shows at every start of a cluster: it refuses settings that it does not know.
func TestSSHDConfigLetsClientsRunGitOnly(t *testing.T) {
	g := NewWithT(t)
	s := testSpec(t)
	config := sshdConfig(s, "OpenSSH_9.2p1")
	for _, line := range []string{
		"AllowUsers git\n", "PermitRootLogin prohibit-password\n", "AuthenticationMethods publickey\n",
		"DisableForwarding yes\n", "PermitTTY no\n", "PermitUserRC no\n", "AcceptEnv GIT_PROTOCOL\n",
		"ForceCommand '" + s.Dir.Self() + "' part-git-ssh '" + s.Dir.Path("git") + "'\n",
	} {
		g.Expect(config).To(ContainSubstring(line))
	}
	g.Expect(strings.Count(config, "ListenAddress ")).To(Equal(strings.Count(config, "ListenAddress 10.76.3.2:")), "no other address")
	g.Expect(config).NotTo(ContainSubstring("PerSourcePenalties"))
	g.Expect(sshdConfig(s, "OpenSSH_10.0p2")).To(HaveSuffix("PerSourcePenalties no\n"))
}

func TestKnownHostsNameEachKeyForBothPorts(t *testing.T) {
	g := NewWithT(t)
	s := testSpec(t)
	g.Expect(writeSSH(s)).To(Succeed())
	text, err := os.ReadFile(s.Dir.GitSSHKnownHosts())
	g.Expect(err).NotTo(HaveOccurred())
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	g.Expect(lines).To(HaveLen(3))
	for i, kind := range []string{"ssh-ed25519", "ecdsa-sha2-nistp256", "ssh-rsa"} {
		g.Expect(lines[i]).To(MatchRegexp(`^\[10\.76\.3\.2\]:2222,10\.76\.3\.2 %s [A-Za-z0-9+/=]+$`, kind))
	}
	for _, host := range []string{"10.76.3.2", "[10.76.3.2]:2222"} {
		g.Expect(exec.Command("ssh-keygen", "-F", host, "-f", s.Dir.GitSSHKnownHosts()).Run()).To(Succeed(), host)
	}
}

func TestGreets(t *testing.T) {
	for name, row := range map[string]struct {
		says string
		ok   bool
	}{
		"an SSH server":            {"SSH-2.0-test\r\n", true},
		"a server of another kind": {"HTTP/1.1 200 OK\r\n", false},
		"one that says nothing":    {"", false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			g.Expect(err).NotTo(HaveOccurred())
			defer listener.Close()
			go func() {
				if connection, err := listener.Accept(); err == nil {
					fmt.Fprint(connection, row.says)
					connection.Close()
				}
			}()
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			g.Expect(greets(listener.Addr().String())(ctx) == nil).To(Equal(row.ok))
		})
	}
}
