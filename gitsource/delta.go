package gitsource

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
)

const (
	// deltaBytes bounds the bases that are in memory at once besides the last, and the deltas between an object and its
	// last base: who reads the object later has them in memory together.
	deltaBytes = 16 << 20
	// deltaDepth bounds how many deltas are between an object and its last base. Git itself allows as many.
	deltaDepth = 4095
)

// delta is an object of a pack that is made out of another.
type delta struct {
	at   int           // which object of the pack it is
	base int64         // the offset of the base in the pack, or
	id   plumbing.Hash // the base's id
	done bool
}

// resolve finds out the ids of deltas, base by base, so that each delta is applied once. emit, unless it is nil, is
// shown every object. A base that is not in the pack is read from outside, which is nil where there must be none.
func (p *pack) resolve(outside objectReader, emit func(plumbing.ObjectType, []byte) error) error {
	slices.SortFunc(p.byOffset, func(a, b delta) int { return cmp.Compare(a.base, b.base) })
	slices.SortFunc(p.byID, func(a, b delta) int { return bytes.Compare(a.id[:], b.id[:]) })
	for _, o := range p.objects {
		if o.kind.IsDelta() || emit == nil && p.children(o.offset, o.id).none() {
			continue
		}
		content, err := p.inflate(o.offset)
		if err != nil {
			return err
		}
		if err := p.descend(o.kind, content, p.children(o.offset, o.id), emit); err != nil {
			return err
		}
	}
	return p.resolveOutside(outside, emit)
}

// resolveOutside goes on with the deltas of objects that are not in the pack.
func (p *pack) resolveOutside(outside objectReader, emit func(plumbing.ObjectType, []byte) error) error {
	missing := fmt.Errorf("read pack: a delta has no base: %w", errProtocol)
	for i := range p.byID {
		d := &p.byID[i]
		if d.done || outside == nil {
			continue
		}
		kind, content, err := readWhole(outside, d.id, p.limits.delta())
		if errors.Is(err, errBroken) { // it may be a delta of the pack too, whose turn has not come
			missing = err
			continue
		}
		if err != nil {
			return err
		}
		// It is there already: nobody needs to be shown it.
		if err := p.apply(kind, content, p.children(-1, d.id), emit); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(p.objects, func(o packedObject) bool { return o.id.IsZero() }) {
		return missing
	}
	return nil
}

// readWhole reads an object that is there already.
func readWhole(from objectReader, id plumbing.Hash, limit int64) (plumbing.ObjectType, []byte, error) {
	object, err := read(from, plumbing.AnyObject, id)
	if err != nil {
		return 0, nil, err
	}
	if object.Size() > limit {
		return 0, nil, errorf(ErrTooLarge, "%s of %d bytes is larger than the limit of %d", what(object.Type()), object.Size(), limit)
	}
	reader, err := object.Reader()
	if err != nil {
		return 0, nil, fmt.Errorf("read object %s: %w: %v", id, errBroken, err)
	}
	defer reader.Close()
	var content bytes.Buffer
	if _, err := content.ReadFrom(reader); err != nil {
		return 0, nil, fmt.Errorf("read object %s: %w: %v", id, errBroken, err)
	}
	return object.Type(), content.Bytes(), nil
}

// children are the deltas of one base.
type children struct{ byOffset, byID []delta }

func (c children) none() bool { return len(c.byOffset)+len(c.byID) == 0 }

// next takes one.
func (c *children) next() *delta {
	from := &c.byOffset
	if len(*from) == 0 {
		from = &c.byID
	}
	d := &(*from)[0]
	*from = (*from)[1:]
	return d
}

// children finds the deltas of the object at an offset, and of its id. An object that is not in the pack has no offset.
func (p *pack) children(offset int64, id plumbing.Hash) children {
	first, _ := slices.BinarySearchFunc(p.byOffset, offset, func(d delta, offset int64) int { return cmp.Compare(d.base, offset) })
	last := first
	for last < len(p.byOffset) && p.byOffset[last].base == offset {
		last++
	}
	c := children{byOffset: p.byOffset[first:last]}
	first, _ = slices.BinarySearchFunc(p.byID, id, func(d delta, id plumbing.Hash) int { return bytes.Compare(d.id[:], id[:]) })
	for last = first; last < len(p.byID) && p.byID[last].id == id; {
		last++
	}
	c.byID = p.byID[first:last]
	return c
}

// descend shows an object, and everything that is made out of it.
func (p *pack) descend(kind plumbing.ObjectType, content []byte, of children, emit func(plumbing.ObjectType, []byte) error) error {
	if emit != nil {
		if err := emit(kind, content); err != nil {
			return err
		}
	}
	return p.apply(kind, content, of, emit)
}

// base is an object in memory, with the deltas that are still to be applied to it.
type base struct {
	content []byte
	of      children
	depth   int
	deltas  int64 // bytes of deltas between it and its last base
}

// apply applies the deltas of an object, and theirs. A base leaves the memory before its last delta is followed.
func (p *pack) apply(kind plumbing.ObjectType, content []byte, of children, emit func(plumbing.ObjectType, []byte) error) error {
	stack := []base{{content: content, of: of}}
	held := int64(len(content))
	for len(stack) > 0 {
		top := &stack[len(stack)-1]
		if top.of.none() {
			held -= int64(len(top.content))
			stack = stack[:len(stack)-1]
			continue
		}
		d := top.of.next()
		if d.done { // the pack has its base twice
			continue
		}
		made, err := p.make(kind, *top, d)
		if err != nil {
			return err
		}
		if emit != nil {
			if err := emit(kind, made.content); err != nil {
				return err
			}
		}
		if made.of.none() {
			continue
		}
		if top.of.none() {
			held -= int64(len(top.content))
			stack = stack[:len(stack)-1]
		}
		if held += int64(len(made.content)); held > deltaBytes+p.limits.delta() {
			return errorf(ErrTooLarge, "deltas of the pack need more than %d bytes of memory", deltaBytes+p.limits.delta())
		}
		stack = append(stack, made)
	}
	return nil
}

// make applies one delta.
func (p *pack) make(kind plumbing.ObjectType, from base, d *delta) (base, error) {
	object := &p.objects[d.at]
	script, err := p.inflate(object.offset)
	if err != nil {
		return base{}, err
	}
	made := base{depth: from.depth + 1, deltas: from.deltas + int64(len(script))}
	if made.depth > deltaDepth || made.deltas > deltaBytes+p.limits.delta() {
		return base{}, errorf(ErrTooLarge, "an object of the pack is behind %d deltas of %d bytes together", made.depth, made.deltas)
	}
	if made.content, err = packfile.PatchDelta(from.content, script); err != nil {
		return base{}, fmt.Errorf("apply delta: %w: %v", errProtocol, err)
	}
	if size, limit := int64(len(made.content)), min(p.limit(kind), p.limits.delta()); size > limit {
		return base{}, errorf(ErrTooLarge, "%s of %d bytes is larger than the limit of %d", what(kind), size, limit)
	}
	object.id, d.done = plumbing.ComputeHash(kind, made.content), true
	made.of = p.children(object.offset, object.id)
	return made, nil
}

// inflate reads an object of the pack, or the delta itself.
func (p *pack) inflate(offset int64) ([]byte, error) {
	header, err := p.scanner.SeekObjectHeader(offset)
	if err != nil {
		return nil, incomplete(err)
	}
	content := bytes.NewBuffer(make([]byte, 0, header.Length)) // scanPack has looked at the length
	if _, _, err := p.scanner.NextObject(content); err != nil {
		return nil, incomplete(err)
	}
	return content.Bytes(), nil
}
