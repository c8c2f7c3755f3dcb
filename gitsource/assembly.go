package gitsource

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
)

// assembly puts one tree together: of a base directory, of what is included, and of submodules. It belongs to one
// goroutine. Only one mirror's turn is held at a time, so that repositories that are submodules of one another do not
// wait for one another.
type assembly struct {
	client *Client
	layout layout
	limits Limits

	parts  map[string]*part // by path
	order  []*part          // as they were found
	stored int64            // bytes that were added to mirrors

	found   facts
	joined  map[string]spot // what is included, by its place below the base directory
	steps   []step          // what is still to be walked, in other parts
	entries int
	files   []listed
	refused bool // by what the Function's own repository holds: asking again would not help
}

// part is a commit of a repository that a tree is put together of: the Function's own, or a submodule.
type part struct {
	path      string // of the submodule, below the root of the Function's repository; "" is that repository
	depth     int    // how many submodules it is in, itself included
	elsewhere bool   // it is on another server than what leads to it
	repo      Repository
	src       *source
	commit    string

	mirror  *mirror       // acquired by the first use
	from    objectReader  // while in use
	root    plumbing.Hash // tree of the commit, after the first use
	modules modules       // nil until they are needed
	made    memoryObjects // trees that were joined
	blobs   objectReader  // after fill
}

// spot is an entry of a commit.
type spot struct {
	part  *part
	path  string // below the root of the part
	entry entry
}

func (c *Client) assemble(repo Repository, src *source, commit string, l layout) *assembly {
	top := &part{repo: repo, src: src, commit: commit}
	return &assembly{client: c, layout: l, limits: c.options.Limits, parts: map[string]*part{"": top}, order: []*part{top}, joined: map[string]spot{}}
}

// close lets go of the mirrors. What has to outlive it must have been pinned.
func (a *assembly) close() {
	for _, p := range a.order {
		if p.mirror != nil {
			p.mirror.release()
		}
	}
}

// tree is what was put together. It keeps the mirrors on disk until it is closed.
func (a *assembly) tree() *Tree {
	t := &Tree{ID: a.found.tree.String(), blobs: make(map[string]blob, len(a.files))}
	for _, f := range a.files {
		t.Files = append(t.Files, f.File)
		t.blobs[f.Path] = blob{f.part.blobs, f.id}
	}
	slices.SortFunc(t.Files, byPath)
	var pins []func()
	for _, p := range a.order {
		if p.blobs != nil {
			pins = append(pins, p.mirror.pin())
		}
	}
	t.release = func() {
		for _, unpin := range pins {
			unpin()
		}
	}
	return t
}

// use works on a part whose commit is there: once more, on a mirror made anew, if the first was broken. So f may run
// twice, and must not add to what its first run left.
func (a *assembly) use(ctx context.Context, p *part, f func() error) error {
	err := a.tryUse(ctx, p, f)
	if errors.Is(err, errBroken) {
		p.mirror.drop()
		p.mirror.release()
		p.mirror, p.modules = nil, nil
		err = a.tryUse(ctx, p, f)
	}
	return p.explain(err)
}

func (a *assembly) tryUse(ctx context.Context, p *part, f func() error) (err error) {
	if p.mirror == nil {
		if p.mirror, err = a.client.mirrors.acquire(p.src.key); err != nil {
			return err
		}
	}
	return p.mirror.work(ctx, func() error {
		before := p.mirror.bytes()
		if err := p.mirror.fetchCommit(ctx, p.src.remote, p.commit); err != nil {
			return err
		}
		p.from = p.mirror.storage()
		defer func() { p.from = nil }()
		if p.root.IsZero() {
			commit, err := readCommit(p.from, p.commit)
			if err != nil {
				return err
			}
			p.root = commit.TreeHash
		}
		if p.made != nil {
			p.from = overlay{p.made, p.from}
		}
		err := f()
		a.refused = p.path == "" && (errors.Is(err, ErrUnsafeTree) || errors.Is(err, ErrBaseDirNotFound) || errors.Is(err, ErrTooLarge))
		if a.stored += max(0, p.mirror.bytes()-before); err == nil && a.stored > storedMost*a.limits.PackBytes {
			return errorf(ErrTooLarge, "read tree: its repositories take more than %d bytes together", storedMost*a.limits.PackBytes)
		}
		return err
	})
}

// storedMost bounds what all repositories of a tree add to the disk, as a multiple of Limits.PackBytes: an index, and blocks
// that are not full, count as well.
const storedMost = 2

// readCommit reads a commit.
func readCommit(from objectReader, id string) (*object.Commit, error) {
	encoded, err := read(from, plumbing.AnyObject, plumbing.NewHash(id))
	if err != nil {
		return nil, err
	}
	if encoded.Type() != plumbing.CommitObject {
		return nil, errorf(ErrRefNotFound, "read commit %s: it is a %s", id, encoded.Type())
	}
	c := &object.Commit{}
	if err := c.Decode(encoded); err != nil {
		return nil, errorf(ErrUnsafeTree, "read commit %s: it is malformed", id)
	}
	return c, nil
}

