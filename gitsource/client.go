package gitsource

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
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
	mirrors    *mirrors
	sources    *lru[string, *source]
	facts      *lru[factsKey, facts]
	transports *lru[[sha256.Size]byte, *http.Transport]
	hosts      *lru[string, *rate.Limiter]
	counts     counts
}

type factsKey struct{ source, commit, baseDir string }

const (
	sourcesMost    = 4096   // repositories and credentials whose last answer is kept
	factsMost      = 16_384 // commits and base directories that cost nothing
	transportsMost = 64     // CA bundles with connections of their own
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
		dial:       dialer.New(dialer.Policy{Allow: options.Allow, Deny: options.Deny}, 10*time.Second),
		mirrors:    mirrors,
		sources:    newLRU[string, *source](sourcesMost),
		facts:      newLRU[factsKey, facts](factsMost),
		transports: newLRU[[sha256.Size]byte, *http.Transport](transportsMost),
		hosts:      newLRU[string, *rate.Limiter](sourcesMost),
	}
	c.transports.evicted = func(t *http.Transport) { t.CloseIdleConnections() }
	_, _ = rand.Read(c.key) // never fails
	if _, err := c.transport(nil); err != nil {
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
// were wanted lately. A failure stands for maxAge too, but at most ten seconds. The facts of a commit are
// cached, so that a ref that did not move costs nothing else.
//
// Errors match ErrAuth, ErrRefNotFound, ErrRepositoryNotFound, ErrBaseDirNotFound, ErrTooLarge, ErrUnsafeTree,
// ErrUnavailable, ErrAddressRefused, ErrInvalidURL or ErrUnsupported, or are the context's.
func (c *Client) Resolve(ctx context.Context, repo Repository, wanted Selection, maxAge time.Duration) (Revision, error) {
	reference := wanted.Reference
	baseDir, err := CleanBaseDir(wanted.BaseDir)
	if err != nil {
		return Revision{}, err
	}
	src, err := c.source(repo)
	if err != nil {
		return Revision{}, err
	}
	revision := Revision{Reference: reference, Commit: strings.ToLower(reference)}
	if !isCommit(reference) {
		at, warnings, err := src.find(ctx, reference, maxAge)
		if err != nil {
			return Revision{}, err
		}
		revision.Ref, revision.Commit, revision.Warnings = at.name, at.commit(), warnings
		if at.target != "" {
			revision.Ref = at.target
		}
		src.moves.saw(reference, revision.Commit, c.options.Now(), &c.counts)
	}
	found, err := c.commitFacts(ctx, src, revision.Commit, baseDir)
	if refused(err) && !isCommit(reference) {
		src.refs.forget()
		return Revision{}, &UnavailableError{Err: fmt.Errorf("resolve reference %q: it moved while it was read: %v", reference, err)}
	}
	if err != nil {
		return Revision{}, err
	}
	revision.Tree = found.tree.String()
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
			src.refs.forget()
		}
	}
}

// Fetch returns the files that a selection makes of a commit. The caller closes the Tree.
//
// Errors are those of Resolve.
func (c *Client) Fetch(ctx context.Context, repo Repository, commit string, wanted Selection) (*Tree, error) {
	baseDir, err := CleanBaseDir(wanted.BaseDir)
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
	var tree *Tree
	err = c.withCommit(ctx, src, strings.ToLower(commit), func(m *mirror) error {
		tree, err = m.tree(ctx, src.remote, strings.ToLower(commit), baseDir)
		return err
	})
	return tree, err
}

// tree lists the files of a commit, fetches their blobs and pins the mirror until the Tree is closed.
func (m *mirror) tree(ctx context.Context, from remote, commit, baseDir string) (*Tree, error) {
	found, err := readFacts(m.storage(), commit, baseDir)
	if err != nil {
		return nil, err
	}
	w := &walk{from: m.storage(), limits: m.owner.limits}
	if err := w.directory(found.tree, "", 0); err != nil {
		return nil, err
	}
	if err := m.fetchBlobs(ctx, from, commit, w.ids); err != nil {
		return nil, err
	}
	storage := m.storage()
	w.from = storage
	if err := w.fill(storage.EncodedObjectSize); err != nil {
		return nil, err
	}
	t := &Tree{ID: found.tree.String(), Files: w.files, objects: storage, ids: make(map[string]plumbing.Hash, len(w.ids))}
	for i, f := range w.files {
		t.ids[f.Path] = w.ids[i]
	}
	slices.SortFunc(t.Files, byPath)
	t.release = m.pin()
	return t, nil
}

// commitFacts is readFacts with a cache and a mirror.
func (c *Client) commitFacts(ctx context.Context, src *source, commit, baseDir string) (found facts, err error) {
	key := factsKey{src.key, commit, baseDir}
	if found, ok := c.facts.get(key); ok {
		return found, nil
	}
	err = c.withCommit(ctx, src, commit, func(m *mirror) error {
		var known bool
		if found, known = c.facts.get(key); known {
			return nil
		}
		found, err = readFacts(m.storage(), commit, baseDir)
		return err
	})
	if err == nil {
		c.facts.put(key, found)
	}
	return found, err
}

// withCommit runs use on a mirror that has the commit, and once more on a mirror made anew if the first was broken.
func (c *Client) withCommit(ctx context.Context, src *source, commit string, use func(*mirror) error) error {
	err := c.tryCommit(ctx, src, commit, use)
	if errors.Is(err, errBroken) {
		err = c.tryCommit(ctx, src, commit, use)
	}
	return src.remote.explain(err)
}

func (c *Client) tryCommit(ctx context.Context, src *source, commit string, use func(*mirror) error) error {
	m, err := c.mirrors.acquire(src.key)
	if err != nil {
		return err
	}
	defer m.release()
	err = m.work(ctx, func() error {
		if err := m.fetchCommit(ctx, src.remote, commit); err != nil {
			return err
		}
		return use(m)
	})
	if errors.Is(err, errBroken) {
		m.drop()
	}
	return err
}
