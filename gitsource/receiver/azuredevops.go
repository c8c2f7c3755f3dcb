package receiver

import (
	"encoding/json"
	"net/http"
)

// azureDevOps is for service hooks of Azure DevOps, its services and its server. They sign nothing, and prove
// themselves by basic authentication: the password is the key, and the user may be any.
var azureDevOps = forge{
	bodyBytes: smallBody,
	proofs: func(header http.Header) []proof {
		_, password, ok := (&http.Request{Header: header}).BasicAuth()
		if !ok || password == "" {
			return nil
		}
		return []proof{token(password)}
	},
	parse: func(_ http.Header, body []byte) (Push, verdict) {
		var kind struct{ EventType string }
		if err := json.Unmarshal(body, &kind); err != nil {
			return Push{}, malformed
		}
		if kind.EventType != "git.push" { // the resources of other events are of other forms
			return Push{}, ignored
		}
		var payload struct {
			Resource struct {
				RefUpdates []struct{ Name string }
				Repository struct{ RemoteURL, SSHURL, WebURL string }
			}
		}
		if err := json.Unmarshal(body, &payload); err != nil {
			return Push{}, malformed
		}
		var refs []string
		for _, update := range payload.Resource.RefUpdates {
			refs = append(refs, update.Name)
		}
		at := payload.Resource.Repository
		return pushOf([]string{at.RemoteURL, at.SSHURL, at.WebURL}, refs)
	},
}
