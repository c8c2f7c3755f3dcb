package gitsource

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	gitconfig "github.com/go-git/go-git/v5/plumbing/format/config"
)

const (
	// modulesFile is where a repository says where its submodules are.
	modulesFile = ".gitmodules"
	// modulesBytes bounds it.
	modulesBytes = 64 << 10
	// submoduleDepth is how many submodules may be in one another.
	submoduleDepth = 5
)

// notFetched refuses a submodule that nobody asked for.
func notFetched(at string) error {
	return errorf(ErrUnsafeTree, "read tree: %q is a submodule; set submodules to true in the Function's gitRepository to fetch it", at)
}

// modules is from path to URL, as the root of a commit says it. A path that is named twice has an empty URL.
type modules map[string]string

// readModules reads a .gitmodules file. Of each submodule only path and URL count: update may be a command, and branch
// is not the commit that the tree names. Names of submodules are not used, but those that git takes for an attack are not
// believed, nor are sections without a path or a URL.
func readModules(text string) (found modules, err error) {
	defer func() {
		if recover() != nil { // gcfg has met texts that made it panic
			found, err = nil, errorf(ErrUnsafeTree, "read %s: it is malformed", modulesFile)
		}
	}()
	parsed := gitconfig.New()
	if err := gitconfig.NewDecoder(strings.NewReader(text)).Decode(parsed); err != nil {
		return nil, errorf(ErrUnsafeTree, "read %s: it is malformed", modulesFile)
	}
	found = modules{}
	for _, section := range parsed.Sections {
		if !section.IsName("submodule") {
			continue
		}
		for _, submodule := range section.Subsections {
			at, err := cleanPath(submodule.Option("path"))
			if err != nil || at == "" || submodule.Option("url") == "" || leadsUp(submodule.Name) {
				continue
			}
			if _, twice := found[at]; twice {
				found[at] = ""
				continue
			}
			found[at] = submodule.Option("url")
		}
	}
	return found, nil
}

// leadsUp says whether a name, taken for a path, holds a "..".
func leadsUp(name string) bool {
	for _, part := range strings.FieldsFunc(name, func(r rune) bool { return r == '/' || r == '\\' }) {
		if part == ".." {
			return true
		}
	}
	return name == ""
}

// submodule is the part that a gitlink in another part leads to. The part that holds it must be in use.
func (a *assembly) submodule(ctx context.Context, in *part, below string, commit plumbing.Hash) (*part, error) {
	at := path.Join(in.path, below)
	if known, ok := a.parts[at]; ok {
		return known, nil
	}
	if !a.layout.Submodules {
		return nil, notFetched(at)
	}
	if in.depth >= submoduleDepth {
		return nil, errorf(ErrTooLarge, "read submodule %q: submodules are more than %d in one another", at, submoduleDepth)
	}
	if len(a.parts) > a.limits.Submodules { // the function's own repository is a part too
		return nil, errorf(ErrTooLarge, "read submodule %q: there are more than %d submodules", at, a.limits.Submodules)
	}
	if in.modules == nil {
		var err error
		if in.modules, err = in.readModules(ctx); err != nil {
			return nil, err
		}
	}
	raw, named := in.modules[below]
	switch {
	case !named:
		return nil, errorf(ErrUnsafeTree, "read submodule %q: %s of commit %s names no URL for it", at, modulesFile, in.commit)
	case raw == "":
		return nil, errorf(ErrUnsafeTree, "read submodule %q: %s of commit %s names it more than once", at, modulesFile, in.commit)
	}
	repo, elsewhere, err := in.repo.submodule(raw)
	if err != nil {
		return nil, fmt.Errorf("read submodule %q at %q: %w", at, shownURL(raw), err)
	}
	src, err := a.client.source(repo)
	if err != nil {
		return nil, fmt.Errorf("read submodule %q: %w", at, err)
	}
	p := &part{path: at, depth: in.depth + 1, elsewhere: elsewhere || in.elsewhere, repo: repo, src: src, commit: commit.String()}
	a.parts[at] = p
	a.order = append(a.order, p)
	return p, nil
}

// readModules reads the .gitmodules file at the root of a part. A part without one names nothing.
func (p *part) readModules(ctx context.Context) (modules, error) {
	file, ok, err := findEntry(p.from, p.root, modulesFile)
	if err != nil || !ok {
		return modules{}, err
	}
	if file.mode != filemode.Regular && file.mode != filemode.Executable {
		return nil, errorf(ErrUnsafeTree, "read %s: it is no regular file", modulesFile)
	}
	if err := p.mirror.fetchBlobs(ctx, p.src.remote, p.commit, []plumbing.Hash{file.id}); err != nil {
		return nil, err
	}
	storage := p.mirror.storage()
	size, err := storage.EncodedObjectSize(file.id)
	if err != nil {
		return nil, fmt.Errorf("read size of %s: %w: %v", file.id, errBroken, err)
	}
	if size > modulesBytes {
		return nil, errorf(ErrTooLarge, "read %s: it has %d bytes, more than %d", modulesFile, size, modulesBytes)
	}
	text, err := readBlob(storage, file.id, modulesBytes)
	if err != nil {
		return nil, err
	}
	return readModules(text)
}

