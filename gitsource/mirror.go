package gitsource

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/storage/filesystem"
)

const (
	// haveMost is how many commits a server is told about when it is asked for another.
	haveMost = 8
	// packsMost is how many packs a mirror collects before it is made anew: each has an index to be read.
	packsMost = 32
	// commitsMost is how many commits a mirror collects before it is made anew: nothing else ever leaves it.
	commitsMost = 4096
)

// errBroken is inside every error that a mirror made anew may cure.
var errBroken = errors.New("mirror is broken")

// mirrors is the mirrors of all repositories, on disk.
type mirrors struct {
	dir     string
	quota   int64
	limits  Limits
	objects *objectCache

	mu     sync.Mutex
	serial int
	live   map[string]*mirror // by repository and credential
}

// mirror is commits and trees of one repository as one credential sees it, without history, and the blobs that
// were fetched. Its directory is written by one at a time, and only ever gains files.
type mirror struct {
	owner  *mirrors
	key    string
	serial int
	dir    string

	turn    chan struct{} // held by who works on it; guards the next two
	commits []string      // those that are whole, in the order they came
	packs   int

	// guarded by owner.mu
	pins    int
	size    int64
	used    int
	dropped bool
}

// newMirrors empties the place where mirrors are: their names are of a process and mean nothing to the next.
func newMirrors(dir string, quota int64, limits Limits) (*mirrors, error) {
	dir = filepath.Join(dir, "mirrors")
	if err := os.RemoveAll(dir); err != nil {
		return nil, fmt.Errorf("empty cache: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make cache: %w", err)
	}
	return &mirrors{dir: dir, quota: quota, limits: limits, objects: newObjectCache(), live: map[string]*mirror{}}, nil
}

// acquire returns the mirror of a key and keeps it on disk until release.
func (ms *mirrors) acquire(key string) (*mirror, error) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	ms.serial++
	m := ms.live[key]
	if m == nil {
		m = &mirror{owner: ms, key: key, serial: ms.serial, turn: make(chan struct{}, 1)}
		m.dir = filepath.Join(ms.dir, key+"-"+strconv.Itoa(ms.serial))
		if err := os.MkdirAll(m.dir, 0o700); err != nil {
			return nil, diskError(err)
		}
		ms.live[key] = m
	}
	m.pins++
	m.used = ms.serial
	return m, nil
}

// pin keeps a mirror that is acquired on disk for longer, until the function it returns is called.
func (m *mirror) pin() (release func()) {
	m.owner.mu.Lock()
	defer m.owner.mu.Unlock()
	m.pins++
	return m.release
}

// release lets go of a mirror, and makes room if there is too much on disk.
func (m *mirror) release() {
	ms := m.owner
	ms.mu.Lock()
	m.pins--
	var gone []string
	if m.dropped && m.pins == 0 {
		gone = append(gone, m.dir)
	}
	gone = append(gone, ms.evict(ms.quota)...)
	ms.mu.Unlock()
	for _, dir := range gone {
		_ = os.RemoveAll(dir) // what stays is removed by the next New
	}
}

// shrink removes mirrors that nobody uses, the least recently used first, until all take no more than that many bytes.
// It returns how many they take.
func (ms *mirrors) shrink(to int64) (total int64) {
	ms.mu.Lock()
	gone := ms.evict(to)
	for _, m := range ms.live {
		total += m.size
	}
	ms.mu.Unlock()
	for _, dir := range gone {
		_ = os.RemoveAll(dir)
	}
	return total
}

// evict is shrink without the disk: it returns what is to be removed.
func (ms *mirrors) evict(to int64) (gone []string) {
	var total int64
	var idle []*mirror
	for _, m := range ms.live {
		total += m.size
		if m.pins == 0 {
			idle = append(idle, m)
		}
	}
	slices.SortFunc(idle, func(a, b *mirror) int { return a.used - b.used })
	for _, m := range idle {
		if total <= to {
			break
		}
		total -= m.size
		delete(ms.live, m.key)
		gone = append(gone, m.dir)
	}
	return gone
}

// drop makes the next acquire begin with an empty mirror. Who holds this one can still read it.
func (m *mirror) drop() {
	m.owner.mu.Lock()
	defer m.owner.mu.Unlock()
	if m.owner.live[m.key] == m {
		delete(m.owner.live, m.key)
	}
	m.dropped = true
}

