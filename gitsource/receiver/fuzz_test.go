package receiver_test

import (
	"mime"
	"net/http"
	"net/url"
	"testing"
	"unicode/utf8"
)

// fuzz sends verified payloads of any kind to a forge's endpoint. Seeds are in testdata/fuzz.
func fuzz(f *testing.F, forge, eventHeader string) {
	f.Fuzz(func(t *testing.T, event, kind string, body []byte) {
		header := map[string]string{"Content-Type": kind}
		if eventHeader != "" {
			header[eventHeader] = event
		}
		sent := string(body)
		if media, _, _ := mime.ParseMediaType(kind); forge == "gitea" && media == "application/x-www-form-urlencoded" {
			sent = url.Values{"payload": {sent}}.Encode() // it signs what is in the form
		}
		code, got := post(forge, sent, everyProof(string(body)), header)
		switch {
		case code == http.StatusBadRequest && len(got) == 0:
		case code != http.StatusAccepted || len(got) > 1:
			t.Fatalf("%d, %d pushes", code, len(got))
		}
		for _, push := range got {
			if len(push.URLs) == 0 || len(push.Refs) > 100 {
				t.Fatalf("%d URLs, %d refs", len(push.URLs), len(push.Refs))
			}
			for _, text := range append(push.URLs, push.Refs...) {
				if text == "" || !utf8.ValidString(text) {
					t.Fatalf("%q", text)
				}
			}
		}
	})
}

func FuzzPayloadGitHub(f *testing.F)      { fuzz(f, "github", "X-GitHub-Event") }
func FuzzPayloadGitea(f *testing.F)       { fuzz(f, "gitea", "X-Gitea-Event") }
func FuzzPayloadGitLab(f *testing.F)      { fuzz(f, "gitlab", "X-Gitlab-Event") }
func FuzzPayloadBitbucket(f *testing.F)   { fuzz(f, "bitbucket", "X-Event-Key") }
func FuzzPayloadAzureDevOps(f *testing.F) { fuzz(f, "azuredevops", "") }
func FuzzPayloadGeneric(f *testing.F)     { fuzz(f, "generic", "") }
