package gitsource_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"

	"github.com/gitfn/gitfn/gitsource"
)

// clock is time that a test moves.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Unix(1_800_000_000, 0)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func withClock(c *clock) func(*gitsource.Options) {
	return func(o *gitsource.Options) { o.Now = c.Now }
}

// monorepo is a repository with functions f0…, each in a directory of its own.
func monorepo(t testing.TB, functions int) (r *repository, commit string) {
	r = newRepository(t)
	files := map[string]string{}
	for i := range functions {
		files[fmt.Sprintf("f%d/handler.js", i)] = fmt.Sprint("function ", i)
	}
	return r, r.commit("main", r.files(files), "first")
}

func TestManyCallersAreOneRequest(t *testing.T) {
	t.Parallel()
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			r, commit := monorepo(t, 50)
			for key, value := range way.config {
				r.config(key, value)
			}
			s := newGitServer(t, r, way.before)
			c := newClient(t)
			group, ctx := errgroup.WithContext(t.Context())
			for i := range 50 {
				group.Go(func() error {
					got, err := c.Resolve(ctx, s.repo(), gitsource.Selection{Reference: "main", BaseDir: fmt.Sprintf("f%d", i)}, time.Minute)
					if err == nil && got.Commit != commit {
						err = fmt.Errorf("resolved to %s", got)
					}
					return err
				})
			}
			g.Expect(group.Wait()).To(Succeed())
			g.Expect(s.count("/info/refs")).To(Equal(1), "advertisements")
			g.Expect(s.count("ls-refs")).To(BeNumerically("<=", 1), "refs requests of v2")
			g.Expect(s.count("want ")).To(Equal(1), "packs")
		})
	}
}

func TestAnswersAreSharedForMaxAge(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r, first := monorepo(t, 2)
	second := r.commit("other", r.files(map[string]string{"f0/handler.js": "changed"}), "second", first)
	s := newGitServer(t, r, nil)
	now := newClock()
	c := newClient(t, withClock(now))
	resolve := func(reference string, maxAge time.Duration) string {
		t.Helper()
		got, err := c.Resolve(t.Context(), s.repo(), gitsource.Selection{Reference: reference, BaseDir: "f0"}, maxAge)
		g.Expect(err).NotTo(HaveOccurred())
		return got.Commit
	}
	g.Expect(resolve("main", time.Minute)).To(Equal(first))
	g.Expect(resolve("main", time.Minute)).To(Equal(first))
	g.Expect(s.count("ls-refs")).To(Equal(1), "an answer younger than maxAge is used again")

	g.Expect(resolve("other", time.Minute)).To(Equal(second))
	g.Expect(s.count("ls-refs")).To(Equal(2), "a name that was not asked for is asked for")
	g.Expect(s.all()[len(s.all())-2].body).To(And(ContainSubstring("refs/heads/main"), ContainSubstring("refs/heads/other")), "together with the other")
	g.Expect(resolve("main", time.Minute)).To(Equal(first))
	g.Expect(s.count("ls-refs")).To(Equal(2), "both names are answered by one request")

	r.run("", "update-ref", "refs/heads/main", second)
	g.Expect(resolve("main", time.Minute)).To(Equal(first), "nobody said that it moved")
	c.Forget(strings.ToUpper(s.URL[:4]) + s.URL[4:] + "/fn/")
	g.Expect(resolve("main", time.Minute)).To(Equal(second), "a hint in another form of the URL")
	g.Expect(s.count("ls-refs")).To(Equal(3))

	r.run("", "update-ref", "refs/heads/main", first)
	now.move(time.Minute)
	g.Expect(resolve("main", time.Minute)).To(Equal(first), "the answer is too old")
	g.Expect(s.count("ls-refs")).To(Equal(4))
	g.Expect(s.count("want ")).To(Equal(2), "known commits cost nothing")
	g.Expect(s.count("/info/refs")).To(Equal(1), "what the server can do is asked once")

	now.move(time.Hour)
	g.Expect(resolve("main", time.Minute)).To(Equal(first))
	g.Expect(s.count("/info/refs")).To(Equal(2), "and again after an hour: a redirect may lead elsewhere")
}

func TestAnswersAreNotSharedBetweenCredentials(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r, _ := monorepo(t, 1)
	s := newGitServer(t, r, basicAuth("robot", "pass"))
	c := newClient(t)
	repo := s.repo()
	repo.Credentials = gitsource.Credentials{Username: "robot", Password: "pass"}
	_, err := c.Resolve(t.Context(), repo, gitsource.Selection{Reference: "main", BaseDir: "f0"}, time.Hour)
	g.Expect(err).NotTo(HaveOccurred())
	for _, credentials := range []gitsource.Credentials{{}, {Username: "robot", Password: "guess"}} {
		repo.Credentials = credentials
		_, err = c.Resolve(t.Context(), repo, gitsource.Selection{Reference: "main", BaseDir: "f0"}, time.Hour)
		g.Expect(err).To(MatchError(gitsource.ErrAuth))
		g.Expect(err.Error()).NotTo(ContainSubstring("guess"))
	}
}

// basicAuth lets one user in.
func basicAuth(username, password string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		u, p, _ := r.BasicAuth()
		if u == username && p == password {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	}
}

