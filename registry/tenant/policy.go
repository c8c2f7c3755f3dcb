package tenant

import "strings"

// Action is a verb of the registry's token protocol.
type Action string

const (
	// ActionPull reads manifests, blobs and lists of tags.
	ActionPull Action = "pull"
	// ActionPush writes manifests and blobs.
	ActionPush Action = "push"
	// ActionDelete removes manifests and tags.
	ActionDelete Action = "delete"
)

// Policy turns a Grant into actions on repositories.
type Policy struct {
	// System is the namespace of gitfn itself. Everybody who has a credential
	// may pull the runtimes and the builder from it.
	System string
}

// Actions lists what the grant allows on a repository. Nil is nothing.
//
// Pushing does not bring deleting: a build writes pins, and only the manager
// knows which of them nobody uses.
func (p Policy) Actions(g Grant, repository string) []Action {
	switch {
	case p.Manages(g):
		return []Action{ActionPull, ActionDelete}
	case strings.HasPrefix(repository, g.Namespace+"/") && g.Access == Push:
		return []Action{ActionPull, ActionPush}
	case strings.HasPrefix(repository, g.Namespace+"/") && g.Access == Pull, p.shared(repository):
		return []Action{ActionPull}
	}
	return nil
}

// Manages tells whether the grant is the manager's, who may also list all repositories.
func (p Policy) Manages(g Grant) bool {
	return g.Access == Manage && g.Namespace == p.System
}

func (p Policy) shared(repository string) bool {
	return strings.HasPrefix(repository, p.System+"/runtimes/") || repository == p.System+"/builder"
}
