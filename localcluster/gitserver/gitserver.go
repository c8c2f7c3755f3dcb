// Package gitserver serves Git repositories over HTTP and SSH, and makes them on their first push.
//
// In go requests of Git clients, protocol version 2 included; what they push stays in one directory. Over HTTP,
// paths below /private/ want a user and a password, others nothing; over SSH, OpenSSH's sshd has looked at the
// client's key. It never deletes a repository and knows no TLS: it is for throw-away clusters only.
package gitserver

import (
	"context"
	"crypto/subtle"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/gitfn/gitfn/localcluster/binaries"
)

// Handler answers Git clients. All fields are required; it is safe for concurrent use.
type Handler struct {
	// Repositories is the directory of the bare repositories.
	Repositories string
	// Git is the path of the program git.
	Git string
	// User and Password open the paths below /private/.
	User, Password string
}

// request is what a Git client's URL says: a repository, and a service of it.
// Its name with and without the ending .git is the same.
type request struct {
	repository, service string
}

// A component of a repository's path: nothing hidden, nothing that looks like an option.
var pathRule = regexp.MustCompile(`^/([A-Za-z0-9_][A-Za-z0-9_.-]*(?:/[A-Za-z0-9_][A-Za-z0-9_.-]*)*?)/(info/refs|git-upload-pack|git-receive-pack|HEAD|objects/.+)$`)

func parse(path string) (request, bool) {
	m := pathRule.FindStringSubmatch(path)
	// A repository within a repository would be a way past the rules of the outer one.
	if m == nil || strings.Contains(path, "..") || strings.Contains(m[1], ".git/") {
		return request{}, false
	}
	return request{repository: strings.TrimSuffix(m[1], ".git") + ".git", service: m[2]}, true
}

// config is set for every git process, so that it holds for repositories that were copied in by hand too.
var config = [][2]string{
	{"safe.directory", "*"},
	{"http.receivepack", "true"},
	{"uploadpack.allowFilter", "true"},
	{"uploadpack.allowAnySHA1InWant", "true"},
	{"gc.auto", "0"},
	{"receive.autogc", "false"},
}

func environment() []string {
	env := []string{"GIT_CONFIG_COUNT=" + strconv.Itoa(len(config)), "GIT_CONFIG_NOSYSTEM=1", "HOME=/nonexistent"}
	for i, c := range config {
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, c[0]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, c[1]))
	}
	return env
}

// ServeHTTP answers one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/healthz" {
		fmt.Fprintln(w, "ok")
		return
	}
	req, ok := parse(r.URL.Path)
	if !ok {
		http.NotFound(w, r)
		return
	}
	if strings.HasPrefix(req.repository, "private/") && !h.authorized(r) {
		w.Header().Set("WWW-Authenticate", `Basic realm="gitfn"`)
		http.Error(w, "user or password missing or wrong", http.StatusUnauthorized)
		return
	}
	if r.URL.Query().Get("service") == "git-receive-pack" {
		if err := h.create(context.WithoutCancel(r.Context()), req.repository); err != nil {
			log.Printf("create %s: %v", req.repository, err)
			http.Error(w, "could not create the repository", http.StatusInternalServerError)
			return
		}
	}
	if r.ContentLength < 0 {
		remove, err := spool(r)
		if err != nil {
			http.Error(w, "could not read the request", http.StatusBadRequest)
			return
		}
		defer remove()
	}
	h.serve(w, r, req)
}

func (h *Handler) authorized(r *http.Request) bool {
	user, password, _ := r.BasicAuth()
	sameUser := subtle.ConstantTimeCompare([]byte(user), []byte(h.User))
	samePassword := subtle.ConstantTimeCompare([]byte(password), []byte(h.Password))
	return sameUser&samePassword == 1
}

// serve hands the request to `git http-backend`, which inflates gzip'ed bodies itself.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request, req request) {
	env := append(environment(),
		"GIT_PROJECT_ROOT="+h.Repositories, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER="+h.User)
	if v := r.Header.Get("Git-Protocol"); v != "" {
		env = append(env, "GIT_PROTOCOL="+v)
	}
	r.URL.Path = "/" + req.repository + "/" + req.service
	backend := &cgi.Handler{Path: h.Git, Args: []string{"http-backend"}, Env: env, Root: "/"}
	backend.ServeHTTP(w, r)
}

// path is where a repository is.
func (h *Handler) path(repository string) string { return filepath.Join(h.Repositories, repository) }

// create makes a bare repository unless it is there. The lock is a file, because each SSH session is a
// process of its own.
func (h *Handler) create(ctx context.Context, repository string) error {
	unlock, err := binaries.Lock(h.path(".lock"))
	if err != nil {
		return err
	}
	defer unlock()
	dir := h.path(repository)
	if _, err := os.Stat(filepath.Join(dir, "HEAD")); err == nil {
		return nil
	}
	cmd := exec.CommandContext(ctx, h.Git, "init", "--quiet", "--bare", "--initial-branch=main", dir)
	cmd.Env = append(os.Environ(), environment()...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// spool gives a chunked request, which large pushes are, a length: CGI knows no other kind.
func spool(r *http.Request) (remove func(), err error) {
	f, err := os.CreateTemp("", "gitfn-push-")
	if err != nil {
		return nil, err
	}
	remove = func() {
		f.Close()
		os.Remove(f.Name())
	}
	n, err := io.Copy(f, r.Body)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		remove()
		return nil, err
	}
	r.Body, r.ContentLength, r.TransferEncoding = f, n, nil
	return remove, nil
}
