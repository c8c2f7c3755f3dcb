package receiver_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/gitfn/gitfn/gitsource/receiver"
)

// TestForgesAreDocumented wants every forge in the page of those who set up webhooks.
func TestForgesAreDocumented(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	page, err := os.ReadFile("../../docs/receivers.md")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(receiver.Forges()).To(Equal([]string{"azuredevops", "bitbucket", "forgejo", "generic", "gitea", "github", "gitlab"}))
	for _, name := range receiver.Forges() {
		g.Expect(string(page)).To(ContainSubstring("| `" + name + "` |"))
	}
}

// TestForgesSay has what the real payloads lack.
func TestForgesSay(t *testing.T) {
	t.Parallel()
	bitbucketURLs := []string{"https://bitbucket.org/team/fn"}
	azureURLs := []string{"https://org@dev.azure.com/org/Project/_git/fn"}
	rows := []struct {
		name, forge, body string
		header            map[string]string
		code              int
		push              *receiver.Push
	}{
		{
			name: "Bitbucket: a push of many changes names them all, those that are gone too", forge: "bitbucket", header: map[string]string{"X-Event-Key": "repo:push"}, code: 202,
			body: `{"repository": {"full_name": "team/fn", "links": {"html": {"href": "https://bitbucket.org/team/fn"}}}, "push": {"changes": [
				{"old": {"type": "branch", "name": "main"}, "new": {"type": "branch", "name": "main"}},
				{"old": null, "new": {"type": "tag", "name": "v1"}},
				{"old": {"type": "branch", "name": "old/branch"}, "new": null, "closed": true},
				{"old": {"type": "annotated_tag", "name": "v0"}, "new": null, "closed": true}]}}`,
			push: &receiver.Push{URLs: bitbucketURLs, Refs: []string{"refs/heads/main", "refs/tags/v1", "refs/heads/old/branch", "refs/tags/v0"}},
		},
		{
			name: "Bitbucket: a push without changes is for all refs", forge: "bitbucket", header: map[string]string{"X-Event-Key": "repo:push"}, code: 202,
			body: `{"repository": {"full_name": "team/fn"}, "push": {"changes": []}}`, push: &receiver.Push{URLs: bitbucketURLs},
		},
		{
			name: "Bitbucket: a push without a repository is malformed", forge: "bitbucket", header: map[string]string{"X-Event-Key": "repo:push"}, code: 400, body: `{}`,
		},
		{
			name: "Azure DevOps: a push of several refs names them all", forge: "azuredevops", code: 202,
			body: `{"eventType": "git.push", "resource": {"refUpdates": [
				{"name": "refs/heads/main", "oldObjectId": "1", "newObjectId": "2"},
				{"name": "refs/tags/v1", "newObjectId": "0000000000000000000000000000000000000000"}], "repository": {"remoteUrl": "https://org@dev.azure.com/org/Project/_git/fn"}}}`,
			push: &receiver.Push{URLs: azureURLs, Refs: []string{"refs/heads/main", "refs/tags/v1"}},
		},
		{
			name: "Azure DevOps: a push with minimal resource details is malformed", forge: "azuredevops", code: 400,
			body: `{"eventType": "git.push", "resource": {"pushId": 14}}`,
		},
		{
			name: "GitLab: an update of a repository is a push of its refs", forge: "gitlab", header: map[string]string{"X-Gitlab-Event": "System Hook"}, code: 202,
			body: `{"event_name": "repository_update", "project": {"git_http_url": "https://gitlab.example/a/fn.git"}, "refs": ["refs/heads/main", "refs/tags/v1"]}`,
			push: &receiver.Push{URLs: []string{"https://gitlab.example/a/fn.git"}, Refs: []string{"refs/heads/main", "refs/tags/v1"}},
		},
		{
			name: "GitLab: a branch that is gone is a push", forge: "gitlab", header: map[string]string{"X-Gitlab-Event": "Push Hook"}, code: 202,
			body: `{"object_kind": "push", "after": "0000000000000000000000000000000000000000", "ref": "refs/heads/old", "project": {"git_ssh_url": "git@gitlab.example:a/fn.git"}}`,
			push: &receiver.Push{URLs: []string{"git@gitlab.example:a/fn.git"}, Refs: []string{"refs/heads/old"}},
		},
		{
			name: "GitHub: a new repository has no ref yet", forge: "github", header: map[string]string{"X-GitHub-Event": "create"}, code: 202,
			body: `{"ref": null, "ref_type": "repository", "repository": {"clone_url": "https://github.com/o/r.git"}}`,
		},
		{
			name: "generic: several refs", forge: "generic", code: 202, body: `{"url": "https://git.example/fn.git", "refs": ["refs/heads/a", "refs/heads/b", "refs/heads/a"]}`,
			push: &receiver.Push{URLs: []string{"https://git.example/fn.git"}, Refs: []string{"refs/heads/a", "refs/heads/b"}},
		},
		{
			name: "generic: more refs than are worth naming stand for all", forge: "generic", code: 202,
			body: `{"url": "https://git.example/fn.git", "refs": [` + manyNames(101) + `]}`, push: &receiver.Push{URLs: []string{"https://git.example/fn.git"}},
		},
		{
			name: "generic: a ref that is too long stands for all", forge: "generic", code: 202,
			body: `{"url": "https://git.example/fn.git", "ref": "` + strings.Repeat("x", 2000) + `"}`, push: &receiver.Push{URLs: []string{"https://git.example/fn.git"}},
		},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			code, got := post(row.forge, row.body, everyProof(row.body), row.header)
			g.Expect(code).To(Equal(row.code))
			if row.push == nil {
				g.Expect(got).To(BeEmpty())
				return
			}
			g.Expect(got).To(Equal([]receiver.Push{*row.push}))
		})
	}
}

