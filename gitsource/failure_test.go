package gitsource_test

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/gitfn/gitfn/gitsource"
)

// packets frames lines as Git does; an empty one is a flush.
func packets(lines ...string) string {
	var framed strings.Builder
	for _, line := range lines {
		if line == "" {
			framed.WriteString("0000")
			continue
		}
		fmt.Fprintf(&framed, "%04x%s", len(line)+4, line)
	}
	return framed.String()
}

var secret = gitsource.Credentials{Username: "robot", Password: "hunter2-token"}

func TestAnswersThatAreNone(t *testing.T) {
	t.Parallel()
	status := func(code int) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	text := func(contentType, body string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			_, _ = w.Write([]byte(body))
		}
	}
	const advertisement = "application/x-git-upload-pack-advertisement"
	rows := []struct {
		name   string
		answer func(http.ResponseWriter, *http.Request)
		err    error
	}{
		{name: "401 is about credentials", answer: status(401), err: gitsource.ErrAuth},
		{name: "403 is about credentials", answer: status(403), err: gitsource.ErrAuth},
		{name: "404 is no repository", answer: status(404), err: gitsource.ErrRepositoryNotFound},
		{name: "429 is for later", answer: status(429), err: gitsource.ErrUnavailable},
		{name: "500 is for later", answer: status(500), err: gitsource.ErrUnavailable},
		{name: "503 is for later", answer: status(503), err: gitsource.ErrUnavailable},
		{name: "400 is not understood", answer: status(400), err: gitsource.ErrUnsupported},
		{name: "a page is no repository", answer: text("text/html", "<html>Sign in</html>"), err: gitsource.ErrUnsupported},
		{name: "an empty advertisement broke off", answer: text(advertisement, ""), err: gitsource.ErrUnavailable},
		{name: "half an advertisement broke off", answer: text(advertisement, "000eversion 2\n0013agent=git"), err: gitsource.ErrUnavailable},
		{name: "an advertisement without packets is not understood", answer: text(advertisement, "hello world"), err: gitsource.ErrUnsupported},
		{name: "a repository of sha256 is not supported", answer: text(advertisement, packets("version 2\n", "object-format=sha256\n", "")), err: gitsource.ErrUnsupported},
		{name: "what the server says is repeated without credentials", answer: text(advertisement, packets("ERR "+strings.Repeat("no ", 160)+"robot hunter2-token")), err: gitsource.ErrUnavailable},
		{name: "a redirect to a file is refused", answer: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "file:///etc/passwd")
			w.WriteHeader(302)
		}, err: gitsource.ErrInvalidURL},
		{name: "a redirect to user information is refused", answer: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "http://u:hunter3@127.0.0.1/")
			w.WriteHeader(302)
		}, err: gitsource.ErrInvalidURL},
		{name: "a redirect without end is left", answer: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.String(), http.StatusFound)
		}, err: gitsource.ErrUnsupported},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			s := httptest.NewServer(http.HandlerFunc(row.answer))
			t.Cleanup(s.Close)
			_, err := newClient(t).Resolve(t.Context(), gitsource.Repository{URL: s.URL + "/fn.git", Credentials: secret}, gitsource.Selection{Reference: "main", BaseDir: ""}, 0)
			g.Expect(err).To(MatchError(row.err))
			g.Expect(err.Error()).To(ContainSubstring(s.URL + "/fn.git"))
			g.Expect(fmt.Sprintf("%v %+v %#v", err, err, err.Error())).NotTo(Or(ContainSubstring("hunter"), ContainSubstring("failed to")))
			g.Expect(strings.Count(err.Error(), "ask http")).To(Equal(1))
		})
	}
}

func TestNobodyIsAtTheAddress(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	_, err := newClient(t).Resolve(t.Context(), gitsource.Repository{URL: s.URL + "/fn.git"}, gitsource.Selection{Reference: "main", BaseDir: ""}, 0)
	g.Expect(err).To(MatchError(gitsource.ErrUnavailable))
}

func TestASlowServerIsLeft(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	left := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-left }))
	t.Cleanup(s.Close)
	defer close(left)
	c := newClient(t, func(o *gitsource.Options) { o.Timeout = 20 * time.Millisecond })
	_, err := c.Resolve(t.Context(), gitsource.Repository{URL: s.URL + "/fn.git"}, gitsource.Selection{Reference: "main", BaseDir: ""}, 0)
	g.Expect(err).To(MatchError(gitsource.ErrUnavailable))
	g.Expect(err).To(MatchError(ContainSubstring("no answer in time")))
}

