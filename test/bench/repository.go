package main

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// repository is a repository on the cluster's Git server, with a working copy.
type repository struct {
	facts facts
	url   string
	clone string
}

// openRepository begins a repository anew, whatever an earlier run pushed there.
func openRepository(ctx context.Context, f facts, name string) (*repository, error) {
	clone, err := os.MkdirTemp("", "gitfn-bench-")
	if err != nil {
		return nil, err
	}
	r := &repository{facts: f, url: f.GitHTTP + "/bench/" + name + ".git", clone: clone}
	for _, args := range [][]string{{"init", "--quiet", "."}, {"remote", "add", "origin", r.url}} {
		if err := r.git(ctx, args...); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (r *repository) close() error { return os.RemoveAll(r.clone) }

func (r *repository) git(ctx context.Context, args ...string) error {
	identity := []string{"-c", "user.name=gitfn", "-c", "user.email=gitfn@example.com", "-c", "init.defaultBranch=main"}
	_, err := command(ctx, "", r.clone, "git", append(identity, args...)...)
	return err
}

// commit writes files, by their paths, and commits them.
func (r *repository) commit(ctx context.Context, message string, files map[string]string) error {
	for name, text := range files {
		file := filepath.Join(r.clone, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return err
		}
	}
	if err := r.git(ctx, "add", "."); err != nil {
		return err
	}
	return r.git(ctx, "commit", "--quiet", "-m", message)
}

// push pushes what is committed. It returns when the push was over.
func (r *repository) push(ctx context.Context) (time.Time, error) {
	err := r.git(ctx, "push", "--quiet", "--force", "origin", "HEAD:refs/heads/main")
	return time.Now(), err
}

// hint tells gitfn of a push, as a forge does.
func (r *repository) hint(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	body, err := json.Marshal(map[string]string{"url": r.url, "ref": "refs/heads/main"})
	if err != nil {
		return err
	}
	mac := hmac.New(sha256.New, []byte(r.facts.HookSecret))
	mac.Write(body)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.facts.HookURL, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("X-Gitfn-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("send push hint: %w", err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusAccepted {
		return fmt.Errorf("send push hint: it was answered with %s, not 202", response.Status)
	}
	return nil
}
