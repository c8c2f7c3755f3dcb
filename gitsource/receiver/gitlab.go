package receiver

import (
	"encoding/json"
	"net/http"
)

// gitlab is for GitLab: hooks of projects, of groups and of the whole server.
//
// A hook has a secret token, which GitLab sends as it is, a signing token, which it signs with (since version 19),
// or both. webhook-id and -timestamp come with every hook, the signature only if there is a signing token.
var gitlab = forge{
	bodyBytes: smallBody,
	proofs: func(header http.Header) (proofs []proof) {
		if got := header.Get("X-Gitlab-Token"); got != "" {
			proofs = append(proofs, token(got))
		}
		if signatures := header.Get("webhook-signature"); signatures != "" {
			proofs = append(proofs, standardWebhook(header.Get("webhook-id"), header.Get("webhook-timestamp"), signatures))
		}
		return proofs
	},
	parse: func(header http.Header, body []byte) (Push, verdict) {
		switch header.Get("X-Gitlab-Event") {
		case "Push Hook", "Tag Push Hook":
		case "System Hook":
			if is := gitlabSystem(body); is != pushed {
				return Push{}, is
			}
		default:
			return Push{}, ignored
		}
		var payload struct {
			Ref        string
			Refs       []string
			Project    gitlabRepository
			Repository gitlabRepository
		}
		if err := json.Unmarshal(body, &payload); err != nil {
			return Push{}, malformed
		}
		return pushOf(append(payload.Project.urls(), payload.Repository.urls()...), append(payload.Refs, payload.Ref))
	},
}

// gitlabRepository is what GitLab says twice, and in old versions once.
type gitlabRepository struct {
	HTTP string `json:"git_http_url"`
	SSH  string `json:"git_ssh_url"`
	Page string `json:"web_url"`
	Home string `json:"homepage"`
}

func (r gitlabRepository) urls() []string { return []string{r.HTTP, r.SSH, r.Page, r.Home} }

// gitlabSystem tells the pushes among the events of the whole server, whose payloads are of many forms.
func gitlabSystem(body []byte) verdict {
	var event struct {
		Name string `json:"event_name"`
	}
	if err := json.Unmarshal(body, &event); err != nil {
		return malformed
	}
	switch event.Name {
	case "push", "tag_push", "repository_update":
		return pushed
	}
	return ignored
}