func TestAddressesAreRefused(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r, _ := monorepo(t, 1)
	s := newGitServer(t, r, nil)
	c := newClient(t, func(o *gitsource.Options) { o.Allow = nil })
	for _, url := range []string{s.URL, strings.Replace(s.URL, "127.0.0.1", "localhost", 1), "http://169.254.169.254", "http://[::ffff:127.0.0.1]:80", "http://0.0.0.0"} {
		_, err := c.Resolve(t.Context(), gitsource.Repository{URL: url + "/fn.git"}, gitsource.Selection{Reference: "main", BaseDir: ""}, 0)
		g.Expect(err).To(MatchError(gitsource.ErrAddressRefused), url)
	}
	g.Expect(s.all()).To(BeEmpty())

	elsewhere := newGitServer(t, r, func(w http.ResponseWriter, r *http.Request) bool {
		http.Redirect(w, r, "http://169.254.169.254/latest/meta-data", http.StatusFound)
		return true
	})
	_, err := newClient(t).Resolve(t.Context(), elsewhere.repo(), gitsource.Selection{Reference: "main", BaseDir: ""}, 0)
	g.Expect(err).To(MatchError(gitsource.ErrAddressRefused), "behind a redirect too")
}

func TestRedirectsDoNotCarryCredentials(t *testing.T) {
	t.Parallel()
	for _, code := range []int{301, 302, 307, 308} {
		t.Run(fmt.Sprint("status ", code), func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			r, commit := monorepo(t, 1)
			target := newGitServer(t, r, nil)
			from := newGitServer(t, r, func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.HasPrefix(r.URL.Path, "/old/") {
					http.Redirect(w, r, "/old"+r.URL.RequestURI(), code) // the same origin keeps them
					return true
				}
				http.Redirect(w, r, target.URL+strings.TrimPrefix(r.URL.RequestURI(), "/old"), code)
				return true
			})
			repo := from.repo()
			repo.Credentials = secret
			c := newClient(t)
			got, err := c.Resolve(t.Context(), repo, gitsource.Selection{Reference: "main", BaseDir: "f0"}, 0)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got.Commit).To(Equal(commit))
			g.Expect(from.all()).To(HaveLen(2), "only the first request is redirected")
			for _, request := range from.all() {
				g.Expect(request.authorization).To(HavePrefix("Basic "))
			}
			g.Expect(target.all()).To(HaveLen(3))
			for _, request := range target.all() {
				g.Expect(request.authorization).To(BeEmpty())
			}
		})
	}
}

// TestABrokenPackHeals cuts a pack off at every stage, and then lets it through.
func TestABrokenPackHeals(t *testing.T) {
	t.Parallel()
	for _, length := range []int{0, 10, 60, 150, 300} {
		t.Run(fmt.Sprint("cut after ", length, " bytes"), func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			r, commit := monorepo(t, 20)
			var cut atomic.Bool
			cut.Store(true)
			var s *gitServer
			s = newGitServer(t, r, func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.HasSuffix(r.URL.Path, "git-upload-pack") || !cut.Load() {
					return false
				}
				body := new(bytes.Buffer)
				_, _ = body.ReadFrom(r.Body)
				r.Body = readCloser{body}
				if !bytes.Contains(body.Bytes(), []byte("command=fetch")) {
					return false
				}
				whole := httptest.NewRecorder()
				s.backend.ServeHTTP(whole, r)
				w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
				_, _ = w.Write(whole.Body.Bytes()[:length])
				return true
			})
			cache, now := t.TempDir(), newClock()
			c := newClient(t, withClock(now), func(o *gitsource.Options) { o.CacheDir = cache })
			_, err := c.Resolve(t.Context(), s.repo(), gitsource.Selection{Reference: "main", BaseDir: "f7"}, time.Hour)
			g.Expect(err).To(MatchError(gitsource.ErrUnavailable))
			g.Expect(filesIn(g, cache)).To(BeEmpty(), "nothing half is left")

			cut.Store(false)
			now.move(30 * time.Second) // it is left alone for a while
			got, err := c.Resolve(t.Context(), s.repo(), gitsource.Selection{Reference: "main", BaseDir: "f7"}, time.Hour)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got.Commit).To(Equal(commit))
		})
	}
}

