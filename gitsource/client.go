package gitsource

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"golang.org/x/time/rate"

	"github.com/gitfn/gitfn/gitsource/dialer"
)

// Client reads repositories. It is safe for concurrent use; one is enough for a process, and shares more.
type Client struct {
	options    Options
	key        []byte // of the names under which things of a credential are kept, random
	dial       *net.Dialer
	ssh        *sshPool
	mirrors    *mirrors
	sources    *lru[string, *source]
	facts      *lru[factsKey, facts]
	safe       *lru[safeKey, struct{}]
	verified   *lru[verifiedKey, signers]
	transports *lru[string, *dialer.Transport]
	hosts      *lru[string, *rate.Limiter]
	counts     counts
}

// factsKey is a commit and what of it is wanted, and safeKey a tree that can be unpacked as far as trees can tell.
type (
	factsKey struct{ source, commit, layout string }
	safeKey  struct {
		source     string
		tree       plumbing.Hash
		submodules bool
	}
)

const (
	sourcesMost    = 4096   // repositories and credentials whose last answer is kept
	factsMost      = 16_384 // commits with what is wanted of them that cost nothing, and trees
	transportsMost = 64     // CA bundles, client certificates and proxies with connections of their own
)

// New returns a Client that keeps its mirrors in options.CacheDir. It makes no connection.
func New(options Options) (*Client, error) {
	if options.CacheDir == "" {
		return nil, errors.New("make client: a cache directory is needed")
	}
	if options.CacheBytes <= 0 {
		options.CacheBytes = 2 << 30
	}
	if options.Timeout <= 0 {
		options.Timeout = 2 * time.Minute
	}
	if options.Now == nil {
		options.Now = time.Now
	}
	options.Limits = options.Limits.withDefaults()
	mirrors, err := newMirrors(options.CacheDir, options.CacheBytes, options.Limits)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	c := &Client{
		options:    options,
		key:        make([]byte, 32),
		dial:       dialer.New(options.policy(), 10*time.Second),
		mirrors:    mirrors,
		sources:    newLRU[string, *source](sourcesMost),
		facts:      newLRU[factsKey, facts](factsMost),
		safe:       newLRU[safeKey, struct{}](factsMost),
		verified:   newLRU[verifiedKey, signers](verifiedMost),
		transports: newLRU[string, *dialer.Transport](transportsMost),
		hosts:      newLRU[string, *rate.Limiter](sourcesMost),
	}
	c.ssh = newSSHPool(c.dial.DialContext, mirrors.dir)
	c.transports.evicted = func(t *dialer.Transport) { t.CloseIdleConnections() }
	_, _ = rand.Read(c.key) // never fails
	c.dial.Resolver = options.Resolver
	if _, err := c.transport(Credentials{}); err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	return c, nil
}

