package receiver

import (
	"encoding/json"
	"net/http"
)

// generic is for a script or a forge without a file of its own. The body is {"url": "...", "ref": "refs/heads/main"};
// ref may be left out.
var generic = forge{
	bodyBytes:  1 << 20,
	signatures: []string{"X-Gitfn-Signature-256", "X-Hub-Signature-256"},
	parse: func(_ http.Header, body []byte) (Push, verdict) {
		var payload struct{ URL, Ref string }
		if err := json.Unmarshal(body, &payload); err != nil || payload.URL == "" {
			return Push{}, malformed
		}
		return Push{URLs: []string{payload.URL}, Ref: payload.Ref}, pushed
	},
}