// submodule is the repository that a .gitmodules file of another names, with the credentials that it gets: those of the
// other on the same server, else none. So what an unknown author wrote cannot send a credential anywhere, and a
// submodule on another server cannot ask for repositories of the first.
func (r Repository) submodule(raw string) (found Repository, elsewhere bool, err error) {
	at, err := resolveURL(r.URL, raw)
	if err != nil {
		return Repository{}, false, err
	}
	found = Repository{URL: at, Credentials: r.Credentials}
	if server := serverOf(at); server == "" || server != serverOf(r.URL) {
		elsewhere = true
		c := r.Credentials
		found.Credentials = Credentials{KnownHosts: c.KnownHosts, Proxy: c.Proxy, NoProxy: c.NoProxy, CABundle: c.CABundle}
	}
	return found, elsewhere, nil
}

// resolveURL is the URL of a submodule: relative ones begin with ./ or ../ and start at the URL of the repository that
// names them, as in git. It is checked like the URL of a Function. Errors do not repeat it whole: it may hold a password.
func resolveURL(base, raw string) (string, error) {
	if strings.HasPrefix(raw, "./") || strings.HasPrefix(raw, "../") {
		var err error
		if raw, err = relativeURL(base, raw); err != nil {
			return "", err
		}
	}
	if _, at, scp := readSCP(raw); strings.HasPrefix(raw, "-") || scp && strings.HasPrefix(at, "-") {
		return "", errorf(ErrInvalidURL, "check URL: what begins with a dash is an option to some programs, and refused")
	}
	if err := CheckURL(raw); err != nil {
		return "", err
	}
	return raw, nil
}

// shownURL is a URL for an error: without what may be a password, and empty if that cannot be told.
func shownURL(raw string) string {
	u, err := url.Parse(raw)
	if _, _, scp := readSCP(raw); scp && err != nil {
		return oneLine(raw, 200)
	}
	if err != nil || u.Opaque != "" {
		return ""
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return oneLine(u.String(), 200)
}

// relativeURL goes up one step in the path for each "../", never past its beginning.
func relativeURL(base, raw string) (string, error) {
	head, at := splitPath(strings.TrimRight(base, "/"))
	for {
		if rest, ok := strings.CutPrefix(raw, "./"); ok {
			raw = rest
			continue
		}
		rest, ok := strings.CutPrefix(raw, "../")
		if !ok {
			break
		}
		if at == "" {
			return "", errorf(ErrInvalidURL, "check URL: it leads up past the root of its server")
		}
		at = at[:max(0, strings.LastIndexByte(at, '/'))]
		raw = rest
	}
	if at != "" {
		raw = at + "/" + raw
	}
	return head + strings.TrimRight(raw, "/"), nil
}

// splitPath takes a URL or an scp form apart before its path: https://host/ and team/fn.git, or git@host: and team/fn.git.
func splitPath(raw string) (head, at string) {
	if scheme, rest, ok := strings.Cut(raw, "://"); ok {
		host, at, _ := strings.Cut(rest, "/")
		return scheme + "://" + host + "/", at
	}
	if _, at, ok := readSCP(raw); ok {
		return strings.TrimSuffix(raw, at), at
	}
	return raw, ""
}

// serverOf names who is asked at a URL, and over ssh as whom: where it is the same, a credential may be shown. Empty is
// nobody.
func serverOf(raw string) string {
	if host, _, ok := readSCP(raw); ok {
		user, _, named := strings.Cut(raw, "@")
		if !named {
			user = ""
		}
		return user + "@ssh://" + host + ":" + defaultPort["ssh"]
	}
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return ""
	}
	if u.Scheme == "ssh" {
		return u.User.Username() + "@" + origin(u)
	}
	return origin(u)
}

// explain names the submodule in an error. That its server does not have the commit says nothing about the reference of
// the Function, so the server's own words end there.
func (p *part) explain(err error) error {
	if err == nil {
		return nil
	}
	lacking := refused(err)
	err = p.src.remote.explain(err)
	if p.path == "" {
		return err
	}
	if lacking {
		err = errorf(ErrRefNotFound, "%v", err)
	}
	if p.elsewhere && errors.Is(err, ErrAuth) {
		err = fmt.Errorf("%w; the Function's credentials are not shown to another server", err)
	}
	var away *UnavailableError
	if errors.As(err, &away) {
		return &UnavailableError{RetryAfter: away.RetryAfter, Err: fmt.Errorf("read submodule %q: %w", p.path, away.Err)}
	}
	return fmt.Errorf("read submodule %q: %w", p.path, err)
}
