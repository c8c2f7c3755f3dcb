package gitsource

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

const (
	// accessesMost is how many users at servers are known, each with one credential.
	accessesMost = 4096
	// turnsMost is how many connections one of them has at most.
	turnsMost = 4
	// doorMost is how many connections to one server are made at once: sshd begins to turn some away at 10.
	doorMost = 8
	// restingMost is how many connections rest, of all of them: each takes about 100 KiB.
	restingMost = 128
	// restFor is how long a connection rests before it is closed. Polls are a minute apart.
	restFor = 3 * time.Minute
	// greetWithin is how long a server may take from the first byte until it let the user in.
	greetWithin = 20 * time.Second
)

// sshPool is the connections to SSH servers. A handshake costs both sides some milliseconds of CPU and several
// round trips, so that a connection serves one command after the other. It is safe for concurrent use.
type sshPool struct {
	dial     dialFunc
	dir      string
	accesses *lru[string, *sshAccess]
	doors    *lru[string, chan struct{}] // by address, held while a connection is made

	mu      sync.Mutex
	resting []*sshConnection // the longest first
}

func newSSHPool(dial dialFunc, dir string) *sshPool {
	return &sshPool{dial: dial, dir: dir, accesses: newLRU[string, *sshAccess](accessesMost), doors: newLRU[string, chan struct{}](accessesMost)}
}

// sshAccess is a user at a server, as one credential shows him.
type sshAccess struct {
	pool          *sshPool
	user, address string
	credentials   Credentials
	turns         chan struct{} // held by each connection that is not at rest

	mu      sync.Mutex
	signer  ssh.Signer
	host    *hostKeys
	refused error // what is wrong with the credentials
}

// sshConnection carries one command at a time.
type sshConnection struct {
	access *sshAccess
	client *ssh.Client
	raw    net.Conn
	used   bool // it carried a command before
	rest   *time.Timer
}

// hangUp closes a connection from under everything that waits for it.
func (c *sshConnection) hangUp() { _ = c.raw.Close() }

// access returns what is kept under a key.
func (p *sshPool) access(key, user, address string, credentials Credentials) *sshAccess {
	return p.accesses.getOrPut(key, func() *sshAccess {
		return &sshAccess{pool: p, user: user, address: address, credentials: credentials, turns: make(chan struct{}, turnsMost)}
	})
}

// take returns a connection for one command: one that rests, or else a new one. It goes to put or to drop.
func (a *sshAccess) take(ctx context.Context) (*sshConnection, error) {
	select {
	case a.turns <- struct{}{}:
	case <-ctx.Done():
		return nil, callerGone(ctx)
	}
	if c := a.pool.wake(a); c != nil {
		return c, nil
	}
	c, err := a.connect(ctx)
	if err != nil {
		<-a.turns
		return nil, err
	}
	return c, nil
}

// wake takes the connection out that rested for the shortest time: it is the likeliest to live.
func (p *sshPool) wake(a *sshAccess) *sshConnection {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, c := range slices.Backward(p.resting) {
		if c.access == a {
			p.resting = slices.Delete(p.resting, i, i+1)
			c.rest.Stop()
			return c
		}
	}
	return nil
}

// put lets a connection rest.
func (a *sshAccess) put(c *sshConnection) {
	p := a.pool
	p.mu.Lock()
	c.used = true
	c.rest = time.AfterFunc(restFor, func() { p.retire(c) })
	p.resting = append(p.resting, c)
	var oldest *sshConnection
	if len(p.resting) > restingMost {
		oldest = p.resting[0]
	}
	p.mu.Unlock()
	<-a.turns
	if oldest != nil {
		p.retire(oldest)
	}
}

// retire closes a connection, if it rests.
func (p *sshPool) retire(c *sshConnection) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.resting, c); i >= 0 {
		p.resting = slices.Delete(p.resting, i, i+1)
		c.rest.Stop()
		c.hangUp()
	}
}

// drop closes a connection that was taken.
func (a *sshAccess) drop(c *sshConnection) {
	c.hangUp()
	<-a.turns
}

// connect makes a connection, on which the user is let in.
func (a *sshAccess) connect(ctx context.Context) (*sshConnection, error) {
	config, err := a.config()
	if err != nil {
		return nil, err
	}
	door := a.pool.doors.getOrPut(a.address, func() chan struct{} { return make(chan struct{}, doorMost) })
	select {
	case door <- struct{}{}:
		defer func() { <-door }()
	case <-ctx.Done():
		return nil, callerGone(ctx)
	}
	raw, err := a.pool.dial(ctx, "tcp", a.address)
	if err != nil {
		return nil, err
	}
	release := context.AfterFunc(ctx, func() { _ = raw.Close() })
	defer release()
	_ = raw.SetDeadline(time.Now().Add(greetWithin))
	conn, channels, requests, err := ssh.NewClientConn(raw, a.address, config)
	if err != nil {
		_ = raw.Close()
		return nil, a.notLetIn(err)
	}
	_ = raw.SetDeadline(time.Time{})
	c := &sshConnection{access: a, client: ssh.NewClient(conn, channels, requests), raw: raw}
	go func() {
		_ = c.client.Wait() // until either side closed it
		a.pool.retire(c)
	}()
	return c, nil
}

// config is how the server is met.
func (a *sshAccess) config() (*ssh.ClientConfig, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.read(); err != nil {
		return nil, err
	}
	algorithms, err := a.host.algorithms()
	if err != nil {
		return nil, err
	}
	return &ssh.ClientConfig{
		User:              a.user,
		Auth:              []ssh.AuthMethod{ssh.PublicKeys(a.signer)},
		HostKeyCallback:   a.host.check,
		HostKeyAlgorithms: algorithms,
		ClientVersion:     "SSH-2.0-gitfn",
	}, nil
}

// read reads the credentials, once: a passphrase is slow by design, and what is wrong with them stays wrong.
func (a *sshAccess) read() (err error) {
	if a.signer != nil || a.refused != nil {
		return a.refused
	}
	signer, err := readPrivateKey(a.credentials.SSHKey, a.credentials.SSHPassphrase)
	if err == nil {
		a.host, err = knowHost(a.pool.dir, a.address, a.credentials.KnownHosts)
	}
	var kind *kindError
	if errors.As(err, &kind) {
		a.refused = err
	}
	if err == nil {
		a.signer = signer
	}
	return err
}

// notLetIn makes an error of a handshake that failed.
func (a *sshAccess) notLetIn(err error) error {
	var kind *kindError
	var negotiation *ssh.AlgorithmNegotiationError
	text := err.Error()
	switch {
	case errors.As(err, &kind):
		return kind
	case errors.As(err, &negotiation) && strings.Contains(negotiation.What, "host key"):
		return a.host.negotiated(negotiation)
	case errors.As(err, &negotiation):
		return errorf(ErrUnsupported, "the SSH server offers only algorithms that are too weak, or unknown, for %s: %s",
			negotiation.What, oneLine(strings.Join(negotiation.RequestedAlgorithms, ", "), saidMost))
	case strings.Contains(text, "no common public key signature algorithm"):
		return errorf(ErrAuth, "the SSH server accepts RSA keys with SHA-1 signatures only, which are too weak; use a key of ssh-keygen -t ed25519")
	case strings.Contains(text, "unable to authenticate"), strings.Contains(text, "authentication failures"):
		return errorf(ErrAuth, "the SSH server refused the key as user %s; register its public key there (%s)",
			a.user, ssh.FingerprintSHA256(a.signer.PublicKey()))
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errors.New("the SSH server did not let the user in in time")
	}
	return fmt.Errorf("connect: %w", err)
}
