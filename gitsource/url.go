package gitsource

import (
	"net"
	"net/url"
	"path"
	"regexp"
	"strings"
)

// scpForm is user@host:path as ssh and git write it. A slash before the colon makes it a local path instead.
var scpForm = regexp.MustCompile(`^(?:[^@/\s]+@)?(\[[0-9a-fA-F:.]+\]|[^:/@\s\[\]]+):([^:\s].*)$`)

// schemes are not hosts: data:text/plain and file:fn.git look like the scp form and are not.
var schemes = map[string]bool{"data": true, "ext": true, "fd": true, "file": true, "git": true, "http": true, "https": true, "javascript": true, "ssh": true}

// readSCP takes the scp form apart.
func readSCP(raw string) (host, at string, ok bool) {
	m := scpForm.FindStringSubmatch(raw)
	if strings.Contains(raw, "://") || m == nil || schemes[strings.ToLower(m[1])] {
		return "", "", false
	}
	return strings.ToLower(m[1]), m[2], true
}

// defaultPort is what a scheme means when no port is written.
var defaultPort = map[string]string{"http": "80", "https": "443", "ssh": "22"}

// NormalizeURL gives one repository one name, however its URL is written: host and path in lower case, without
// scheme, user information, default port, ".git" or trailing slash. The https, ssh and scp forms of a repository
// come out the same, and so do the names that a forge has for itself. It is for matching a hint to a source, not
// for connecting: forges do not tell names by case, and where a server does, a hint is too many looks rather than
// too few. Errors match ErrInvalidURL.
func NormalizeURL(raw string) (string, error) {
	host, at, err := splitURL(strings.TrimSpace(raw))
	if err != nil {
		return "", err
	}
	host, at = oneName(host, strings.ToLower(strings.Trim(path.Clean("/"+at), "/")))
	if trimmed := strings.TrimSuffix(at, ".git"); trimmed != "" && !strings.HasSuffix(trimmed, "/") {
		at = trimmed
	}
	if host == "" || at == "" {
		return "", errorf(ErrInvalidURL, "read URL: a host and a path are needed, as in https://git.example/team/functions.git")
	}
	return host + "/" + at, nil
}

// splitURL takes a URL of any form apart into its host in lower case, with a port that is not the default, and its path.
func splitURL(raw string) (host, at string, err error) {
	if host, at, ok := readSCP(raw); ok {
		return host, at, nil
	}
	if !strings.Contains(raw, "://") {
		return "", "", errorf(ErrInvalidURL, "read URL: it has no scheme; write it as https://git.example/team/functions.git")
	}
	u, err := parseURL(raw)
	if err != nil {
		return "", "", err
	}
	port, known := defaultPort[u.Scheme]
	if !known {
		return "", "", errorf(ErrInvalidURL, "read URL: scheme %q is not one of https, http and ssh", u.Scheme)
	}
	host = strings.ToLower(u.Hostname())
	if u.Port() != "" && u.Port() != port {
		return net.JoinHostPort(host, u.Port()), u.Path, nil
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return host, u.Path, nil
}

// parseURL is url.Parse with an error that does not repeat the URL, which may carry a password.
func parseURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil, errorf(ErrInvalidURL, "read URL: it is not well formed")
	}
	return u, nil
}

// CheckURL says whether Resolve and Fetch can use a URL: http or https, with a host and a path, and without
// user information, query or fragment. An ssh URL is ErrUnsupported; everything else wrong is ErrInvalidURL.
func CheckURL(raw string) error {
	_, err := usableURL(raw)
	return err
}

// usableURL is CheckURL with the URL it found.
func usableURL(raw string) (*url.URL, error) {
	if _, _, scp := readSCP(raw); scp || strings.HasPrefix(strings.ToLower(raw), "ssh://") {
		return nil, errorf(ErrUnsupported, "check URL: ssh is not supported yet: use https")
	}
	u, err := parseURL(raw)
	switch {
	case err != nil:
		return nil, err
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errorf(ErrInvalidURL, "check URL: scheme %q is refused: use https", u.Scheme)
	case u.User != nil:
		return nil, errorf(ErrInvalidURL, "check URL: user information belongs into a Secret, not into the URL")
	case u.Hostname() == "" || strings.Trim(u.Path, "/") == "":
		return nil, errorf(ErrInvalidURL, "check URL: a host and a path are needed, as in https://git.example/team/functions.git")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, errorf(ErrInvalidURL, "check URL: a query or a fragment is refused: only scheme, host and path are used")
	}
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), ""
	return u, nil
}

// CleanBaseDir brings a base directory into one form: no slash at either end, "" for the root of the
// repository, however it was written ("", "/", "."). A ".." or a ".git" in it is refused.
func CleanBaseDir(dir string) (string, error) {
	clean, err := cleanPath(dir)
	if err != nil {
		return "", errorf(ErrBaseDirNotFound, "check base directory %q: %v", dir, err)
	}
	return clean, nil
}

// cleanPath brings a path of a repository into one form and refuses what leads out of it.
func cleanPath(at string) (string, error) {
	for _, part := range strings.Split(at, "/") {
		if part == "" || part == "." {
			continue
		}
		if err := checkName(part); err != nil {
			return "", err
		}
	}
	return strings.Trim(path.Clean("/"+at), "/"), nil
}
