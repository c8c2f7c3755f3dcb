package receiver

import (
	"encoding/json"
	"mime"
	"net/http"
	"net/url"
)

// github is for GitHub, and for Gitea and others that push as it does. GitHub sends at most 25 MiB.
var github = forge{
	bodyBytes:  25 << 20,
	signatures: []string{"X-Hub-Signature-256"},
	parse: func(header http.Header, body []byte) (Push, verdict) {
		if header.Get("X-GitHub-Event") != "push" {
			return Push{}, ignored // ping is one of them
		}
		var payload struct {
			Ref        string
			Repository struct {
				CloneURL string `json:"clone_url"`
				HTMLURL  string `json:"html_url"`
				SSHURL   string `json:"ssh_url"`
			}
		}
		if err := json.Unmarshal(jsonOf(header, body), &payload); err != nil {
			return Push{}, malformed
		}
		push := Push{Ref: payload.Ref}
		for _, at := range []string{payload.Repository.CloneURL, payload.Repository.HTMLURL, payload.Repository.SSHURL} {
			if at != "" {
				push.URLs = append(push.URLs, at)
			}
		}
		if len(push.URLs) == 0 {
			return Push{}, malformed
		}
		return push, pushed
	},
}

// jsonOf takes the JSON out of a form: what GitHub sends unless it is told otherwise.
func jsonOf(header http.Header, body []byte) []byte {
	if kind, _, _ := mime.ParseMediaType(header.Get("Content-Type")); kind != "application/x-www-form-urlencoded" {
		return body
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil
	}
	return []byte(form.Get("payload"))
}
