package gitsource

import (
	"net/url"
	"strings"
)

// reach says how the remote of a URL is made, by its scheme.
func (c *Client) reach(at *url.URL, credentials Credentials) (func() remote, error) {
	if err := credentials.fit(at); err != nil {
		return nil, err
	}
	switch at.Scheme {
	case "git":
		return func() remote { return newDaemon(at, c.dial.DialContext, c.options) }, nil
	case "ssh":
		user, address := sshUser(at), remoteAddress(at)
		key := c.hash(user, address, string(credentials.SSHKey), credentials.SSHPassphrase, string(credentials.KnownHosts))
		return func() remote {
			return newSSH(at, credentials, c.ssh.access(key, user, address, credentials), c.options)
		}, nil
	}
	ways, err := c.routes(credentials)
	return func() remote { return newServer(at, credentials, ways, c.options) }, err
}

// fit says what a URL wants of credentials, if these are others. A server of HTTP may want none: it says so itself.
func (c Credentials) fit(at *url.URL) error {
	key := len(c.SSHKey) > 0
	others := c.Username != "" || c.Password != "" || c.GitHubApp != nil || len(c.ClientCertificate) > 0
	switch {
	case at.Scheme == "git" && (key || others):
		return errorf(ErrAuth, "read %s: git:// carries no credentials, and hides nothing; use the repository's https or ssh URL", spell(at))
	case at.Scheme == "ssh" && !key && others:
		return errorf(ErrAuth, "read %s: an ssh URL wants an SSH key, and the Secret holds credentials for https; use the https URL, or a Secret with a key", spell(at))
	case at.Scheme == "ssh" && !key:
		return errorf(ErrAuth, "read %s: an ssh URL wants an SSH key; name a Secret that holds one, or use the https URL if everybody may read it", spell(at))
	case strings.HasPrefix(at.Scheme, "http") && key && !others:
		return errorf(ErrAuth, "read %s: the Secret holds an SSH key, which serves ssh URLs only; use the URL ssh://git@%s%s, or a Secret with a user and a token", spell(at), at.Hostname(), at.EscapedPath())
	case !strings.HasPrefix(at.Scheme, "http") && c.Proxy != "":
		return errorf(ErrUnsupported, "read %s: a proxy serves https and http URLs only; use the https URL", spell(at))
	}
	return nil
}
