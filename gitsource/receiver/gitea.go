package receiver

import (
	"bytes"
	"net/http"
)

// gitea is for Gitea, for Forgejo and with it Codeberg, and for Gogs. They send the events of GitHub under names of
// their own, and sign them without "sha256=".
var gitea = forge{
	bodyBytes: smallBody,
	proofs: func(header http.Header) []proof {
		proofs := giteaSignatures(header)
		if !isForm(header) {
			return proofs
		}
		for i, holds := range proofs { // they sign the JSON in the form, GitHub the form
			proofs[i] = func(key, body []byte) bool { return holds(key, jsonOf(header, bytes.Clone(body))) }
		}
		return proofs
	},
	parse: func(header http.Header, body []byte) (Push, verdict) {
		for _, name := range []string{"X-Forgejo-Event", "X-Gitea-Event", "X-Gogs-Event", "X-GitHub-Event"} {
			if event := header.Get(name); event != "" {
				return parseGitHub(event, header, body)
			}
		}
		return Push{}, ignored
	},
}

var giteaSignatures = hexHMACs(map[string]string{
	"X-Forgejo-Signature": "", "X-Gitea-Signature": "", "X-Gogs-Signature": "", "X-Hub-Signature-256": "sha256=",
})
