package gitsource

import (
	"context"
	"fmt"
	"net"
	"net/url"
)

// dialFunc connects to an address that a user chose, or refuses to.
type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// newDaemon reaches a repository over git://, which knows no credentials.
func newDaemon(at *url.URL, dial dialFunc, o Options) *stream {
	s := &stream{endpoint: newEndpoint(at, Credentials{}, o)}
	s.open = func(ctx context.Context) (conversation, error) { return openDaemon(ctx, at, dial) }
	return s
}

func openDaemon(ctx context.Context, at *url.URL, dial dialFunc) (conversation, error) {
	raw, err := dial(ctx, "tcp", remoteAddress(at))
	if err != nil {
		return nil, err
	}
	c := &daemonConversation{Conn: raw, release: context.AfterFunc(ctx, func() { _ = raw.Close() })}
	r := &request{}
	r.wordf("git-upload-pack %s\x00host=%s\x00\x00version=2\x00", remotePath(at), at.Host)
	if _, err := c.Write(r.Bytes()); err != nil {
		c.close(false)
		return nil, fmt.Errorf("ask for the repository: %w", err)
	}
	return c, nil
}

// daemonConversation has a connection of its own.
type daemonConversation struct {
	net.Conn
	release func() bool
}

func (c *daemonConversation) close(bool) ending {
	c.release()
	_ = c.Conn.Close()
	return ending{}
}
