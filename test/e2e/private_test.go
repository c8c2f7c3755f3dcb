package e2e

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"os/exec"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
)

const secretPackages = "serverless-package-registry-config"

// TestPrivateRepository reads a repository with a wrong password, then with the
// right one, and looks for passwords everywhere.
func TestPrivateRepository(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "private")
	logs := s.collectLogs()
	repo, _ := s.newRepository("fn", true, map[string]string{"README.md": "private\n"})
	// An install script that prints its .npmrc: package credentials are its own
	// namespace's to lose, but not by way of the status.
	first := repo.push("print secrets", withScript(handler("never"),
		"printenv; ls /gitfn-git /gitfn-push /gitfn-pull; cat $npm_config_userconfig; exit 3"))
	secrets := map[string]string{
		"the wrong Git password":          "wrong-git-canary-5d1f0b",
		"the token of a package registry": "npm-canary-77ab12ce",
		"the Git password":                facts.GitPassword,
	}
	s.secret("git", map[string]string{"username": facts.GitUser, "password": secrets["the wrong Git password"]})
	s.secret(secretPackages, map[string]string{".npmrc": "//packages.example.com/:_authToken=" + secrets["the token of a package registry"] + "\n"})
	s.apply(newFunction("fn", fromGit(repo.url, "/"), withAuth("git")))
	s.eventually(func(g Gomega) {
		fn := s.function("fn")
		g.Expect(condition(fn, functionv1.ConfigurationReady)).To(HavePrefix("False SourceUpdateFailed: GitAuth: "))
		g.Expect(condition(fn, functionv1.ConfigurationReady)).To(ContainSubstring("Secret git"), "what to do")
		g.Expect(fn.Status.Source).NotTo(BeNil())
		g.Expect(fn.Status.Source.Class).To(Equal("GitAuth"))
		g.Expect(condition(fn, "Ready")).To(HavePrefix("False"))
	})
	s.g.Expect(s.jobsSeen("fn")).To(Equal(0))

	s.secret("git", map[string]string{"username": facts.GitUser, "password": facts.GitPassword})
	s.eventually(func(g Gomega) {
		fn := s.function("fn")
		g.Expect(fn.Status.Commit).To(Equal(first))
		g.Expect(condition(fn, functionv1.ConfigurationReady)).To(HavePrefix("True"))
		g.Expect(condition(fn, functionv1.BuildReady)).To(HavePrefix("False JobFailed: InstallFailed: "))
		g.Expect(fn.Status.Build.Output).To(ContainSubstring("_authToken="), "the script's output is shown")
	})
	s.eventually(func(g Gomega) { g.Expect(logs.text()).To(ContainSubstring("_authToken="), "and is in the log") })

	repo.git("rm", "--quiet", "package.json")
	second := repo.push("be good", map[string]string{"handler.js": handler("private")})
	s.ready("fn", second)
	s.answers("fn", "private")

	secrets["the registry's push password"] = s.secretValue(secretPush, "password")
	secrets["the registry's pull password"] = s.secretValue(secretPull, "password")
	s.hides(secrets, logs)
	s.imageHides("fn", secrets)
}

// hides expects that no secret was ever in an object of the namespace that was
// seen, nor in a log of the manager or of a build.
func (s *space) hides(secrets map[string]string, logs *podLogs) {
	s.t.Helper()
	manager, err := kubectl(s.t.Context(), "", "--namespace", system, "logs", "deployment/gitfn-manager", "--tail=-1")
	s.g.Expect(err).NotTo(HaveOccurred())
	s.g.Expect(manager).NotTo(BeEmpty())
	builds := logs.text()
	for what, secret := range secrets {
		s.g.Expect(secret).NotTo(BeEmpty(), what)
		for _, text := range append(traces(secret), base64.StdEncoding.EncodeToString([]byte(secret))) {
			for _, w := range allWatches() {
				s.g.Expect(w.saw(s.name, text)).To(BeFalse(), "%s was seen in %s", what, w.kind)
			}
			s.g.Expect(strings.Contains(manager, text)).To(BeFalse(), "%s is in the log of the manager", what)
			s.g.Expect(strings.Contains(builds, text)).To(BeFalse(), "%s is in the log of a build", what)
		}
	}
}

// traces are the texts by which a secret is known: itself, or the lines of a
// key in PEM form, however they are joined.
func traces(secret string) (texts []string) {
	if !strings.HasPrefix(secret, "-----BEGIN ") {
		return []string{secret}
	}
	for line := range strings.Lines(secret) {
		if line = strings.TrimSpace(line); len(line) > 40 && !strings.HasPrefix(line, "-----") {
			texts = append(texts, line)
		}
	}
	return texts
}

// podLogs are the logs of all build Pods of a namespace, while they run: they
// are deleted when they are over.
type podLogs struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *podLogs) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

func (l *podLogs) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(text)
}

// collectLogs follows the logs of build Pods until the test ends.
func (s *space) collectLogs() *podLogs {
	logs := &podLogs{}
	ctx, cancel := context.WithCancel(s.t.Context())
	s.t.Cleanup(cancel)
	go func() {
		followed := map[string]bool{}
		for next := 0; ctx.Err() == nil; {
			seen, more := watched.pods.after(ctx, next)
			next = more
			for _, sighting := range seen {
				if sighting.namespace != s.name {
					continue
				}
				for _, c := range decode[corev1.Pod](json.RawMessage(sighting.raw)).Status.ContainerStatuses {
					if key := sighting.uid + c.Name; !followed[key] && c.Name != "function" && (c.State.Running != nil || c.State.Terminated != nil) {
						followed[key] = true
						cmd := exec.CommandContext(ctx, facts.Kubectl, "--kubeconfig", facts.Kubeconfig, "--namespace", s.name,
							"logs", "--follow", sighting.name, "--container", c.Name)
						cmd.Stdout = logs
						go func() { _ = cmd.Run() }()
					}
				}
			}
		}
	}()
	return logs
}
