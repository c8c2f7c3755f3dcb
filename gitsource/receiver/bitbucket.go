package receiver

import (
	"encoding/json"
	"net/http"
)

// bitbucket is for Bitbucket Cloud. One push may change many branches and tags.
var bitbucket = forge{
	bodyBytes: smallBody,
	proofs:    hexHMACs(map[string]string{"X-Hub-Signature": "sha256="}),
	parse: func(header http.Header, body []byte) (Push, verdict) {
		if header.Get("X-Event-Key") != "repo:push" {
			return Push{}, ignored
		}
		var payload struct {
			Repository struct {
				FullName string `json:"full_name"`
				Links    struct{ HTML struct{ Href string } }
			}
			Push struct{ Changes []bitbucketChange }
		}
		if err := json.Unmarshal(body, &payload); err != nil {
			return Push{}, malformed
		}
		urls := []string{payload.Repository.Links.HTML.Href}
		if name := payload.Repository.FullName; name != "" {
			urls = append(urls, "https://bitbucket.org/"+name)
		}
		var refs []string
		for _, change := range payload.Push.Changes {
			refs = append(refs, change.Old.ref(), change.New.ref())
		}
		return pushOf(urls, refs)
	},
}

// bitbucketChange is one ref before and after the push. New is empty for one that is gone, Old for one that is new.
type bitbucketChange struct{ Old, New bitbucketRef }

type bitbucketRef struct{ Type, Name string }

// ref is the full name, or empty.
func (r bitbucketRef) ref() string {
	switch {
	case r.Name == "":
		return ""
	case r.Type == "tag" || r.Type == "annotated_tag":
		return "refs/tags/" + r.Name
	}
	return "refs/heads/" + r.Name
}
