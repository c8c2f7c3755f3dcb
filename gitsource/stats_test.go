package gitsource_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/gitfn/gitfn/gitsource"
)

func TestStats(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r, first := monorepo(t, 2)
	var broken atomic.Bool
	s := newGitServer(t, r, func(w http.ResponseWriter, _ *http.Request) bool {
		if broken.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		return broken.Load()
	})
	now := newClock()
	c := newClient(t, withClock(now))
	look := func() error {
		_, err := c.Resolve(t.Context(), s.repo(), gitsource.Selection{Reference: "main"}, time.Minute)
		return err
	}
	commit := func(text string) {
		first = r.commit("main", r.files(map[string]string{"f0/handler.js": text}), text, first)
	}
	stats := func() gitsource.Stats {
		got := c.Stats()
		got.PackBytes = 0
		return got
	}
	g.Expect(look()).To(Succeed())
	g.Expect(look()).To(Succeed())
	g.Expect(stats()).To(Equal(gitsource.Stats{Refs: 1, Packs: 1}), "what is shared is not asked")
	g.Expect(c.Stats().PackBytes).To(BeNumerically(">", 100))

	commit("seen by a poll, and nobody ever hints")
	now.move(time.Minute)
	g.Expect(look()).To(Succeed())
	g.Expect(stats()).To(Equal(gitsource.Stats{Refs: 2, Packs: 2, MovedByPoll: 1}))

	commit("seen by a hint")
	c.Forget(s.URL + "/fn.git")
	g.Expect(look()).To(Succeed())
	g.Expect(look()).To(Succeed())
	g.Expect(stats()).To(Equal(gitsource.Stats{Refs: 3, Packs: 3, MovedByPoll: 1, MovedByHint: 1}))

	commit("seen by a poll, where hints were sent before")
	now.move(time.Hour)
	g.Expect(look()).To(Succeed())
	g.Expect(stats()).To(Equal(gitsource.Stats{Refs: 4, Packs: 4, MovedByPoll: 2, MovedByHint: 1, HintsMissed: 1}))

	broken.Store(true)
	now.move(time.Minute)
	g.Expect(look()).To(MatchError(gitsource.ErrUnavailable))
	g.Expect(c.Stats().RefsFailed).To(Equal(int64(1)))
}
