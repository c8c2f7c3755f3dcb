package gitsource_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/gitfn/gitfn/gitsource"
)

// brokenServer answers with a status while it is not 0, and counts what it is asked.
func brokenServer(t *testing.T, r *repository) (s *gitServer, status *atomic.Int32) {
	status = &atomic.Int32{}
	return newGitServer(t, r, func(w http.ResponseWriter, _ *http.Request) bool {
		code := int(status.Load())
		if code != 0 {
			w.WriteHeader(code)
		}
		return code != 0
	}), status
}

func TestARepositoryThatFailsIsLeftAlone(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name   string
		status int32
		want   error
	}{
		{"the server is down", 503, gitsource.ErrUnavailable},
		{"the credentials are refused", 403, gitsource.ErrAuth},
		{"there is no such repository", 404, gitsource.ErrRepositoryNotFound},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			r, _ := monorepo(t, 2)
			s, status := brokenServer(t, r)
			now := newClock()
			c := newClient(t, withClock(now))
			look := func(baseDir string) error {
				_, err := c.Resolve(t.Context(), s.repo(), gitsource.Selection{Reference: "main", BaseDir: baseDir}, 54*time.Second)
				return err
			}
			status.Store(row.status)
			first := look("f0")
			g.Expect(first).To(MatchError(row.want))

			// 1,000 callers look each second for two hours; these are the seconds in which the server was asked.
			var asked []int
			begin := now.Now()
			for before := len(s.all()); now.Now().Sub(begin) < 2*time.Hour; now.move(time.Second) {
				err := look(fmt.Sprint("f", len(asked)%2))
				g.Expect(err).To(MatchError(row.want))
				g.Expect(err.Error()).To(Equal(first.Error()), "the sentence stays the same: nothing is to be written")
				if n := len(s.all()); n != before {
					asked, before = append(asked, int(now.Now().Sub(begin).Seconds())), n
				}
			}
			g.Expect(asked).To(Equal([]int{30, 90, 210, 450, 930, 1830, 2730, 3630, 4530, 5430, 6330}))

			// Who knows of a change asks at once, and all of them once in three seconds.
			before := len(s.all())
			for range 10 {
				c.Forget(s.URL + "/fn.git")
				g.Expect(look("f0")).To(MatchError(row.want))
			}
			g.Expect(s.all()).To(HaveLen(before + 1))
			now.move(4 * time.Second)
			c.Forget(s.URL + "/fn.git")
			g.Expect(look("f0")).To(MatchError(row.want))
			g.Expect(s.all()).To(HaveLen(before + 2))

			status.Store(0)
			now.move(time.Second)
			g.Expect(look("f0")).To(MatchError(row.want), "a failure stands")
			now.move(15 * time.Minute)
			g.Expect(look("f0")).To(Succeed())
			g.Expect(look("f1")).To(Succeed())
			status.Store(row.status)
			now.move(time.Minute)
			g.Expect(look("f0")).To(MatchError(row.want))
			status.Store(0)
			now.move(30 * time.Second)
			g.Expect(look("f0")).To(Succeed(), "the next failure is the first one again")
		})
	}
}

// TestNewsAreTold wants that who finds that something moved, or that a server answers again, tells the others.
func TestNewsAreTold(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r, first := monorepo(t, 1)
	s, status := brokenServer(t, r)
	now := newClock()
	var mu sync.Mutex
	var told []string
	news := func() []string {
		mu.Lock()
		defer mu.Unlock()
		got := told
		told = nil
		return got
	}
	c := newClient(t, withClock(now), func(o *gitsource.Options) {
		o.Changed = func(url, reference string) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, url+" "+reference)
		}
	})
	url, err := gitsource.NormalizeURL(s.URL + "/fn.git")
	g.Expect(err).NotTo(HaveOccurred())
	look := func() error {
		_, err := c.Resolve(t.Context(), s.repo(), gitsource.Selection{Reference: "main", BaseDir: "f0"}, time.Minute)
		return err
	}
	g.Expect(look()).To(Succeed())
	now.move(time.Minute)
	g.Expect(look()).To(Succeed())
	second := r.commit("main", r.files(map[string]string{"f0/handler.js": "two"}), "two", first)
	now.move(time.Minute)
	g.Expect(look()).To(Succeed())
	g.Expect(look()).To(Succeed())
	g.Eventually(news).Should(Equal([]string{url + " main"}), "once, for all who follow it")

	status.Store(503)
	now.move(time.Minute)
	g.Expect(look()).NotTo(Succeed())
	now.move(30 * time.Second)
	g.Expect(look()).NotTo(Succeed())
	status.Store(0)
	now.move(time.Minute)
	g.Expect(look()).To(Succeed())
	g.Eventually(news).Should(Equal([]string{url + " "}), "it answers again")

	r.commit("main", r.files(map[string]string{"f0/handler.js": "three"}), "three", second)
	c.Forget(url)
	g.Expect(look()).To(Succeed())
	g.Consistently(news, "50ms").Should(BeEmpty(), "who sent the hint has told whom it concerns")
}

func TestACommitThatCannotBeHadIsLeftAlone(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, reference string
		options         func(*gitsource.Options)
		want            error
	}{
		{"it is too large", "main", func(o *gitsource.Options) { o.Limits.PackBytes = 10 }, gitsource.ErrTooLarge},
		{"it is not there", strings.Repeat("7", 40), func(*gitsource.Options) {}, gitsource.ErrRefNotFound},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			r, _ := monorepo(t, 2)
			s := newGitServer(t, r, nil)
			now := newClock()
			c := newClient(t, withClock(now), row.options)
			look := func(maxAge time.Duration) {
				t.Helper()
				for i := range 4 {
					_, err := c.Resolve(t.Context(), s.repo(), gitsource.Selection{Reference: row.reference, BaseDir: fmt.Sprint("f", i%2)}, maxAge)
					g.Expect(err).To(MatchError(row.want))
				}
			}
			for i, wait := range []time.Duration{30, 60, 120} {
				look(time.Hour)
				g.Expect(s.count("want ")).To(Equal(i+1), "one request for all")
				now.move(wait*time.Second - time.Millisecond)
				look(time.Hour)
				g.Expect(s.count("want ")).To(Equal(i + 1))
				now.move(time.Millisecond)
			}
			look(time.Hour)
			now.move(4 * time.Second)
			look(time.Second)
			g.Expect(s.count("want ")).To(Equal(5), "who knows of a change asks at once")
		})
	}
}
