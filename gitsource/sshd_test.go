package gitsource_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/gitfn/gitfn/gitsource"
)

// keyFile is a private key of ssh-keygen.
type keyFile struct {
	path    string
	private []byte
	public  string // type and key, as in authorized_keys
}

// newKey makes a key: newKey(t, "-t", "ecdsa", "-N", "passphrase"). RSA keys take long, and are made once.
func newKey(t testing.TB, args ...string) keyFile {
	t.Helper()
	k := keyFile{path: filepath.Join(t.TempDir(), "key")}
	name := strings.Join(args, " ")
	keysMade.Lock()
	defer keysMade.Unlock()
	made, found := keysMade.byArgs[name]
	if !found {
		keygen(t, append([]string{"-q", "-N", "", "-C", "", "-f", k.path}, args...)...)
		made = keyFile{private: read(t, k.path), public: strings.TrimSpace(string(read(t, k.path+".pub")))}
		if slices.Contains(args, "rsa") {
			keysMade.byArgs[name] = made
		}
	}
	write(t, k.path, string(made.private))
	k.private, k.public = made.private, made.public
	return k
}

var keysMade = struct {
	sync.Mutex
	byArgs map[string]keyFile
}{byArgs: map[string]keyFile{}}

func keygen(t testing.TB, args ...string) {
	t.Helper()
	if out, err := exec.Command("ssh-keygen", args...).CombinedOutput(); err != nil {
		t.Fatalf("ssh-keygen %v: %v\n%s", args, err, out)
	}
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// quickKey makes an ed25519 key without a process.
func quickKey(t testing.TB) (pemFile []byte, signer ssh.Signer) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		t.Fatal(err)
	}
	if signer, err = ssh.NewSignerFromKey(key); err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(block), signer
}

// sshd is OpenSSH's server on a loopback port, one process for each connection, as inetd starts it.
type sshd struct {
	t        testing.TB
	listener net.Listener
	config   string
	user     string
	client   keyFile
	host     keyFile

	mu          sync.Mutex
	connections []*net.TCPConn
	log         bytes.Buffer
	env         []string
}

// newSSHD starts a server that lets a new key in. Rows of configuration go before those of the test, and win.
func newSSHD(t testing.TB, rows ...string) *sshd {
	t.Helper()
	return newSSHDWith(t, newKey(t, "-t", "ed25519"), rows...)
}

// newSSHDWith lets a key in.
func newSSHDWith(t testing.TB, client keyFile, rows ...string) *sshd {
	t.Helper()
	if os.Getuid() == 0 { // where Debian's sshd puts its processes that nobody has let in yet
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
			t.Fatal(err)
		}
	}
	who, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	s := &sshd{t: t, user: who.Username, client: client, host: newKey(t, "-t", "ed25519")}
	dir := t.TempDir()
	authorized := filepath.Join(dir, "authorized_keys")
	write(t, authorized, client.public+"\n")
	s.config = filepath.Join(dir, "sshd_config")
	if !slices.ContainsFunc(rows, func(row string) bool { return strings.HasPrefix(row, "AcceptEnv ") }) { // sshd adds them up
		rows = append(rows, "AcceptEnv GIT_PROTOCOL")
	}
	write(t, s.config, strings.Join(append(rows,
		"HostKey "+s.host.path, "AuthorizedKeysFile "+authorized, "StrictModes no", "UsePAM no",
		"PermitRootLogin yes", "PasswordAuthentication no", "KbdInteractiveAuthentication no", "LogLevel VERBOSE", "PidFile none",
		"SetEnv HOME=/nonexistent GIT_CONFIG_NOSYSTEM=1", ""), "\n"))
	if s.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() { s.accept(&running) })
	t.Cleanup(func() {
		_ = s.listener.Close()
		s.cut()
		running.Wait()
	})
	return s
}

func write(t testing.TB, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (s *sshd) accept(running *sync.WaitGroup) {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.connections = append(s.connections, conn.(*net.TCPConn))
		s.mu.Unlock()
		running.Go(func() { s.serve(conn.(*net.TCPConn)) })
	}
}

func (s *sshd) serve(conn *net.TCPConn) {
	defer conn.Close()
	socket, err := conn.File()
	if err != nil {
		return
	}
	defer socket.Close()
	cmd := exec.Command("/usr/sbin/sshd", "-i", "-e", "-f", s.config)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = socket, socket, s
	_ = cmd.Run()
}

// Write takes the server's log.
func (s *sshd) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.Write(p)
}

// logged is how often words are in the log.
func (s *sshd) logged(words string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Count(s.log.String(), words)
}

// met is how many connections were made.
func (s *sshd) met() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.connections)
}

// cut ends every connection.
func (s *sshd) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, conn := range s.connections {
		_ = conn.CloseRead()
		_ = conn.CloseWrite()
	}
}

// known is the line of known_hosts for the server's key.
func (s *sshd) known() string { return knownLine(s.listener, s.host.public) }

