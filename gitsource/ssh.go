package gitsource

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

// newSSH reaches a repository over SSH, through connections that it shares with others of the same access.
func newSSH(at *url.URL, credentials Credentials, access *sshAccess, o Options) *stream {
	s := &stream{endpoint: newEndpoint(at, credentials, o)}
	command := "git-upload-pack " + quote(remotePath(at))
	s.open = func(ctx context.Context) (conversation, error) { return access.run(ctx, command) }
	return s
}

// quote makes one word of a path, for the shell at the other end. Forges take the command apart themselves, and
// expect what git sends.
func quote(path string) string {
	return "'" + strings.NewReplacer("'", `'\''`, "!", `'\!'`).Replace(path) + "'"
}

// sshUser is the user whom every forge means.
func sshUser(at *url.URL) string {
	if at.User == nil {
		return "git"
	}
	return at.User.Username()
}

const (
	// wakeWithin is how soon a connection that rested must take up a command again; else it is believed to be dead.
	wakeWithin = 10 * time.Second
	// partWithin is how long the other end may take to say that a command ended.
	partWithin = 5 * time.Second
)

// run starts a command on a connection that rests, or on a new one.
func (a *sshAccess) run(ctx context.Context, command string) (conversation, error) {
	for {
		c, err := a.take(ctx)
		if err != nil {
			return nil, err
		}
		talking, err := c.start(ctx, command)
		if err == nil {
			return talking, nil
		}
		a.drop(c)
		if !c.used || ctx.Err() != nil {
			return nil, err
		}
	}
}

// start starts a command. The end of the context closes the connection: a server that stalls does not
// answer to anything less.
func (c *sshConnection) start(ctx context.Context, command string) (*sshConversation, error) {
	talking := &sshConversation{connection: c, release: context.AfterFunc(ctx, c.hangUp)}
	if c.used {
		awake := time.AfterFunc(wakeWithin, c.hangUp)
		defer awake.Stop()
	}
	if err := talking.begin(command); err != nil {
		talking.release()
		return nil, err
	}
	return talking, nil
}

// sshConversation is a command on a connection. It has the connection to itself, so that no limit of the server for
// sessions is ever met, and whatever goes wrong is over with the connection.
type sshConversation struct {
	connection *sshConnection
	session    *ssh.Session
	in         io.WriteCloser
	out        io.Reader
	beside     listener
	release    func() bool
	heard, end bool // whether anything was read, and whether the other end had said all
}

func (t *sshConversation) begin(command string) (err error) {
	if t.session, err = t.connection.client.NewSession(); err != nil {
		return fmt.Errorf("open session: %w", err)
	}
	t.session.Stderr = &t.beside
	if t.in, err = t.session.StdinPipe(); err != nil {
		return err
	}
	if t.out, err = t.session.StdoutPipe(); err != nil {
		return err
	}
	// As git's own client does it, no answer is awaited: a server that refuses speaks an older version, and is understood.
	version := ssh.Marshal(struct{ Name, Value string }{"GIT_PROTOCOL", "version=2"})
	if _, err = t.session.SendRequest("env", false, version); err != nil {
		return fmt.Errorf("open session: %w", err)
	}
	if err = t.session.Start(command); err != nil {
		return fmt.Errorf("start git-upload-pack: %w", err)
	}
	return nil
}

func (t *sshConversation) Read(p []byte) (int, error) {
	n, err := t.out.Read(p)
	t.heard = t.heard || n > 0
	t.end = t.end || err == io.EOF
	return n, err
}

func (t *sshConversation) Write(p []byte) (int, error) { return t.in.Write(p) }

// close waits for the command to end, if it is about to, and gives the connection back if all is well with it.
func (t *sshConversation) close(whole bool) ending {
	_ = t.in.Close()
	over := make(chan error, 1)
	go func() { over <- t.session.Wait() }()
	var status error
	parted := false
	if whole || t.end {
		late := time.NewTimer(partWithin)
		defer late.Stop()
		select {
		case status = <-over:
			parted = true
		case <-late.C:
		}
	}
	undisturbed := t.release()
	if whole && parted && undisturbed {
		t.connection.access.put(t.connection)
		return ending{}
	}
	t.connection.access.drop(t.connection)
	if !parted {
		status = <-over
	}
	said := t.beside.words()
	var silent *ssh.ExitMissingError
	return ending{said: said, stale: t.connection.used && !t.heard && said == "" && errors.As(status, &silent)}
}
