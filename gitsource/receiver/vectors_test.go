package receiver_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	_ "github.com/go-playground/webhooks/v6/github" // keeps the module that has the payloads
	. "github.com/onsi/gomega"

	"github.com/gitfn/gitfn/gitsource/receiver"
)

// payloads is the directory of the real payloads, one directory a forge.
var payloads = sync.OnceValues(func() (string, error) {
	const module = "github.com/go-playground/webhooks/v6"
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return "", fmt.Errorf("find %s: %w", module, err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "testdata"), nil
})

// vectors are the payloads of one forge.
type vectors struct {
	forge, dir string
	files      int
	// event are the headers that come with a file.
	event func(name string, body []byte) map[string]string
	// prove are those that prove the key.
	prove func(body string) map[string]string
	// pushes are the files that tell of a push. All others are ignored.
	pushes map[string]receiver.Push
}

func hexOf(body string) string { return strings.TrimPrefix(sign(key, body), "sha256=") }

func gitHubEvent(header string) func(string, []byte) map[string]string {
	return func(name string, _ []byte) map[string]string {
		return map[string]string{header: strings.ReplaceAll(strings.TrimSuffix(name, "-event"), "-", "_")}
	}
}

var (
	gitHubSample = []string{"https://github.com/baxterthehacker/public-repo.git", "https://github.com/baxterthehacker/public-repo", "git@github.com:baxterthehacker/public-repo.git"}
	giteaSample  = []string{"http://localhost:3000/example/example.git", "http://localhost:3000/example/example", "git@localhost:example/example.git"}
	gogsSample   = []string{"https://gogs.example.com/user/repo.git", "https://gogs.example.com/user/repo"}
	gitLabPush   = []string{"http://example.com/mike/diaspora.git", "git@example.com:mike/diaspora.git", "http://example.com/mike/diaspora"}
	gitLabTag    = []string{"http://example.com/jsmith/example.git", "git@example.com:jsmith/example.git", "http://example.com/jsmith/example"}
)

var allVectors = []vectors{
	{
		forge: "github", dir: "github", files: 48, event: gitHubEvent("X-GitHub-Event"),
		prove: func(body string) map[string]string { return map[string]string{"X-Hub-Signature-256": sign(key, body)} },
		pushes: map[string]receiver.Push{
			"push":   {URLs: []string{"https://github.com/binkkatal/sample_app.git", "https://github.com/binkkatal/sample_app", "git@github.com:binkkatal/sample_app.git"}, Refs: []string{"refs/heads/master"}},
			"create": {URLs: gitHubSample, Refs: []string{"refs/tags/0.0.1"}},
			"delete": {URLs: gitHubSample, Refs: []string{"refs/tags/simple-tag"}},
		},
	}, {
		forge: "gitea", dir: "gitea", files: 17, event: gitHubEvent("X-Gitea-Event"),
		prove: func(body string) map[string]string { return map[string]string{"X-Gitea-Signature": hexOf(body)} },
		pushes: map[string]receiver.Push{
			"push-event":   {URLs: giteaSample, Refs: []string{"refs/heads/master"}},
			"create-event": {URLs: giteaSample, Refs: []string{"refs/heads/master"}},
			"delete-event": {URLs: giteaSample, Refs: []string{"refs/heads/example3"}},
		},
	}, {
		forge: "forgejo", dir: "gitea", files: 17, event: gitHubEvent("X-Forgejo-Event"),
		prove: func(body string) map[string]string { return map[string]string{"X-Forgejo-Signature": hexOf(body)} },
		pushes: map[string]receiver.Push{
			"push-event":   {URLs: giteaSample, Refs: []string{"refs/heads/master"}},
			"create-event": {URLs: giteaSample, Refs: []string{"refs/heads/master"}},
			"delete-event": {URLs: giteaSample, Refs: []string{"refs/heads/example3"}},
		},
	}, {
		forge: "gitea", dir: "gogs", files: 8, event: gitHubEvent("X-Gogs-Event"),
		prove: func(body string) map[string]string { return map[string]string{"X-Gogs-Signature": hexOf(body)} },
		pushes: map[string]receiver.Push{
			"push-event":   {URLs: []string{"http://localhost:3000/unknwon/webhooks.git", "http://localhost:3000/unknwon/webhooks", "ssh://unknwon@localhost:2222/unknwon/webhooks.git"}, Refs: []string{"refs/heads/develop"}},
			"create-event": {URLs: gogsSample, Refs: []string{"refs/heads/feature-branch"}},
			"delete-event": {URLs: gogsSample, Refs: []string{"refs/heads/obsolete-branch"}},
		},
	}, {
		forge: "gitlab", dir: "gitlab", files: 39, event: gitLabEvent,
		prove: func(string) map[string]string { return map[string]string{"X-Gitlab-Token": key} },
		pushes: map[string]receiver.Push{
			"push-event":        {URLs: gitLabPush, Refs: []string{"refs/heads/master"}},
			"tag-event":         {URLs: gitLabTag, Refs: []string{"refs/tags/v1.0.0"}},
			"system-push-event": {URLs: gitLabPush, Refs: []string{"refs/heads/master"}},
			"system-tag-event":  {URLs: gitLabTag, Refs: []string{"refs/tags/v1.0.0"}},
		},
	}, {
		forge: "bitbucket", dir: "bitbucket", files: 18,
		event: func(name string, _ []byte) map[string]string {
			return map[string]string{"X-Event-Key": strings.Replace(name, "repo-", "repo:", 1)}
		},
		prove: func(body string) map[string]string { return map[string]string{"X-Hub-Signature": sign(key, body)} },
		pushes: map[string]receiver.Push{
			"repo-push": {URLs: []string{"https://api.bitbucket.org/bitbucket/bitbucket", "https://bitbucket.org/team_name/repo_name"}, Refs: []string{"refs/heads/name-of-branch"}},
		},
	}, {
		forge: "azuredevops", dir: "azuredevops", files: 5,
		event: func(string, []byte) map[string]string { return nil },
		prove: func(string) map[string]string {
			return map[string]string{"Authorization": "Basic " + base64.StdEncoding.EncodeToString([]byte("anybody:"+key))}
		},
		pushes: map[string]receiver.Push{
			"git.push": {URLs: []string{"https://dev.azure.com/fabrikam-fiber-inc/DefaultCollection/_git/Fabrikam-Fiber-Git"}, Refs: []string{"refs/heads/main"}},
		},
	},
}