func TestRetryAfterIsKept(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r, _ := monorepo(t, 1)
	var busy atomic.Bool
	s := newGitServer(t, r, func(w http.ResponseWriter, r *http.Request) bool {
		if busy.Load() {
			w.Header().Set("Retry-After", "90")
			w.WriteHeader(http.StatusTooManyRequests)
		}
		return busy.Load()
	})
	now := newClock()
	c := newClient(t, withClock(now))
	resolve := func() error {
		_, err := c.Resolve(t.Context(), s.repo(), gitsource.Selection{Reference: "main", BaseDir: ""}, 0)
		return err
	}
	busy.Store(true)
	var unavailable *gitsource.UnavailableError
	err := resolve()
	g.Expect(err).To(MatchError(gitsource.ErrUnavailable))
	g.Expect(err).To(BeAssignableToTypeOf(unavailable))
	g.Expect(err.(*gitsource.UnavailableError).RetryAfter).To(Equal(90 * time.Second))

	busy.Store(false)
	now.move(30 * time.Second)
	c.Forget(s.URL + "/fn.git")
	err = resolve()
	g.Expect(err).To(MatchError(gitsource.ErrUnavailable), "a hint does not change the server's mind")
	g.Expect(err.(*gitsource.UnavailableError).RetryAfter).To(Equal(60 * time.Second))
	g.Expect(s.all()).To(HaveLen(1))

	now.move(time.Minute)
	g.Expect(resolve()).To(Succeed())
}

func TestAHostIsNotAskedTooFast(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r, _ := monorepo(t, 1)
	s := newGitServer(t, r, nil)
	now := newClock()
	c := newClient(t, withClock(now), func(o *gitsource.Options) { o.HostInterval = 10 * time.Minute })
	_, err := c.Resolve(t.Context(), s.repo(), gitsource.Selection{Reference: "main", BaseDir: ""}, 0)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = c.Resolve(t.Context(), s.repo(), gitsource.Selection{Reference: "main", BaseDir: ""}, 0)
	g.Expect(err).To(MatchError(gitsource.ErrUnavailable))
	g.Expect(err.(*gitsource.UnavailableError).RetryAfter).To(Equal(10 * time.Minute))
	now.move(10 * time.Minute)
	_, err = c.Resolve(t.Context(), s.repo(), gitsource.Selection{Reference: "main", BaseDir: ""}, 0)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.count("ls-refs")).To(Equal(2))
}

func TestACallerWhoLeavesTakesNobodyAlong(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r, commit := monorepo(t, 1)
	asked, answer := make(chan struct{}), make(chan struct{})
	s := newGitServer(t, r, func(http.ResponseWriter, *http.Request) bool {
		select {
		case asked <- struct{}{}:
		case <-answer:
		}
		<-answer
		return false
	})
	c := newClient(t)
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error)
	go func() {
		_, err := c.Resolve(ctx, s.repo(), gitsource.Selection{Reference: "main", BaseDir: ""}, time.Hour)
		left <- err
	}()
	<-asked
	stayed := make(chan error)
	go func() {
		got, err := c.Resolve(t.Context(), s.repo(), gitsource.Selection{Reference: "main", BaseDir: ""}, time.Hour)
		if err == nil && got.Commit != commit {
			err = fmt.Errorf("resolved to %s", got)
		}
		stayed <- err
	}()
	cancel()
	g.Expect(<-left).To(MatchError(context.Canceled))
	close(answer)
	g.Expect(<-stayed).NotTo(HaveOccurred())
	g.Expect(s.count("ls-refs")).To(Equal(1))
}

func TestTenThousandRefsAreASmallAnswer(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r, commit := monorepo(t, 1)
	packed := strings.Builder{}
	fmt.Fprintf(&packed, "# pack-refs with: peeled fully-peeled sorted \n%s refs/heads/main\n", commit)
	for i := range 10_000 {
		fmt.Fprintf(&packed, "%s refs/tags/release-%05d\n", commit, i)
	}
	g.Expect(os.WriteFile(filepath.Join(r.dir, "packed-refs"), []byte(packed.String()), 0o600)).To(Succeed())
	figures := map[string]int64{}
	for _, way := range []string{"v2", "v0"} {
		before := map[string]func(http.ResponseWriter, *http.Request) bool{"v0": withoutV2}[way]
		s := newGitServer(t, r, before)
		c := newClient(t)
		_, err := c.Resolve(t.Context(), s.repo(), gitsource.Selection{Reference: commit, BaseDir: "f0"}, 0)
		g.Expect(err).NotTo(HaveOccurred())
		s.restart()
		begin := time.Now()
		got, err := c.Resolve(t.Context(), s.repo(), gitsource.Selection{Reference: "main", BaseDir: "f0"}, 0)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(got.Commit).To(Equal(commit))
		figures[way] = s.bytes()
		t.Logf("%s: %d bytes, %s", way, s.bytes(), time.Since(begin))
	}
	g.Expect(figures["v2"]).To(BeNumerically("<", 200))
	g.Expect(figures["v0"]).To(BeNumerically(">", 500_000))

	s := newGitServer(t, r, withoutV2)
	c := newClient(t, func(o *gitsource.Options) { o.Limits.Refs = 1000 })
	_, err := c.Resolve(t.Context(), s.repo(), gitsource.Selection{Reference: "main", BaseDir: ""}, 0)
	g.Expect(err).To(MatchError(gitsource.ErrTooLarge))
}