func knownLine(listener net.Listener, public string) string {
	host, port, _ := net.SplitHostPort(listener.Addr().String())
	return fmt.Sprintf("[%s]:%s %s\n", host, port, public)
}

// repo is a repository on the server as its key sees it.
func (s *sshd) repo(r *repository) gitsource.Repository {
	return gitsource.Repository{
		URL:         "ssh://" + s.user + "@" + s.listener.Addr().String() + r.dir,
		Credentials: gitsource.Credentials{SSHKey: s.client.private, KnownHosts: []byte(s.known())},
	}
}

// goSSHD is an SSH server of a test, for what no real server does.
type goSSHD struct {
	listener net.Listener
	config   *ssh.ServerConfig
	signer   ssh.Signer
	client   []byte // the key that it lets in
	run      func(command string, env map[string]string, ch ssh.Channel) (status uint32)

	mu          sync.Mutex
	connections []net.Conn
	commands    []string
}

// newGoSSHD starts a server that runs commands in the process.
func newGoSSHD(t testing.TB, run func(command string, env map[string]string, ch ssh.Channel) uint32, modify ...func(*goSSHD)) *goSSHD {
	t.Helper()
	s := &goSSHD{run: run}
	client, signer := quickKey(t)
	s.client = client
	_, s.signer = quickKey(t)
	s.config = &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if !bytes.Equal(key.Marshal(), signer.PublicKey().Marshal()) {
			return nil, fmt.Errorf("not that key")
		}
		return nil, nil
	}}
	for _, m := range modify {
		m(s)
	}
	s.config.AddHostKey(s.signer)
	var err error
	if s.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.listener.Close()
		s.cut()
	})
	go func() {
		for {
			conn, err := s.listener.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.connections = append(s.connections, conn)
			s.mu.Unlock()
			go s.serve(conn)
		}
	}()
	return s
}

func (s *goSSHD) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, conn := range s.connections {
		_ = conn.Close()
	}
}

func (s *goSSHD) serve(conn net.Conn) {
	s.mu.Lock()
	config := s.config
	s.mu.Unlock()
	_, channels, requests, err := ssh.NewServerConn(conn, config)
	if err != nil {
		_ = conn.Close()
		return
	}
	go ssh.DiscardRequests(requests)
	for opening := range channels {
		if ch, requests, err := opening.Accept(); err == nil {
			go s.session(ch, requests)
		}
	}
}

func (s *goSSHD) session(ch ssh.Channel, requests <-chan *ssh.Request) {
	env := map[string]string{}
	for request := range requests {
		switch request.Type {
		case "env":
			var pair struct{ Name, Value string }
			_ = ssh.Unmarshal(request.Payload, &pair)
			env[pair.Name] = pair.Value
		case "exec":
			var what struct{ Command string }
			_ = ssh.Unmarshal(request.Payload, &what)
			s.mu.Lock()
			s.commands = append(s.commands, what.Command)
			s.mu.Unlock()
			_ = request.Reply(true, nil)
			go func() {
				status := s.run(what.Command, env, ch)
				_, _ = ch.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{status}))
				_ = ch.Close()
			}()
		}
	}
}

func (s *goSSHD) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.commands...)
}

func (s *goSSHD) met() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.connections)
}

func (s *goSSHD) repo() gitsource.Repository {
	return gitsource.Repository{
		URL: "ssh://" + s.listener.Addr().String() + "/team/fn.git",
		Credentials: gitsource.Credentials{
			SSHKey:     s.client,
			KnownHosts: []byte(knownLine(s.listener, strings.TrimSpace(string(ssh.MarshalAuthorizedKey(s.signer.PublicKey()))))),
		},
	}
}

// says is a server whose git-upload-pack says something and ends.
func says(out, beside string, status uint32) func(string, map[string]string, ssh.Channel) uint32 {
	return func(_ string, _ map[string]string, ch ssh.Channel) uint32 {
		_, _ = io.WriteString(ch, out)
		_, _ = io.WriteString(ch.Stderr(), beside)
		return status
	}
}

// gitUploadPack is git's own, whose advertisement goes through change.
func gitUploadPack(r *repository, change func([]byte) []byte) func(string, map[string]string, ssh.Channel) uint32 {
	return func(_ string, env map[string]string, ch ssh.Channel) uint32 {
		cmd := exec.Command("git", "upload-pack", r.dir)
		cmd.Env = append(os.Environ(), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_PROTOCOL="+env["GIT_PROTOCOL"])
		in, err := cmd.StdinPipe()
		if err != nil {
			return 1
		}
		go func() {
			_, _ = io.Copy(in, ch)
			_ = in.Close()
		}()
		out, err := cmd.StdoutPipe()
		if err != nil || cmd.Start() != nil {
			return 1
		}
		buffer := make([]byte, 64<<10)
		for {
			n, err := out.Read(buffer)
			if n > 0 {
				if _, err := ch.Write(change(buffer[:n])); err != nil {
					break
				}
			}
			if err != nil {
				break
			}
		}
		if cmd.Wait() != nil {
			return 128
		}
		return 0
	}
}
