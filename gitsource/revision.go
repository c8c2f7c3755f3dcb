package gitsource

import (
	"strings"
	"time"
)

// Revision is what a reference resolved to.
type Revision struct {
	// Reference is what was asked for, such as "main".
	Reference string
	// Ref is the full name it resolved to, such as "refs/heads/main". Empty when the reference is a commit id.
	Ref string
	// Commit is the id of the commit, 40 hexadecimal digits. An annotated tag is peeled to its commit.
	Commit string
	// Tree is the id of the Git tree under the base directory, 40 hexadecimal digits: equal content, equal Tree.
	Tree string
	// Signer names the key whose signature was verified, and whose it claims to be. Empty when none was wanted.
	Signer string
	// Warnings are sentences about what works but may surprise.
	Warnings []string
	// Author is the name of the commit's author, and Subject its first line; both on one line and shortened.
	Author, Subject string
	// Committed is when the commit was made, as its committer claims.
	Committed time.Time
}

// String writes the revision as main@sha1:4f1c…, with the whole commit id. Without a reference it is sha1:4f1c…. In the
// place of a range of versions stands the tag that was found, as in v1.4.2@sha1:4f1c….
func (r Revision) String() string {
	name := r.Reference
	if strings.HasPrefix(name, semverPrefix) {
		name = strings.TrimPrefix(r.Ref, tagPrefix)
	}
	if name == "" || strings.EqualFold(name, r.Commit) {
		return "sha1:" + r.Commit
	}
	return name + "@sha1:" + r.Commit
}
