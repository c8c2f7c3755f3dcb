package gitsource_test

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/gitfn/gitfn/gitsource"
)

// answerOf is what the Git server behind answers, before it is sent.
func (s *gitServer) answerOf(r *http.Request) *httptest.ResponseRecorder {
	answer := httptest.NewRecorder()
	s.backend.ServeHTTP(answer, r)
	return answer
}

func send(w http.ResponseWriter, answer *httptest.ResponseRecorder, body []byte) {
	for name, values := range answer.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.Code)
	_, _ = w.Write(body)
}

// TestHowAnswersAreSent lets git answer, and changes how that is sent.
func TestHowAnswersAreSent(t *testing.T) {
	t.Parallel()
	var progress, packed, chunked atomic.Int32
	rows := []struct {
		name string
		// change sends an answer in its own way.
		change func(s *gitServer, w http.ResponseWriter, r *http.Request)
		seen   *atomic.Int32
	}{
		{name: "compressed", seen: &packed, change: func(s *gitServer, w http.ResponseWriter, r *http.Request) {
			if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
				w.WriteHeader(http.StatusNotAcceptable)
				return
			}
			var body bytes.Buffer
			zipped := gzip.NewWriter(&body)
			answer := s.answerOf(r)
			_, _ = zipped.Write(answer.Body.Bytes())
			_ = zipped.Close()
			w.Header().Set("Content-Encoding", "gzip")
			packed.Add(1)
			send(w, answer, body.Bytes())
		}},
		{name: "in many small chunks", seen: &chunked, change: func(s *gitServer, w http.ResponseWriter, r *http.Request) {
			answer := s.answerOf(r)
			w.Header().Set("Content-Type", answer.Header().Get("Content-Type"))
			w.WriteHeader(answer.Code)
			for part := range slices.Chunk(answer.Body.Bytes(), 3) { // the head of a packet has four bytes
				_, _ = w.Write(part)
				w.(http.Flusher).Flush()
				chunked.Add(1)
			}
		}},
		{name: "with progress between the packs", seen: &progress, change: func(s *gitServer, w http.ResponseWriter, r *http.Request) {
			var request bytes.Buffer
			_, _ = request.ReadFrom(r.Body)
			unasked := bytes.ReplaceAll(request.Bytes(), []byte("0010no-progress\n"), nil) // of protocol v2
			if r.Body = http.NoBody; r.Method == http.MethodPost {
				r.Body, r.ContentLength = readCloser{bytes.NewBuffer(unasked)}, int64(len(unasked))
			}
			answer := s.answerOf(r)
			if bytes.Contains(answer.Body.Bytes(), []byte("\x02Enumerating objects")) {
				progress.Add(1)
			}
			// Of v0: what the server does not offer is not asked for.
			send(w, answer, bytes.ReplaceAll(answer.Body.Bytes(), []byte(" no-progress "), []byte(" xx-progress ")))
		}},
	}
	for _, row := range rows {
		for _, way := range ways {
			t.Run(row.name+", "+way.name, func(t *testing.T) {
				t.Parallel()
				g := NewWithT(t)
				r, commit := monorepo(t, 20)
				for key, value := range way.config {
					r.config(key, value)
				}
				var s *gitServer
				s = newGitServer(t, r, func(w http.ResponseWriter, r *http.Request) bool {
					if way.before != nil {
						way.before(w, r)
					}
					if r.Method == http.MethodPost && (r.ContentLength <= 0 || len(r.TransferEncoding) > 0) {
						w.WriteHeader(http.StatusLengthRequired) // as servers do that take no chunks
						return true
					}
					row.change(s, w, r)
					return true
				})
				before := row.seen.Load()
				c := newClient(t)
				got, err := c.Resolve(t.Context(), s.repo(), gitsource.Selection{Reference: "main", BaseDir: "f3"}, 0)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(got.Commit).To(Equal(commit))
				tree, err := c.Fetch(t.Context(), s.repo(), commit, gitsource.Selection{BaseDir: "f3"})
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(content(t, tree, "handler.js")).To(Equal("function 3"))
				g.Expect(tree.Close()).To(Succeed())
				g.Expect(row.seen.Load()).To(BeNumerically(">", before), "the test must do what it says")
			})
		}
	}
}