// facts is what a commit says, and the tree that a layout makes of it.
type facts struct {
	tree            plumbing.Hash
	author, subject string
	committed       time.Time
	warnings        []string
	refusal         error // of the tree, when nothing but another commit cures it
}

// describe tells a commit, but for its tree.
func describe(c *object.Commit) facts {
	subject, _, _ := strings.Cut(strings.TrimLeft(c.Message, "\n"), "\n")
	return facts{author: oneLine(c.Author.Name, 100), subject: oneLine(subject, 200), committed: c.Committer.When}
}

// search is the way to one path of a layout.
type search struct {
	spot        // how far it came
	left string // of the path, below the spot
	done bool
}

// resolve finds out the tree, and checks what trees can tell unless known says that this was done for it.
func (a *assembly) resolve(ctx context.Context, known func(tree plumbing.Hash) bool) error {
	top, searches, finished := a.order[0], []*search(nil), false
	err := a.use(ctx, top, func() error {
		commit, err := readCommit(top.from, top.commit)
		if err != nil {
			return err
		}
		a.found = describe(commit)
		searches = nil
		for _, at := range a.layout.paths() {
			searches = append(searches, &search{spot: spot{part: top}, left: at})
		}
		if err := a.advance(ctx, top, searches); err != nil {
			return err
		}
		if finished = next(searches) == nil && searches[0].part == top; !finished {
			return nil // what is left is in submodules
		}
		return a.finish(ctx, searches, known)
	})
	for s := next(searches); err == nil && s != nil; s = next(searches) {
		err = a.use(ctx, s.part, func() error { return a.advance(ctx, s.part, searches) })
	}
	if err == nil && !finished {
		err = a.use(ctx, searches[0].part, func() error { return a.finish(ctx, searches, known) })
	}
	for err == nil && len(a.steps) > 0 {
		s := a.steps[0]
		a.steps = a.steps[1:]
		at := a.mark()
		err = a.use(ctx, s.part, func() error {
			a.rewind(at)
			return a.place(ctx, s.part, s.spot, s.at)
		})
	}
	return err
}

// next is the first search that is not done.
func next(searches []*search) *search {
	if i := slices.IndexFunc(searches, func(s *search) bool { return !s.done }); i >= 0 {
		return searches[i]
	}
	return nil
}

// advance brings the searches that are in a part to their end, or into a submodule. The first one is for the base
// directory.
func (a *assembly) advance(ctx context.Context, p *part, searches []*search) error {
	for i, s := range searches {
		if s.done || s.part != p {
			continue
		}
		missing := func(format string, args ...any) error {
			what := "find base directory %q: "
			if i > 0 {
				what = "find include %q: "
			}
			return errorf(ErrBaseDirNotFound, what+format, append([]any{a.layout.paths()[i]}, args...)...)
		}
		if err := a.descend(ctx, s, i == 0, missing); err != nil {
			return err
		}
	}
	return nil
}

// descend goes down to the end of a search's path, or to the root of a submodule. A base directory that is a submodule
// is its root; what is included stays the submodule.
func (a *assembly) descend(ctx context.Context, s *search, isBase bool, missing func(string, ...any) error) error {
	p, at, left := s.part, s.path, s.left
	here := s.entry
	if at == "" {
		here = entry{mode: filemode.Dir, id: p.root}
	}
	for left != "" {
		name, rest, _ := strings.Cut(left, "/")
		below, ok, err := findEntry(p.from, here.id, name)
		if err != nil {
			return err
		}
		if !ok {
			return missing("commit %s has no %q", p.commit, path.Join(p.path, at, name))
		}
		at, left, here = path.Join(at, name), rest, below
		if here.mode == filemode.Submodule && (left != "" || isBase) {
			inner, err := a.submodule(ctx, p, at, here.id)
			if err != nil {
				return err
			}
			s.spot, s.left = spot{part: inner}, left
			return nil
		}
		if here.mode != filemode.Dir && (left != "" || isBase) {
			return missing("in commit %s %q is no directory", p.commit, path.Join(p.path, at))
		}
	}
	s.spot, s.left, s.done = spot{part: p, path: at, entry: here}, "", true
	return nil
}

// finish joins what is included with the base directory, whose part is in use.
func (a *assembly) finish(ctx context.Context, searches []*search, known func(tree plumbing.Hash) bool) error {
	a.rewind(mark{})
	base := searches[0].spot
	a.found.tree = base.entry.id
	if len(searches) > 1 {
		joining := grafts{}
		for i, include := range a.layout.Include {
			joining.add(include.To, searches[i+1].entry, include.Path)
			a.joined[include.To] = searches[i+1].spot
		}
		base.part.made = memoryObjects{}
		var err error
		if a.found.tree, err = joining.join(base.part.from, base.entry.id, "", a.limits.Files, base.part.made); err != nil {
			return err
		}
		base.part.from = overlay{base.part.made, base.part.from}
	}
	var err error
	if a.found.warnings, err = locksAbove(base, a.found.tree); err != nil || known(a.found.tree) {
		return err
	}
	base.entry.id = a.found.tree
	return a.directory(ctx, base, "")
}
