package receiver

import (
	"bytes"
	"encoding/json"
	"mime"
	"net/http"
	"strings"
)

// github is for GitHub, its Enterprise Server, and others that push as it does. GitHub sends at most 25 MiB.
var github = forge{
	bodyBytes: 25 << 20,
	proofs:    hexHMACs(map[string]string{"X-Hub-Signature-256": "sha256="}),
	parse: func(header http.Header, body []byte) (Push, verdict) {
		return parseGitHub(header.Get("X-GitHub-Event"), header, body)
	},
}

// parseGitHub reads an event of GitHub, or of Gitea, which sends the same. A new branch is told by push and create,
// one that is gone by push and delete, so each of them will do.
func parseGitHub(event string, header http.Header, body []byte) (Push, verdict) {
	var payload struct {
		Ref        string
		RefType    string `json:"ref_type"`
		Repository struct {
			CloneURL string `json:"clone_url"`
			HTMLURL  string `json:"html_url"`
			SSHURL   string `json:"ssh_url"`
		}
	}
	switch event {
	case "push", "create", "delete":
	case "ping":
		return Push{}, ping
	default:
		return Push{}, ignored
	}
	if err := json.Unmarshal(jsonOf(header, body), &payload); err != nil {
		return Push{}, malformed
	}
	if event != "push" {
		prefix, known := map[string]string{"branch": "refs/heads/", "tag": "refs/tags/"}[payload.RefType]
		if !known || payload.Ref == "" {
			return Push{}, ignored
		}
		if !strings.HasPrefix(payload.Ref, "refs/") { // Gogs names it in full
			payload.Ref = prefix + payload.Ref
		}
	}
	at := payload.Repository
	return pushOf([]string{at.CloneURL, at.HTMLURL, at.SSHURL}, []string{payload.Ref})
}

// jsonOf takes the JSON out of a form: what GitHub sends unless it is told otherwise. It works in the body's own
// memory, which may be large.
func jsonOf(header http.Header, body []byte) []byte {
	if !isForm(header) {
		return body
	}
	for field := range bytes.SplitSeq(body, []byte("&")) {
		if value, found := bytes.CutPrefix(field, []byte("payload=")); found {
			return unescape(value)
		}
	}
	return nil
}

func isForm(header http.Header) bool {
	kind, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
	return kind == "application/x-www-form-urlencoded"
}

// unescape is url.QueryUnescape in place. What is not well formed stays: then it is no JSON either.
func unescape(b []byte) []byte {
	end := 0
	for i := 0; i < len(b); i++ {
		c := b[i]
		if c == '+' {
			c = ' '
		} else if high, low := digit(b, i+1), digit(b, i+2); c == '%' && high >= 0 && low >= 0 {
			c = byte(high<<4 | low)
			i += 2
		}
		b[end] = c
		end++
	}
	return b[:end]
}

// digit is the hex digit at i, or -1.
func digit(b []byte, i int) int {
	if i >= len(b) {
		return -1
	}
	return bytes.IndexByte([]byte("0123456789abcdef"), b[i]|0x20)
}