func filesIn(g *WithT, dir string) (files []string) {
	g.Expect(filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			files = append(files, path)
		}
		return err
	})).To(Succeed())
	return files
}

func TestABrokenMirrorIsMadeAnew(t *testing.T) {
	t.Parallel()
	breaks := map[string]func(path string) error{
		"removed":     os.Remove,
		"emptied":     func(path string) error { return os.Truncate(path, 0) },
		"cut in half": func(path string) error { return os.Truncate(path, 64) },
		"overwritten": func(path string) error { return os.WriteFile(path, bytes.Repeat([]byte("x"), 4096), 0o600) },
	}
	for name, damage := range breaks {
		for _, kind := range []string{".pack", ".idx"} {
			t.Run(kind+" "+name, func(t *testing.T) {
				t.Parallel()
				g := NewWithT(t)
				r, commit := monorepo(t, 20)
				s := newGitServer(t, r, nil)
				cache := t.TempDir()
				c := newClient(t, func(o *gitsource.Options) { o.CacheDir = cache })
				_, err := c.Resolve(t.Context(), s.repo(), gitsource.Selection{Reference: "main", BaseDir: "f1"}, time.Hour)
				g.Expect(err).NotTo(HaveOccurred())
				for _, path := range filesIn(g, cache) {
					if filepath.Ext(path) == kind {
						g.Expect(os.Chmod(path, 0o600)).To(Succeed())
						g.Expect(damage(path)).To(Succeed())
					}
				}
				tree, err := c.Fetch(t.Context(), s.repo(), commit, gitsource.Selection{BaseDir: "f2"})
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(content(t, tree, "handler.js")).To(Equal("function 2"))
				g.Expect(tree.Close()).To(Succeed())
			})
		}
	}
}

func TestWhatAnotherProcessLeftIsRemoved(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	cache := t.TempDir()
	left := filepath.Join(cache, "mirrors", "of-a-process-that-crashed", "incoming-1")
	g.Expect(os.MkdirAll(filepath.Dir(left), 0o700)).To(Succeed())
	g.Expect(os.WriteFile(left, []byte("PACK"), 0o600)).To(Succeed())
	newClient(t, func(o *gitsource.Options) { o.CacheDir = cache })
	g.Expect(filesIn(g, cache)).To(BeEmpty())
}

func TestTheQuotaIsKept(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	cache := t.TempDir()
	c := newClient(t, func(o *gitsource.Options) { o.CacheDir, o.CacheBytes = cache, 20<<10 })
	mirrors := func() int {
		entries, err := os.ReadDir(filepath.Join(cache, "mirrors"))
		g.Expect(err).NotTo(HaveOccurred())
		return len(entries)
	}
	r, commit := monorepo(t, 3)
	s := newGitServer(t, r, nil)
	pinned, err := c.Fetch(t.Context(), s.repo(), commit, gitsource.Selection{BaseDir: "f0"})
	g.Expect(err).NotTo(HaveOccurred())
	for range 4 {
		other, _ := monorepo(t, 3)
		_, err := c.Resolve(t.Context(), newGitServer(t, other, nil).repo(), gitsource.Selection{Reference: "main", BaseDir: "f0"}, 0)
		g.Expect(err).NotTo(HaveOccurred())
	}
	g.Expect(mirrors()).To(BeNumerically("<=", 2))
	g.Expect(content(t, pinned, "handler.js")).To(Equal("function 0"), "a tree in use stays")
	g.Expect(pinned.Close()).To(Succeed())
	g.Expect(pinned.Close()).To(Succeed())
	_, err = pinned.Open("handler.js")
	g.Expect(err).To(MatchError(os.ErrNotExist))
}