// Resolve finds out what a reference is now: its commit, and the tree that the selection makes of it.
//
// The reference is "HEAD", a full name that begins with refs/, a commit id of 40 digits, "semver:" and a range of
// versions, or else the exact name of a branch, or else of a tag; Revision.Ref says which. A commit id is verified
// by fetching it. An abbreviated one is not found. A range means the highest version in it that a tag names: three
// numbers, with or without a v before them. Prereleases count only where the range names one.
//
// An answer of the server that is younger than maxAge is used again: however many callers ask for refs of one
// repository with the same credentials, one request goes out per maxAge, and it asks for all names that
// were wanted lately. A failure stands for all callers, whatever they want of the repository, for 30 seconds,
// and twice as long each time up to 15 minutes, and as long as the server asks for. Whoever has a reason to ask
// at once gives a maxAge of 3 seconds or less, or calls Forget: for him it stands for 3 seconds. The facts of a
// commit are cached, so that a ref that did not move costs nothing else.
//
// With a Verification, a revision is returned only if trusted keys signed the commit, the annotated tag that the
// reference names, or both. A good signature is remembered together with the keys; a bad one is looked at again.
//
// Errors match ErrAuth, ErrRefNotFound, ErrRepositoryNotFound, ErrBaseDirNotFound, ErrTooLarge, ErrUnsafeTree, ErrUnverified,
// ErrUnavailable, ErrAddressRefused, ErrHostKey, ErrInvalidURL or ErrUnsupported, or are the context's.
func (c *Client) Resolve(ctx context.Context, repo Repository, wanted Selection, maxAge time.Duration) (Revision, error) {
	reference := wanted.Reference
	l, err := wanted.layout()
	if err != nil {
		return Revision{}, err
	}
	src, err := c.source(repo)
	if err != nil {
		return Revision{}, err
	}
	if maxAge <= urgent {
		src.remote.hurry()
	}
	revision := Revision{Reference: reference, Commit: strings.ToLower(reference)}
	var at ref
	if !isCommit(reference) {
		if at, revision.Warnings, err = src.find(ctx, reference, maxAge); err != nil {
			return Revision{}, err
		}
		revision.Ref, revision.Commit = at.name, at.commit()
		if at.target != "" {
			revision.Ref = at.target
		}
		if src.moves.saw(reference, revision.Commit, c.options.Now(), &c.counts) {
			c.changed(src.normalized, reference)
		}
	}
	if wanted.Verification.Mode != VerifyNothing { // first: what nobody signed must not name submodules to ask for
		revision.Signer, err = c.verify(ctx, repo, src, at, revision.Commit, wanted.Verification)
	}
	var found facts
	if err == nil {
		found, err = c.commitFacts(ctx, repo, src, revision.Commit, l)
	}
	if refused(err) && !isCommit(reference) {
		src.refs.forget()
		return Revision{}, &UnavailableError{Err: fmt.Errorf("resolve reference %q: it moved while it was read: %v", reference, err)}
	}
	if err != nil {
		return Revision{}, err
	}
	revision.Tree = found.tree.String()
	revision.Warnings = append(revision.Warnings, found.warnings...)
	revision.Author, revision.Subject, revision.Committed = found.author, found.subject, found.committed
	return revision, nil
}

// Forget makes the next Resolve of every repository with this URL, in whatever form NormalizeURL brings
// together, ask the server whatever its maxAge. A Retry-After of the server is still kept.
func (c *Client) Forget(url string) {
	normalized, err := NormalizeURL(url)
	if err != nil {
		return
	}
	for _, src := range c.sources.values() {
		if src.normalized == normalized {
			src.moves.hint(c.options.Now())
			src.remote.hurry()
			src.refs.forget()
		}
	}
}

// Fetch returns the files that a selection makes of a commit. The caller closes the Tree.
//
// Errors are those of Resolve.
func (c *Client) Fetch(ctx context.Context, repo Repository, commit string, wanted Selection) (*Tree, error) {
	l, err := wanted.layout()
	if err != nil {
		return nil, err
	}
	if !isCommit(commit) {
		return nil, errorf(ErrRefNotFound, "fetch commit %q: a commit is 40 hexadecimal digits", oneLine(commit, 80))
	}
	src, err := c.source(repo)
	if err != nil {
		return nil, err
	}
	a := c.assemble(repo, src, strings.ToLower(commit), l)
	defer a.close()
	if err := a.resolve(ctx, func(plumbing.Hash) bool { return false }); err != nil {
		return nil, err
	}
	if err := a.fill(ctx); err != nil {
		return nil, err
	}
	return a.tree(), nil
}

// commitFacts puts a tree together as far as trees go, with a cache. What was refused stays refused: the next commit is
// another key.
func (c *Client) commitFacts(ctx context.Context, repo Repository, src *source, commit string, l layout) (facts, error) {
	key := factsKey{src.key, commit, l.String()}
	if found, ok := c.facts.get(key); ok {
		return found, found.refusal
	}
	a := c.assemble(repo, src, commit, l)
	defer a.close()
	err := a.resolve(ctx, func(tree plumbing.Hash) bool {
		_, ok := c.safe.get(safeKey{src.key, tree, l.Submodules})
		return ok
	})
	if err != nil {
		if a.refused {
			c.facts.put(key, facts{refusal: err})
		}
		return facts{}, err
	}
	c.safe.put(safeKey{src.key, a.found.tree, l.Submodules}, struct{}{})
	c.facts.put(key, a.found)
	return a.found, nil
}
