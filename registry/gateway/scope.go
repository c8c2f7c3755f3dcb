package gateway

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/gitfn/gitfn/registry/tenant"
)

// scope is one thing asked for: some actions on a resource. As JSON it is an
// entry of a token's access list.
type scope struct {
	Type    string          `json:"type"`
	Name    string          `json:"name"`
	Actions []tenant.Action `json:"actions"`
}

const (
	repository = "repository"
	catalog    = "catalog"
	// anyAction is what a registry wants for its list of repositories.
	anyAction tenant.Action = "*"
)

// repositoryName is the grammar of distribution's reference package, without a host.
var repositoryName = regexp.MustCompile(`^[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*$`)

// parseScopes reads the scope parameters of a request. One parameter may hold
// several scopes: go-containerregistry passes on a whole challenge.
func parseScopes(parameters []string) ([]scope, error) {
	var scopes []scope
	for _, text := range strings.Fields(strings.Join(parameters, " ")) {
		kind, rest, _ := strings.Cut(text, ":")
		colon := strings.LastIndex(rest, ":")
		if colon < 1 {
			return nil, fmt.Errorf("scope %q is not <type>:<name>:<actions>", text)
		}
		s := scope{Type: kind, Name: rest[:colon]}
		for action := range strings.SplitSeq(rest[colon+1:], ",") {
			s.Actions = append(s.Actions, tenant.Action(action))
		}
		scopes = append(scopes, s)
	}
	return scopes, nil
}

// String is the scope as clients write it.
func (s scope) String() string {
	words := make([]string, len(s.Actions))
	for i, action := range s.Actions {
		words[i] = string(action)
	}
	return s.Type + ":" + s.Name + ":" + strings.Join(words, ",")
}

// grantedOf leaves of the scope what the grant allows.
func (s scope) grantedOf(p tenant.Policy, g tenant.Grant) scope {
	var allowed []tenant.Action
	switch {
	case s.Type == repository && repositoryName.MatchString(s.Name):
		allowed = p.Actions(g, s.Name)
	case s.Type == "registry" && s.Name == catalog && p.Manages(g):
		allowed = []tenant.Action{anyAction}
	}
	granted := scope{Type: s.Type, Name: s.Name}
	for _, action := range s.Actions {
		if slices.Contains(allowed, action) {
			granted.Actions = append(granted.Actions, action)
		}
	}
	return granted
}

// writes tells whether something asked for would change the registry.
func (s scope) writes() bool {
	return slices.Contains(s.Actions, tenant.ActionPush) || slices.Contains(s.Actions, tenant.ActionDelete)
}

// decide splits what is asked for. Clients ask for more than they need, a
// mount's source for example, so a token for a part is the rule; but a token
// that cannot write for a client that wants to would only bring it a second,
// duller refusal. The error is for the client.
func decide(p tenant.Policy, g tenant.Grant, asked []scope) (granted []scope, err error) {
	var refused *scope
	for _, s := range asked {
		part := s.grantedOf(p, g)
		if s.writes() && !part.writes() {
			return nil, denied(g, s)
		}
		if len(part.Actions) > 0 {
			granted = append(granted, part)
		} else if refused == nil {
			refused = &s
		}
	}
	if len(granted) == 0 && refused != nil {
		return nil, denied(g, *refused)
	}
	return granted, nil
}

func denied(g tenant.Grant, s scope) error {
	verb := "pull from"
	switch {
	case s.Type != repository:
		return fmt.Errorf("credential of namespace %s cannot use %s %s", g.Namespace, s.Type, s.Name)
	case slices.Contains(s.Actions, tenant.ActionPush):
		verb = "push to"
	case slices.Contains(s.Actions, tenant.ActionDelete):
		verb = "delete from"
	}
	return fmt.Errorf("credential of namespace %s cannot %s %s", g.Namespace, verb, s.Name)
}
