package gitsource

import (
	"cmp"
	"strings"

	"github.com/Masterminds/semver/v3"
)

const (
	// semverPrefix is how a reference begins that is a range of versions.
	semverPrefix = "semver:"
	// semverMost bounds a range: nobody needs a longer one, and each tag is held against it.
	semverMost = 256
	tagPrefix  = "refs/tags/"
)

// parseRange reads a reference such as "semver:>=1.2 <2".
func parseRange(reference string) (*semver.Constraints, error) {
	text := strings.TrimSpace(strings.TrimPrefix(reference, semverPrefix))
	if len(text) > semverMost {
		return nil, errorf(ErrRefNotFound, "resolve reference %q: a range has at most %d characters", oneLine(reference, 80), semverMost)
	}
	constraints, err := semver.NewConstraint(text)
	if err != nil {
		return nil, errorf(ErrRefNotFound, "resolve reference %q: this is no range of versions; write for example semver:^1.4 or semver:>=1.2 <2", oneLine(reference, 80))
	}
	return constraints, nil
}

// tagVersion is the version that a tag names: three numbers, with or without a v, and what may follow them. A tag such
// as v1, which many move along, names none.
func tagVersion(name string) *semver.Version {
	name, isTag := strings.CutPrefix(name, tagPrefix)
	version, err := semver.StrictNewVersion(strings.TrimPrefix(name, "v"))
	if !isTag || err != nil {
		return nil
	}
	return version
}

// tag is a tag that names a version. The zero value is none.
type tag struct {
	ref     ref
	version *semver.Version
}

// below says that another version is higher. Versions that differ only in what follows a "+" are equal: then the longer
// name is higher, and of names equally long the one that sorts last.
func (t tag) below(name string, version *semver.Version) bool {
	if t.version == nil {
		return true
	}
	return cmp.Or(t.version.Compare(version), cmp.Compare(len(t.ref.name), len(name)), strings.Compare(t.ref.name, name)) < 0
}

// tags finds the highest tag of each range while the tags of a repository pass by. It keeps no others.
type tags struct {
	ranges  []*tagRange
	last    string // the name of the last one
	count   int
	highest tag // of all
}

type tagRange struct {
	reference   string
	constraints *semver.Constraints
	highest     tag
}

// add looks at a tag.
func (t *tags) add(r ref) {
	if r.name == t.last { // it comes again with what it leads to
		for _, wanted := range t.ranges {
			if wanted.highest.ref.name == r.name {
				wanted.highest.ref = r
			}
		}
		return
	}
	t.last = r.name
	t.count++
	version := tagVersion(r.name)
	if version == nil {
		return
	}
	if t.highest.below(r.name, version) {
		t.highest = tag{ref: r, version: version}
	}
	for _, wanted := range t.ranges {
		if wanted.highest.below(r.name, version) && wanted.constraints.Check(version) {
			wanted.highest = tag{ref: r, version: version}
		}
	}
}

// choose returns the highest tag of a range.
func (t *tags) choose(reference string) (ref, error) {
	for _, wanted := range t.ranges {
		if wanted.reference == reference && wanted.highest.version != nil {
			return wanted.highest.ref, nil
		}
	}
	name := oneLine(reference, 80)
	switch {
	case t.count == 0:
		return ref{}, errorf(ErrRefNotFound, "resolve reference %q: the repository has no tags", name)
	case t.highest.version == nil:
		return ref{}, errorf(ErrRefNotFound, "resolve reference %q: none of the repository's %d tags is a version such as v1.2.3", name, t.count)
	}
	highest := oneLine(strings.TrimPrefix(t.highest.ref.name, tagPrefix), 80)
	return ref{}, errorf(ErrRefNotFound, "resolve reference %q: none of the repository's %d tags is in this range; the highest is %s", name, t.count, highest)
}
