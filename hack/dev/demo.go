package main

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// demoNamespace is where the shown Function lives.
const demoNamespace = "demo"

// patience is how long a step of the demonstration may take.
const patience = 3 * time.Minute

// demo is a Function on its way.
type demo struct {
	site  *site
	facts facts
	clone string // working copy of its repository
	url   string // of its repository
}

// demonstrate pushes a Function, calls it, changes it and reverts the change.
func demonstrate(ctx context.Context, steps *steps, site *site) error {
	known, err := factsOf(ctx, site)
	if err != nil {
		return err
	}
	d := &demo{site: site, facts: known}
	if site.Current {
		return d.inline(ctx, steps)
	}
	clone, err := os.MkdirTemp("", "gitfn-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(clone)
	d.clone, d.url = clone, known.GitHTTP+"/demo/functions.git"
	greeting := "hello from " + time.Now().UTC().Format("15:04:05")

	for _, step := range []struct {
		what   string
		answer string
		do     func() error
	}{
		{"there is a repository, and a Function that follows it", "", func() error { return d.prepare(ctx) }},
		{fmt.Sprintf("git push: the Function answers %q", greeting), greeting, func() error { return d.pushed(ctx, greeting) }},
		{"git push of a change: it answers \"changed\"", "changed", func() error { return d.pushed(ctx, "changed") }},
		{fmt.Sprintf("git revert, git push: it answers %q again, and nothing is built", greeting), greeting, func() error {
			if _, err := d.git(ctx, "revert", "--no-edit", "HEAD"); err != nil {
				return err
			}
			return d.published(ctx, greeting)
		}},
	} {
		if err := steps.do(step.what, step.do); err != nil {
			return d.explain(ctx, err)
		}
		if err := d.settled(ctx, step.answer); err != nil {
			return d.explain(ctx, err)
		}
	}
	return d.next(ctx, steps)
}

// settled waits until the Function says that the newest version serves, and no
// call meets the last one any more: the node's rules are up to a second behind.
func (d *demo) settled(ctx context.Context, answer string) error {
	if answer == "" {
		return nil
	}
	return eventually(ctx, patience, func() error {
		status, err := d.site.kubectl(ctx, "", "-n", demoNamespace, "get", "function", "hello",
			"-o", `jsonpath={.status.revision} {.status.conditions[?(@.type=="Ready")].status}`)
		if err != nil {
			return err
		}
		head, err := d.git(ctx, "rev-parse", "HEAD")
		if err != nil {
			return err
		}
		if want := "main@sha1:" + strings.TrimSpace(head) + " True"; status != want {
			return fmt.Errorf("the Function says %q, not %q", status, want)
		}
		for range 10 {
			if err := d.answers(ctx, answer); err != nil {
				return err
			}
		}
		return nil
	})
}

func (d *demo) git(ctx context.Context, args ...string) (string, error) {
	identity := []string{"-c", "user.name=gitfn", "-c", "user.email=gitfn@example.com", "-c", "init.defaultBranch=main"}
	return command(ctx, nil, d.clone, "git", append(identity, args...)...)
}

const functionManifest = `
apiVersion: v1
kind: Namespace
metadata:
  name: %[1]s
  labels: {pod-security.kubernetes.io/enforce: restricted}
---
apiVersion: serverless.kyma-project.io/v1alpha2
kind: Function
metadata:
  name: hello
  namespace: %[1]s
spec:
  runtime: nodejs22
  source:
    %[2]s
`

func (d *demo) prepare(ctx context.Context) error {
	// A demonstration of an earlier day may have left its repository.
	if _, err := d.git(ctx, "clone", "--quiet", d.url, "."); err != nil {
		if _, err := d.git(ctx, "init", "--quiet", "."); err != nil {
			return err
		}
		if _, err := d.git(ctx, "remote", "add", "origin", d.url); err != nil {
			return err
		}
		// A repository that is not there is asked for again only after half a minute.
		if _, err := d.git(ctx, "commit", "--quiet", "--allow-empty", "-m", "begin"); err != nil {
			return err
		}
		if _, err := d.git(ctx, "push", "--quiet", "origin", "HEAD:main"); err != nil {
			return err
		}
	}
	source := fmt.Sprintf(`gitRepository: {url: %q, reference: main, baseDir: functions/hello}`, d.url)
	_, err := d.site.kubectl(ctx, fmt.Sprintf(functionManifest, demoNamespace, source), "apply", "--server-side", "-f", "-")
	return err
}

// pushed commits a handler that answers with a text, pushes and waits.
func (d *demo) pushed(ctx context.Context, text string) error {
	dir := filepath.Join(d.clone, "functions", "hello")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	handler := fmt.Sprintf("module.exports = { main: function (event, context) { return %q; } };\n", text)
	if err := os.WriteFile(filepath.Join(dir, "handler.js"), []byte(handler), 0o644); err != nil {
		return err
	}
	if _, err := d.git(ctx, "add", "."); err != nil {
		return err
	}
	if _, err := d.git(ctx, "commit", "--quiet", "-m", "answer "+text); err != nil {
		return err
	}
	return d.published(ctx, text)
}

// published pushes what is committed, hints, and waits for the answer.
func (d *demo) published(ctx context.Context, answer string) error {
	if _, err := d.git(ctx, "push", "--quiet", "origin", "HEAD:refs/heads/main"); err != nil {
		return err
	}
	// The node's rules may be a moment behind the leader.
	if err := eventually(ctx, 30*time.Second, func() error { return d.hint(ctx) }); err != nil {
		return err
	}
	return eventually(ctx, patience, func() error { return d.answers(ctx, answer) })
}

// hint does what a forge's webhook does.
func (d *demo) hint(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	body, err := json.Marshal(map[string]string{"url": d.url, "ref": "refs/heads/main"})
	if err != nil {
		return err
	}
	mac := hmac.New(sha256.New, []byte(d.facts.HookSecret))
	mac.Write(body)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, d.facts.HookURL, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("X-Gitfn-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("send push hint: %w", err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusAccepted {
		return fmt.Errorf("send push hint: %s", answer.Status)
	}
	return nil
}

func (d *demo) call(ctx context.Context) (string, error) {
	if d.site.Current {
		return d.site.kubectl(ctx, "", "get", "--raw", "/api/v1/namespaces/"+demoNamespace+"/services/hello:80/proxy/")
	}
	url, err := d.address(ctx)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	request.Close = true // a kept connection would stay with the Pod of the last version
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return string(text), err
}

func (d *demo) address(ctx context.Context) (string, error) {
	ip, err := d.site.kubectl(ctx, "", "-n", demoNamespace, "get", "service", "hello", "-o", "jsonpath={.spec.clusterIP}")
	return "http://" + ip + "/", err
}

func (d *demo) answers(ctx context.Context, want string) error {
	got, err := d.call(ctx)
	if err == nil && strings.TrimSpace(got) != want {
		err = fmt.Errorf("it answers %q, not %q", got, want)
	}
	return err
}

// inline shows an inline Function, where there is no Git server to push to.
func (d *demo) inline(ctx context.Context, steps *steps) error {
	source := `inline: {source: "module.exports = { main: () => 'hello from gitfn' };"}`
	if err := steps.do("an inline Function answers", func() error {
		if _, err := d.site.kubectl(ctx, fmt.Sprintf(functionManifest, demoNamespace, source), "apply", "--server-side", "-f", "-"); err != nil {
			return err
		}
		return eventually(ctx, patience, func() error { return d.answers(ctx, "hello from gitfn") })
	}); err != nil {
		return d.explain(ctx, err)
	}
	return d.next(ctx, steps)
}

// explain adds what the Function says of itself.
func (d *demo) explain(ctx context.Context, err error) error {
	why, _ := d.site.kubectl(ctx, "", "-n", demoNamespace, "get", "function", "hello", "-o", "wide")
	return fmt.Errorf("%w\n%s", err, why)
}

// next says what to try now.
func (d *demo) next(ctx context.Context, steps *steps) error {
	table, err := d.site.kubectl(ctx, "", "-n", demoNamespace, "get", "functions")
	if err != nil {
		return err
	}
	steps.say("")
	for line := range strings.Lines(table) {
		steps.say("%s", strings.TrimRight(line, "\n"))
	}
	steps.say("")
	steps.say("What to try next:")
	if d.site.Current {
		steps.say("  kubectl get functions -A -o wide")
		return nil
	}
	url, err := d.address(ctx)
	if err != nil {
		return err
	}
	steps.say("  export KUBECONFIG=%s", d.facts.Kubeconfig)
	steps.say("  export PATH=%s:$PATH", filepath.Dir(d.facts.Kubectl))
	steps.say("  kubectl get functions -A -o wide")
	steps.say("  kubectl -n %s describe function hello", demoNamespace)
	steps.say("  curl %s", url)
	steps.say("  git clone %s    # change functions/hello/handler.js, commit, push", d.url)
	steps.say("  make cluster-down")
	return nil
}