// TestACompressedAnswerIsBoundedAsItIsRead lets an answer grow a thousand times.
func TestACompressedAnswerIsBoundedAsItIsRead(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r, _ := monorepo(t, 1)
	s := newGitServer(t, r, func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost {
			return false
		}
		w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
		w.Header().Set("Content-Encoding", "gzip")
		zipped := gzip.NewWriter(w)
		line := []byte(packets(strings.Repeat("1", 40) + " refs/heads/" + strings.Repeat("x", 60_000) + "\n"))
		for range 1_000 {
			if _, err := zipped.Write(line); err != nil {
				return true
			}
		}
		_ = zipped.Close()
		return true
	})
	_, err := newClient(t, func(o *gitsource.Options) { o.Limits.Refs = 500 }).Resolve(t.Context(), s.repo(), gitsource.Selection{Reference: "main"}, 0)
	g.Expect(err).To(MatchError(gitsource.ErrTooLarge))
}

func TestRetryAfterHasTwoForms(t *testing.T) {
	t.Parallel()
	now := newClock()
	at := func(d time.Duration) string { return now.Now().Add(d).UTC().Format(http.TimeFormat) }
	const backoff = 30 * time.Second // of the repository, where the server says nothing
	rows := []struct {
		name, header string
		want         time.Duration
	}{
		{"seconds", "90", 90 * time.Second},
		{"a date", at(2 * time.Minute), 2 * time.Minute},
		{"a date that has passed", at(-time.Minute), backoff},
		{"less than nothing", "-5", backoff},
		{"words", "soon", backoff},
		{"none", "", backoff},
		{"a year in seconds is an hour", "31536000", time.Hour},
		{"a date in a year is an hour", at(365 * 24 * time.Hour), time.Hour},
		{"more seconds than fit", "99999999999999999999", backoff},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", row.header)
				w.WriteHeader(http.StatusServiceUnavailable)
			}))
			t.Cleanup(s.Close)
			_, err := newClient(t, withClock(now)).Resolve(t.Context(), gitsource.Repository{URL: s.URL + "/fn.git"}, gitsource.Selection{Reference: "main"}, 0)
			g.Expect(err).To(MatchError(gitsource.ErrUnavailable))
			g.Expect(err.(*gitsource.UnavailableError).RetryAfter).To(Equal(row.want))
		})
	}
}

func TestRetryAfterHoldsAllRequestsBack(t *testing.T) {
	t.Parallel()
	for _, busy := range []string{"command=fetch", "command=ls-refs"} {
		t.Run("said to "+busy, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			r, commit := monorepo(t, 1)
			var say atomic.Value
			say.Store("")
			s := newGitServer(t, r, func(w http.ResponseWriter, r *http.Request) bool {
				body := new(bytes.Buffer)
				_, _ = body.ReadFrom(r.Body)
				r.Body = readCloser{body}
				if word := say.Load().(string); word == "" || !strings.Contains(body.String(), word) {
					return false
				}
				w.Header().Set("Retry-After", "90")
				w.WriteHeader(http.StatusTooManyRequests)
				return true
			})
			now := newClock()
			c := newClient(t, withClock(now))
			resolve := func(reference string) error {
				_, err := c.Resolve(t.Context(), s.repo(), gitsource.Selection{Reference: reference}, 0)
				return err
			}
			say.Store(busy)
			err := resolve("main")
			g.Expect(err).To(MatchError(gitsource.ErrUnavailable))
			g.Expect(err.(*gitsource.UnavailableError).RetryAfter).To(Equal(90 * time.Second))
			say.Store("")
			seen := len(s.all())

			now.move(30 * time.Second)
			for _, reference := range []string{"main", "main", commit} { // refs, refs, a pack
				err = resolve(reference)
				g.Expect(err).To(MatchError(gitsource.ErrUnavailable), reference)
				g.Expect(err.(*gitsource.UnavailableError).RetryAfter).To(Equal(60*time.Second), reference)
				g.Expect(err).To(MatchError(And(ContainSubstring("ask "+s.URL), ContainSubstring("left alone"))))
			}
			_, err = c.Fetch(t.Context(), s.repo(), commit, gitsource.Selection{})
			g.Expect(err).To(MatchError(gitsource.ErrUnavailable))
			g.Expect(s.all()).To(HaveLen(seen), "nothing was asked")

			now.move(time.Minute)
			g.Expect(resolve("main")).To(Succeed())
			g.Expect(len(s.all())).To(BeNumerically(">", seen))
		})
	}
}