// gitLabEvent is the header that GitLab sends with a payload: the kind of the event in words.
func gitLabEvent(name string, body []byte) map[string]string {
	if strings.HasPrefix(name, "system-") {
		return map[string]string{"X-Gitlab-Event": "System Hook"}
	}
	var event struct {
		Kind string `json:"object_kind"`
	}
	_ = json.Unmarshal(body, &event)
	kinds := map[string]string{"push": "Push Hook", "tag_push": "Tag Push Hook", "merge_request": "Merge Request Hook", "wiki_page": "Wiki Page Hook"}
	if kind, known := kinds[event.Kind]; known {
		return map[string]string{"X-Gitlab-Event": kind}
	}
	return map[string]string{"X-Gitlab-Event": strings.ToUpper(event.Kind[:1]) + event.Kind[1:] + " Hook"}
}

// post sends a body to a forge's endpoint and returns the status and what was handed on.
func post(forge, body string, headers ...map[string]string) (int, []receiver.Push) {
	return postWith(key, forge, body, headers...)
}

func postWith(key, forge, body string, headers ...map[string]string) (int, []receiver.Push) {
	var got []receiver.Push
	handler := receiver.New(receiver.Options{
		Secrets: func(context.Context, string, string) ([]byte, error) { return []byte(key), nil },
		Notify:  func(_ string, push receiver.Push) bool { got = append(got, push); return true },
	})
	r := httptest.NewRequest(http.MethodPost, "/hooks/"+forge+"/team-a/push-key", strings.NewReader(body))
	for _, header := range headers {
		for name, value := range header {
			r.Header.Set(name, value)
		}
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w.Code, got
}

// each calls do for every payload of a forge, by its name without extension.
func (v vectors) each(t *testing.T, do func(g *WithT, name string, body []byte)) {
	g := NewWithT(t)
	root, err := payloads()
	g.Expect(err).NotTo(HaveOccurred())
	files, err := filepath.Glob(filepath.Join(root, v.dir, "*.json"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(files).To(HaveLen(v.files))
	for _, file := range files {
		body, err := os.ReadFile(file)
		g.Expect(err).NotTo(HaveOccurred())
		do(g, strings.TrimSuffix(filepath.Base(file), ".json"), body)
	}
}

func TestRealPayloads(t *testing.T) {
	t.Parallel()
	for _, v := range allVectors {
		t.Run(v.forge+" "+v.dir, func(t *testing.T) {
			t.Parallel()
			pushes := 0
			v.each(t, func(g *WithT, name string, body []byte) {
				code, got := post(v.forge, string(body), v.event(name, body), v.prove(string(body)))
				g.Expect(code).To(Equal(http.StatusAccepted), name)
				want, isPush := v.pushes[name]
				if !isPush {
					g.Expect(got).To(BeEmpty(), name)
					return
				}
				pushes++
				g.Expect(got).To(Equal([]receiver.Push{want}), name)
			})
			NewWithT(t).Expect(pushes).To(Equal(len(v.pushes)))
			t.Logf("%d payloads, %d of them pushes", v.files, pushes)
		})
	}
}

// TestRealPayloadsUnderOtherNames gives each payload out as every event that is a push: nothing may break.
func TestRealPayloadsUnderOtherNames(t *testing.T) {
	t.Parallel()
	names := []map[string]string{
		{"X-GitHub-Event": "push", "X-Gitea-Event": "push", "X-Gitlab-Event": "Push Hook", "X-Event-Key": "repo:push"},
		{"X-GitHub-Event": "delete", "X-Gitea-Event": "create", "X-Gitlab-Event": "System Hook", "X-Event-Key": "repo:push"},
	}
	for _, v := range allVectors {
		for _, forge := range receiver.Forges() {
			t.Run(v.dir+" sent to "+forge, func(t *testing.T) {
				t.Parallel()
				v.each(t, func(g *WithT, name string, body []byte) {
					for _, event := range names {
						code, _ := post(forge, string(body), event, everyProof(string(body)))
						g.Expect(code).To(BeElementOf(http.StatusAccepted, http.StatusBadRequest), name)
					}
				})
			})
		}
	}
}

// everyProof is what all forges prove themselves with.
func everyProof(body string) map[string]string {
	headers := map[string]string{"X-Gitfn-Signature-256": sign(key, body)}
	for _, v := range allVectors {
		for name, value := range v.prove(body) {
			headers[name] = value
		}
	}
	return headers
}

// TestRealPayloadsAsForms sends pushes as forms. GitHub signs the form, Gitea the JSON in it.
func TestRealPayloadsAsForms(t *testing.T) {
	t.Parallel()
	for _, v := range allVectors[:4] {
		t.Run(v.forge+" "+v.dir, func(t *testing.T) {
			t.Parallel()
			v.each(t, func(g *WithT, name string, body []byte) {
				form := url.Values{"payload": {string(body)}}.Encode()
				signed := string(body)
				if v.forge == "github" {
					signed = form
				}
				kind := map[string]string{"Content-Type": "application/x-www-form-urlencoded"}
				code, got := post(v.forge, form, v.event(name, body), v.prove(signed), kind)
				g.Expect(code).To(Equal(http.StatusAccepted), name)
				if want, isPush := v.pushes[name]; isPush {
					g.Expect(got).To(Equal([]receiver.Push{want}), name)
				}
			})
		})
	}
}

// TestEveryForgeRefusesWhatItsKeyDidNotMake changes one thing at a time.
func TestEveryForgeRefusesWhatItsKeyDidNotMake(t *testing.T) {
	t.Parallel()
	for _, v := range allVectors {
		t.Run(v.forge+" "+v.dir, func(t *testing.T) {
			t.Parallel()
			v.each(t, func(g *WithT, name string, body []byte) {
				if _, isPush := v.pushes[name]; !isPush {
					return
				}
				event, proof := v.event(name, body), v.prove(string(body))
				code, got := post(v.forge, string(body), event)
				g.Expect(code).To(Equal(http.StatusUnauthorized), "without proof")
				for header, value := range proof {
					for _, wrong := range []string{value[:len(value)-1], value + "0", flipped(value), "", "sha256=", "Basic "} {
						code, more := post(v.forge, string(body), event, map[string]string{header: wrong})
						g.Expect(code).To(Equal(http.StatusUnauthorized), "%s: %q", header, wrong)
						got = append(got, more...)
					}
				}
				if v.forge != "gitlab" && v.forge != "azuredevops" { // these do not sign
					code, more := post(v.forge, string(bytes.Replace(body, []byte("refs"), []byte("rofs"), 1))+" ", event, proof)
					g.Expect(code).To(Equal(http.StatusUnauthorized), "another body")
					got = append(got, more...)
				}
				g.Expect(got).To(BeEmpty())
			})
		})
	}
}

// flipped changes a character in the middle.
func flipped(value string) string {
	b := []byte(value)
	at := len(b) * 2 / 3
	b[at] = map[bool]byte{true: 'b', false: 'a'}[b[at] == 'a']
	return string(b)
}
