// Package gitsource turns a Git reference into a revision, and a revision into files.
//
// In goes a Repository (a URL and the credentials to read it with) and a Selection: a reference such as "main",
// a base directory, and what joins it. Out comes a Revision: the commit, and the id of the tree that the selection
// makes of it, which is what a build depends on. In goes that commit again, and out comes a Tree: the files to build.
// NewTree gives the same for files that were never in Git, and NextPoll says when to look again.
//
// The package never writes to a repository, never runs a program, never knows a cluster, and never lets
// a credential into an error, a log line or the request of another origin. It keeps nothing in memory
// that grows with a repository: objects are on disk, and what is cached is counted.
//
// What flows where:
//
//	reference ─► ls-refs (one request, shared) ─► commit ─► mirror on disk (commit and trees) ─► tree id
//	commit    ─► mirror on disk ─► list of files, checked ─► wanted blobs by id (one request) ─► Tree
//
// Every connection goes through package dialer, which looks at the resolved address before it connects.
package gitsource
