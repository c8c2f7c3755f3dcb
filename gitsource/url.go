package gitsource

import (
	"net"
	"net/url"
	"path"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// scpForm is user@host:path as ssh and git write it. A slash before the colon makes it a local path instead.
var scpForm = regexp.MustCompile(`^(?:([^@/\s]+)@)?(\[[0-9a-fA-F:.]+\]|[^:/@\s\[\]]+):([^:\s].*)$`)

// schemes are not hosts: data:text/plain and file:fn.git look like the scp form and are not.
var schemes = map[string]bool{"data": true, "ext": true, "fd": true, "file": true, "git": true, "http": true, "https": true, "javascript": true, "ssh": true}

// readSCP takes the scp form apart.
func readSCP(raw string) (host, at string, ok bool) {
	m := scpForm.FindStringSubmatch(raw)
	if strings.Contains(raw, "://") || m == nil || schemes[strings.ToLower(m[2])] {
		return "", "", false
	}
	return strings.ToLower(m[2]), m[3], true
}

// defaultPort is what a scheme means when no port is written.
var defaultPort = map[string]string{"git": "9418", "http": "80", "https": "443", "ssh": "22"}

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
		return "", "", errorf(ErrInvalidURL, "read URL: scheme %q is not one of https, http, ssh and git", u.Scheme)
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

// CheckURL says whether Resolve and Fetch can use a URL: https, http, ssh (also in the form user@host:path) or git,
// with a host and a path, and without query or fragment. An ssh URL may name a user; any other user information, and
// every password, is refused, as is what another program would take for an option. Errors match ErrInvalidURL.
func CheckURL(raw string) error {
	_, err := usableURL(raw)
	return err
}

// usableURL is CheckURL with the URL it found. A path of the scp form keeps that it has no slash before it: it is
// relative to where the server puts the user.
func usableURL(raw string) (*url.URL, error) {
	u, err := readURL(raw)
	switch {
	case err != nil:
		return nil, err
	case defaultPort[u.Scheme] == "":
		return nil, errorf(ErrInvalidURL, "check URL: scheme %q is refused: use https or ssh", u.Scheme)
	case u.Hostname() == "" || strings.Trim(u.Path, "/") == "":
		return nil, errorf(ErrInvalidURL, "check URL: a host and a path are needed, as in https://git.example/team/functions.git")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, errorf(ErrInvalidURL, "check URL: a query or a fragment is refused: only scheme, host and path are used")
	case strings.HasPrefix(u.Host, "-") || strings.HasPrefix(u.Path, "-"):
		return nil, errorf(ErrInvalidURL, "check URL: a host or a path that begins with - is refused: it looks like an option")
	}
	if err := checkUser(u); err != nil {
		return nil, err
	}
	if u.Scheme == "ssh" || u.Scheme == "git" {
		if err := checkWords(u); err != nil {
			return nil, err
		}
	}
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), ""
	return u, nil
}

// readURL reads a URL of any form.
func readURL(raw string) (*url.URL, error) {
	host, at, scp := readSCP(raw)
	if !scp {
		return parseURL(raw)
	}
	u := &url.URL{Scheme: "ssh", Host: host, Path: at}
	user := scpForm.FindStringSubmatch(raw)[1]
	if name, password, found := strings.Cut(user, ":"); found {
		u.User = url.UserPassword(name, password)
	} else if user != "" {
		u.User = url.User(user)
	}
	return u, nil
}

// checkUser refuses user information, except the name of a user at an SSH server, which is no secret.
func checkUser(u *url.URL) error {
	if u.User == nil {
		return nil
	}
	name := u.User.Username()
	if _, password := u.User.Password(); password || u.Scheme != "ssh" {
		return errorf(ErrInvalidURL, "check URL: user information belongs into a Secret, not into the URL")
	}
	if !sshName.MatchString(name) {
		return errorf(ErrInvalidURL, "check URL: the user before the @ is refused: it may have letters, digits and ._+- only, and not begin with -")
	}
	return nil
}

var (
	sshName = regexp.MustCompile(`^[A-Za-z0-9._+][A-Za-z0-9._+-]{0,254}$`)
	sshHost = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,253}$|^[0-9a-fA-F:.]+$`)
)

// pathMost is how long a path may be where it is sent as one word.
const pathMost = 4096

// checkWords looks at what is sent to the other end in a line of its own: nothing may end that line early.
func checkWords(u *url.URL) error {
	switch {
	case !sshHost.MatchString(u.Hostname()):
		return errorf(ErrInvalidURL, "check URL: the host is neither a name nor an address")
	case len(u.Path) > pathMost:
		return errorf(ErrInvalidURL, "check URL: the path is longer than %d bytes", pathMost)
	case strings.ContainsFunc(u.Path, unicode.IsControl) || !utf8.ValidString(u.Path):
		return errorf(ErrInvalidURL, "check URL: the path has a control character in it")
	}
	return nil
}

// remotePath is the path as the server is told it: /~user is the home of a user.
func remotePath(u *url.URL) string {
	if strings.HasPrefix(u.Path, "/~") {
		return u.Path[1:]
	}
	return u.Path
}

// remoteAddress is host and port of a URL.
func remoteAddress(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = defaultPort[u.Scheme]
	}
	return net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// spell writes a URL as its user did: what is relative is no absolute path. It leaves passwords out.
func spell(u *url.URL) string {
	if u.Scheme != "ssh" || strings.HasPrefix(u.Path, "/") {
		return u.Redacted()
	}
	if u.User == nil {
		return u.Host + ":" + u.Path
	}
	return u.User.Username() + "@" + u.Host + ":" + u.Path
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
