package gitsource

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"time"

	"golang.org/x/time/rate"

	"github.com/gitfn/gitfn/gitsource/dialer"
)

// source is one repository as one credential sees it, while it is used.
type source struct {
	key        string // repository and credential, hashed
	normalized string
	remote     *sparing
	refs       *refsShare
	moves      moves
}

// remote is a repository on a server, however it is reached, as one credential sees it. It is safe for concurrent use.
type remote interface {
	// refs hands those refs to visit that are there, one by one: see wanted. It keeps none, however many there are.
	refs(ctx context.Context, names []string, visit func(ref)) error
	// abilities is what the server can do, asked once in a while.
	abilities(ctx context.Context) (abilities, error)
	// pack asks for a pack and hands it to store while it arrives.
	pack(ctx context.Context, w want, store func(io.Reader) error) error
	// explain names the repository in an error and gives it a kind. nil stays nil.
	explain(err error) error
}

// patient keeps a server's Retry-After for packs as well as for refs, whichever request it answered.
type patient struct {
	remote
	share *refsShare
}

func (p patient) abilities(ctx context.Context) (able abilities, err error) {
	if err := p.share.held(); err != nil {
		return able, p.explain(err)
	}
	able, err = p.remote.abilities(ctx)
	p.share.hold(err)
	return able, err
}

func (p patient) pack(ctx context.Context, w want, store func(io.Reader) error) error {
	if err := p.share.held(); err != nil {
		return p.explain(err)
	}
	err := p.remote.pack(ctx, w, store)
	p.share.hold(err)
	return err
}

// find is the ref that a reference means, and what may surprise about it.
func (s *source) find(ctx context.Context, reference string, maxAge time.Duration) (at ref, warnings []string, err error) {
	names, err := candidates(reference)
	if err != nil {
		return ref{}, nil, err
	}
	found, err := s.refs.get(ctx, names, maxAge)
	if err != nil {
		return ref{}, nil, s.remote.explain(err)
	}
	at, warnings, err = choose(reference, names, found)
	if before := s.moves.before(reference); err != nil && before != "" {
		err = errorf(ErrRefNotFound, "%v; it is gone: it led to commit %s", err, before)
	}
	return at, warnings, s.remote.explain(err)
}

// source returns what is kept for a repository and credential.
func (c *Client) source(repo Repository) (*source, error) {
	at, err := usableURL(repo.URL)
	if err != nil {
		return nil, err
	}
	normalized, err := NormalizeURL(repo.URL)
	if err != nil {
		return nil, err
	}
	reach, err := c.reach(at, repo.Credentials)
	if err != nil {
		return nil, err
	}
	key := c.hash(append(repo.Credentials.parts(), at.String(), at.Path)...) // host:a and ssh://host/a are two
	return c.sources.getOrPut(key, func() *source {
		server := counted{reach(), &c.counts}
		ask := func(ctx context.Context, names []string, visit func(ref)) error {
			if err := c.paced(ctx, at.Host); err != nil {
				return err
			}
			return server.refs(ctx, names, visit)
		}
		share := newRefsShare(ask, c.options.Now, func() { c.changed(normalized, "") })
		return &source{key: key, normalized: normalized, remote: &sparing{remote: patient{server, share}, now: c.options.Now}, refs: share}
	}), nil
}

// changed tells that a reference moved, or that a repository answers again.
func (c *Client) changed(url, reference string) {
	if c.options.Changed != nil {
		go c.options.Changed(url, reference)
	}
}

// hash names a list of strings so that nobody else can tell them.
func (c *Client) hash(parts ...string) string {
	mac := hmac.New(sha256.New, c.key)
	for _, part := range parts {
		fmt.Fprintf(mac, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(mac.Sum(nil))
}

// routes returns the connections of a credential. Equal certificates, bundles and proxies share them.
func (c *Client) routes(credentials Credentials) (routes, error) {
	own, err := c.transport(credentials)
	if err != nil {
		return routes{}, err
	}
	credentials.ClientCertificate, credentials.ClientKey = nil, nil
	foreign, err := c.transport(credentials)
	return routes{own, foreign}, err
}

func (c *Client) transport(with Credentials) (*dialer.Transport, error) {
	key := c.hash(string(with.CABundle), string(with.ClientCertificate), string(with.ClientKey), with.Proxy, with.NoProxy)
	if t, ok := c.transports.get(key); ok {
		return t, nil
	}
	t, err := newTransport(c.options, with)
	if err != nil {
		return nil, err
	}
	return c.transports.getOrPut(key, func() *dialer.Transport { return t }), nil
}

// paced waits until a host may be asked again.
func (c *Client) paced(ctx context.Context, host string) error {
	if c.options.HostInterval <= 0 {
		return nil
	}
	limiter := c.hosts.getOrPut(host, func() *rate.Limiter { return rate.NewLimiter(rate.Every(c.options.HostInterval), 1) })
	now := c.options.Now()
	turn := limiter.ReserveN(now, 1)
	delay := turn.DelayFrom(now)
	if delay <= 0 {
		return nil
	}
	if delay > c.options.Timeout {
		turn.CancelAt(now)
		return &UnavailableError{RetryAfter: delay, Err: fmt.Errorf("ask for refs: %s was asked less than %s ago", host, c.options.HostInterval)}
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return callerGone(ctx)
	}
}
