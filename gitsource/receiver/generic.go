package receiver

import (
	"encoding/json"
	"net/http"
)

// generic is for a script or a forge without a file of its own. The body is {"url": "...", "ref": "refs/heads/main"};
// instead of ref there may be a list, refs, or neither.
var generic = forge{
	bodyBytes: smallBody,
	proofs:    hexHMACs(map[string]string{"X-Gitfn-Signature-256": "sha256=", "X-Hub-Signature-256": "sha256="}),
	parse: func(_ http.Header, body []byte) (Push, verdict) {
		var payload struct {
			URL, Ref string
			Refs     []string
		}
		if err := json.Unmarshal(body, &payload); err != nil {
			return Push{}, malformed
		}
		return pushOf([]string{payload.URL}, append(payload.Refs, payload.Ref))
	},
}