func TestAnotherCommitCostsOnlyWhatChanged(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r := newRepository(t)
	files := map[string]string{}
	for i := range 100 {
		files[fmt.Sprintf("team%d/f%d/handler.js", i%10, i)] = fmt.Sprint("function ", i)
	}
	parent := r.commit("main", r.files(files), "first")
	s := newGitServer(t, r, nil)
	c := newClient(t)
	_, err := c.Resolve(t.Context(), s.repo(), gitsource.Selection{Reference: "main", BaseDir: "team3/f3"}, 0)
	g.Expect(err).NotTo(HaveOccurred())
	whole := s.bytes()
	for i := range 3 {
		files["team3/f3/handler.js"] = fmt.Sprint("changed ", i)
		parent = r.commit("main", r.files(files), "next", parent)
		s.restart()
		got, err := c.Resolve(t.Context(), s.repo(), gitsource.Selection{Reference: "main", BaseDir: "team3/f3"}, 0)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(got.Tree).To(Equal(r.run("", "rev-parse", parent+":team3/f3")))
		t.Logf("first %d bytes, then %d", whole, s.bytes())
		g.Expect(s.bytes()).To(BeNumerically("<", whole/5))
		tree, err := c.Fetch(t.Context(), s.repo(), parent, gitsource.Selection{BaseDir: "team5"})
		g.Expect(err).NotTo(HaveOccurred(), "what did not change is there as well")
		g.Expect(tree.Files).To(HaveLen(10))
		g.Expect(tree.Close()).To(Succeed())
	}
}

func TestATagThatLeadsToNoCommitIsNotFound(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r, commit := monorepo(t, 1)
	r.run("", "update-ref", "refs/tags/tree", r.run("", "rev-parse", commit+"^{tree}"))
	_, err := newClient(t).Resolve(t.Context(), newGitServer(t, r, nil).repo(), gitsource.Selection{Reference: "tree", BaseDir: ""}, 0)
	g.Expect(err).To(MatchError(gitsource.ErrRefNotFound))
}

func TestCertificatesAreChecked(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r, commit := monorepo(t, 1)
	plain := newGitServer(t, r, nil)
	secure := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/down/") {
			http.Redirect(w, r, plain.URL+"/fn.git/info/refs?service=git-upload-pack", http.StatusFound)
			return
		}
		plain.serve(w, r)
	}))
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})
	repo := gitsource.Repository{URL: secure.URL + "/fn.git"}

	_, err := newClient(t).Resolve(t.Context(), repo, gitsource.Selection{Reference: "main", BaseDir: ""}, 0)
	g.Expect(err).To(MatchError(gitsource.ErrUnavailable))
	g.Expect(err).To(MatchError(ContainSubstring("certificate")))

	got, err := newClient(t, func(o *gitsource.Options) { o.RootCAs = ca }).Resolve(t.Context(), repo, gitsource.Selection{Reference: "main", BaseDir: ""}, 0)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got.Commit).To(Equal(commit))

	c := newClient(t)
	repo.Credentials.CABundle = ca
	_, err = c.Resolve(t.Context(), repo, gitsource.Selection{Reference: "main", BaseDir: ""}, 0)
	g.Expect(err).NotTo(HaveOccurred())

	repo.URL = secure.URL + "/down/fn.git"
	_, err = c.Resolve(t.Context(), repo, gitsource.Selection{Reference: "main", BaseDir: ""}, 0)
	g.Expect(err).To(MatchError(gitsource.ErrInvalidURL), "never from https to http")
	repo.Credentials.CABundle = []byte("no certificate")
	_, err = c.Resolve(t.Context(), repo, gitsource.Selection{Reference: "main", BaseDir: ""}, 0)
	g.Expect(err).To(MatchError(gitsource.ErrAuth))
}

func TestAMirrorOfManyPacksIsMadeAnewUnderItsReaders(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r, commit := monorepo(t, 40)
	s := newGitServer(t, r, nil)
	cache := t.TempDir()
	c := newClient(t, func(o *gitsource.Options) { o.CacheDir = cache })
	var trees []*gitsource.Tree
	for i := range 40 {
		tree, err := c.Fetch(t.Context(), s.repo(), commit, gitsource.Selection{BaseDir: fmt.Sprint("f", i)})
		g.Expect(err).NotTo(HaveOccurred())
		trees = append(trees, tree)
	}
	g.Expect(s.count("filter blob:none")).To(Equal(2), "commits")
	for i, tree := range trees {
		g.Expect(content(t, tree, "handler.js")).To(Equal(fmt.Sprint("function ", i)))
		g.Expect(tree.Close()).To(Succeed())
	}
	mirrors, err := os.ReadDir(filepath.Join(cache, "mirrors"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(mirrors).To(HaveLen(1), "the old one went with its last reader")
}