// work waits for the mirror to be free and runs f on it.
func (m *mirror) work(ctx context.Context, f func() error) error {
	select {
	case m.turn <- struct{}{}:
	case <-ctx.Done():
		return callerGone(ctx)
	}
	defer func() { <-m.turn }()
	return f()
}

// storage reads the mirror as it is now. Its indexes live as long as it does, so it is made for each use.
func (m *mirror) storage() *filesystem.Storage {
	return filesystem.NewStorage(osfs.New(m.dir), m.owner.objects.of(m.serial))
}

// fetchCommit makes sure that a commit and its trees are there.
func (m *mirror) fetchCommit(ctx context.Context, from remote, commit string) error {
	if slices.Contains(m.commits, commit) {
		return nil
	}
	able, err := from.abilities(ctx)
	if err != nil {
		return err
	}
	err = m.fetch(ctx, from, m.wantShallow(able, commit))
	if refused(err) && able.version != 2 { // it gives what it lists, which of an annotated tag is the tag
		if id := advertised(ctx, from, commit); id != "" && id != commit {
			err = m.fetch(ctx, from, m.wantShallow(able, id))
		}
	}
	if refused(err) {
		return fmt.Errorf("fetch commit %s: the server does not have it, or gives only what a branch or tag leads to: %w", commit, err)
	}
	if err != nil {
		return err
	}
	found, err := m.storage().EncodedObject(plumbing.AnyObject, plumbing.NewHash(commit))
	switch {
	case err != nil:
		return fmt.Errorf("find commit %s after fetching it: %w", commit, errBroken)
	case found.Type() != plumbing.CommitObject: // a server would not understand it among the commits that are there
		return errorf(ErrRefNotFound, "fetch commit %s: it is a %s; a reference must lead to a commit", commit, found.Type())
	}
	m.commits = append(m.commits, commit)
	return nil
}

// wantShallow is one object with what it leads to, but without history and, if the server can do that, blobs.
func (m *mirror) wantShallow(able abilities, id string) want {
	w := want{ids: []string{id}, shallow: true, blobless: able.filters()}
	if able.version == 2 && able.shallow() {
		w.haves = m.commits[max(0, len(m.commits)-haveMost):]
	}
	return w
}

// advertised is what a server's list of refs names that leads to a commit, or empty.
func advertised(ctx context.Context, from remote, commit string) (id string) {
	_ = from.refs(ctx, []string{"refs/"}, func(r ref) { // without an answer the first refusal stands
		if r.commit() == commit {
			id = r.id
		}
	})
	return id
}

// fetchBlobs makes sure that blobs of a commit are there.
func (m *mirror) fetchBlobs(ctx context.Context, from remote, commit string, ids []plumbing.Hash) error {
	storage := m.storage()
	missing := make([]string, 0, len(ids))
	for _, id := range ids {
		if storage.HasEncodedObject(id) != nil {
			missing = append(missing, id.String())
		}
	}
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	err := m.fetch(ctx, from, want{ids: slices.Compact(missing)})
	if errors.Is(err, ErrRefNotFound) { // a server that filters, and gives nothing by id but commits
		err = m.fetch(ctx, from, want{ids: []string{commit}, shallow: true})
	}
	return err
}

func (m *mirror) fetch(ctx context.Context, from remote, w want) error {
	thin := len(w.haves) > 0
	if m.packs >= packsMost || len(m.commits) >= commitsMost {
		return fmt.Errorf("mirror has %d packs and %d commits: %w", m.packs, len(m.commits), errBroken)
	}
	err := from.pack(ctx, w, func(pack io.Reader) error {
		return storePack(m.dir, &growth{r: pack, of: m}, thin, m.storage(), m.limits(w))
	})
	if err == nil && !thin {
		m.packs++
	}
	if errors.Is(err, errDiskFull) {
		m.drop()
		m.owner.shrink(0)
	}
	if errors.Is(err, ErrTooLarge) && w.shallow && !w.blobless {
		err = fmt.Errorf("%w; the server cannot leave files out, as it could with uploadpack.allowFilter, so that all of the commit counts", err)
	}
	m.measure()
	return err
}

