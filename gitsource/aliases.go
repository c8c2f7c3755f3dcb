package gitsource

import (
	"net/url"
	"strings"
)

// aliases are further hosts of a forge, for those who may not use port 22.
var aliases = map[string]string{
	"ssh.github.com:443":       "github.com",
	"altssh.gitlab.com:443":    "gitlab.com",
	"altssh.bitbucket.org:443": "bitbucket.org",
}

// azure is the one name of Azure DevOps, which has four.
const azure = "dev.azure.com"

// oneName brings the names of forges that have several to one. at is in lower case, without slashes at its ends.
func oneName(host, at string) (string, string) {
	if one, known := aliases[host]; known {
		return one, at
	}
	parts := strings.Split(at, "/")
	switch organization, hosted := strings.CutSuffix(host, ".visualstudio.com"); {
	case host == azure || host == "ssh."+azure || host == "vs-ssh.visualstudio.com":
		return azure, azurePath(parts)
	case hosted && organization != "":
		return azure, azurePath(append([]string{organization}, parts...))
	}
	return host, at
}

// azurePath is organization/project/repository of a path on Azure DevOps. A path of another form stays as it is.
//
//	https  organization[/DefaultCollection][/project]/_git/repository; without a project it has the repository's name
//	ssh    v3/organization/project/repository
//
// Project names have blanks, which the ssh form writes as %20 as well.
func azurePath(parts []string) string {
	if parts[0] == "v3" && len(parts) > 1 {
		parts = parts[1:]
	}
	path := []string{}
	for i, part := range parts {
		if plain, err := url.PathUnescape(part); err == nil && !strings.Contains(plain, "/") {
			part = strings.ToLower(plain)
		}
		switch {
		case i == 1 && part == "defaultcollection":
		case i > 0 && (part == "_git" || part == "_ssh"):
			if len(path) == 1 && i+1 < len(parts) {
				path = append(path, parts[i+1])
			}
		default:
			path = append(path, part)
		}
	}
	return strings.Join(path, "/")
}