func manyNames(n int) string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%q", fmt.Sprint("refs/heads/", i))
	}
	return strings.Join(names, ", ")
}

// TestGitLabSigns checks signing tokens, alone and beside a secret token.
func TestGitLabSigns(t *testing.T) {
	t.Parallel()
	const body = `{"ref": "refs/heads/main", "project": {"git_http_url": "https://gitlab.example/a/fn.git"}}`
	raw := []byte("it's thirty-two bytes of a key!!")
	signingToken := "whsec_" + base64.StdEncoding.EncodeToString(raw)
	made := func(key []byte, id, at string) string {
		mac := hmac.New(sha256.New, key)
		fmt.Fprintf(mac, "%s.%s.%s", id, at, body)
		return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	good := made(raw, "id-1", "1700000000")
	for _, row := range []struct {
		name, secret, token, signature string
		code                           int
	}{
		{name: "a signature", secret: signingToken, signature: good, code: 202},
		{name: "several signatures, one of them right", secret: signingToken, signature: "v1,AAAA v1a,BBBB " + good, code: 202},
		{name: "a signature with a token that is no base64", secret: "whsec_it's plain", signature: made([]byte("whsec_it's plain"), "id-1", "1700000000"), code: 202},
		{name: "a signature beside a secret token that is not ours", secret: signingToken, token: "another", signature: good, code: 202},
		{name: "a secret token beside a signature that is not ours", secret: "s3cret", token: "s3cret", signature: good, code: 202},
		{name: "a signature of another id", secret: signingToken, signature: made(raw, "id-2", "1700000000"), code: 401},
		{name: "a signature of another time", secret: signingToken, signature: made(raw, "id-1", "1700000001"), code: 401},
		{name: "a signature of another key", secret: signingToken, signature: made([]byte("guess"), "id-1", "1700000000"), code: 401},
		{name: "a signature of another version", secret: signingToken, signature: strings.Replace(good, "v1,", "v2,", 1), code: 401},
		{name: "a signature without version", secret: signingToken, signature: good[3:], code: 401},
		{name: "a signature made with the text of the token", secret: signingToken, signature: made([]byte(signingToken), "id-1", "1700000000"), code: 401},
		{name: "a secret token of the same beginning", secret: "s3cret", token: "s3cre", code: 401},
		{name: "neither", secret: "s3cret", code: 401},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			header := map[string]string{"X-Gitlab-Event": "Push Hook", "webhook-id": "id-1", "webhook-timestamp": "1700000000"}
			if row.token != "" {
				header["X-Gitlab-Token"] = row.token
			}
			if row.signature != "" {
				header["webhook-signature"] = row.signature
			}
			code, _ := postWith(row.secret, "gitlab", body, header)
			g.Expect(code).To(Equal(row.code))
		})
	}
}

// TestAzureDevOpsShowsThePassword takes any user.
func TestAzureDevOpsShowsThePassword(t *testing.T) {
	t.Parallel()
	const body = `{"eventType": "git.push", "resource": {"repository": {"remoteUrl": "https://dev.azure.com/o/p/_git/r"}}}`
	for authorization, want := range map[string]int{
		"gitfn:" + key: http.StatusAccepted,
		":" + key:      http.StatusAccepted,
		key + ":":      http.StatusUnauthorized,
		"gitfn:":       http.StatusUnauthorized,
		"gitfn:guess":  http.StatusUnauthorized,
		key:            http.StatusUnauthorized,
	} {
		code, _ := post("azuredevops", body, map[string]string{"Authorization": "Basic " + base64.StdEncoding.EncodeToString([]byte(authorization))})
		NewWithT(t).Expect(code).To(Equal(want), authorization)
	}
	code, _ := post("azuredevops", body, map[string]string{"Authorization": "Bearer " + key})
	NewWithT(t).Expect(code).To(Equal(http.StatusUnauthorized))
}