// shallowDelta is how large a file may be that comes along with a commit as a delta. It is for who resolves, and serves
// many: a build, which asks for files, may have larger ones.
const shallowDelta = 16 << 20

// limits are those of a pack: where files were to be left out there are only small objects.
func (m *mirror) limits(w want) Limits {
	l := m.owner.limits
	if w.shallow {
		l.deltaBytes = shallowDelta
	}
	if w.blobless {
		l.FileBytes = min(metaBytes, l.FileBytes)
	}
	return l
}

// growth counts what a mirror takes on disk while a pack arrives.
type growth struct {
	r       io.Reader
	of      *mirror
	pending int64
}

// growthStep is how much arrives between two looks at the quota.
const growthStep = 1 << 20

// Read passes bytes on, and makes room for them. What is in use may take a quarter more than the quota.
func (g *growth) Read(p []byte) (int, error) {
	n, err := g.r.Read(p)
	if g.pending += int64(n); g.pending >= growthStep {
		ms := g.of.owner
		ms.mu.Lock()
		g.of.size += g.pending
		ms.mu.Unlock()
		g.pending = 0
		if total := ms.shrink(ms.quota); total > ms.quota+ms.quota/4 {
			return 0, &UnavailableError{Err: errQuota}
		}
	}
	return n, err
}

var errQuota = errors.New("keep objects: the repositories that are read just now fill the space for mirrors")

// measure counts what the mirror takes on disk.
func (m *mirror) measure() {
	var size int64
	_ = filepath.WalkDir(m.dir, func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			if info, err := entry.Info(); err == nil {
				size += max(info.Size(), 4096) // a small file takes a block
			}
		}
		return nil
	})
	m.owner.mu.Lock()
	defer m.owner.mu.Unlock()
	m.size = size
}

// bytes is what the mirror takes on disk.
func (m *mirror) bytes() int64 {
	m.owner.mu.Lock()
	defer m.owner.mu.Unlock()
	return m.size
}

// objectReader is the one thing of a storage that reading needs.
type objectReader interface {
	EncodedObject(plumbing.ObjectType, plumbing.Hash) (plumbing.EncodedObject, error)
}

// read returns an object that must be there.
func read(from objectReader, kind plumbing.ObjectType, id plumbing.Hash) (object plumbing.EncodedObject, err error) {
	defer func() {
		if p := recover(); p != nil {
			object, err = nil, fmt.Errorf("read object %s: %w: %v", id, errBroken, p)
		}
	}()
	if object, err = from.EncodedObject(kind, id); err != nil {
		return nil, fmt.Errorf("read object %s: %w: %v", id, errBroken, err)
	}
	return object, nil
}

// objectCache is the one cache of objects for all mirrors. One mirror never sees what another put there: a tree of
// somebody else's making may name any blob.
type objectCache struct {
	*lru[objectKey, plumbing.EncodedObject]
}

type objectKey struct {
	mirror int
	id     plumbing.Hash
}

// objectCacheBytes is what the cache holds, and objectCacheMost the largest object in it.
const (
	objectCacheBytes = 16 << 20
	objectCacheMost  = 1 << 20
)

func newObjectCache() *objectCache {
	c := &objectCache{newLRU[objectKey, plumbing.EncodedObject](objectCacheBytes)}
	c.cost = func(o plumbing.EncodedObject) int64 { return o.Size() + 256 }
	return c
}

// of is the part of the cache that belongs to one mirror.
func (c *objectCache) of(mirror int) mirrorCache { return mirrorCache{c, mirror} }

// mirrorCache is go-git's cache.Object.
type mirrorCache struct {
	all    *objectCache
	mirror int
}

// Put keeps an object, unless it is large.
func (c mirrorCache) Put(o plumbing.EncodedObject) {
	if o.Size() <= objectCacheMost {
		c.all.put(objectKey{c.mirror, o.Hash()}, o)
	}
}

// Get returns an object of the mirror.
func (c mirrorCache) Get(id plumbing.Hash) (plumbing.EncodedObject, bool) {
	return c.all.get(objectKey{c.mirror, id})
}

// Clear does nothing: the cache is not this mirror's to clear.
func (c mirrorCache) Clear() {}
