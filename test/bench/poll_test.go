package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestPollTakesTheFirstRightAnswer(t *testing.T) {
	g := NewWithT(t)
	var asked atomic.Int32
	connections := map[string]bool{}
	seen := make(chan string, 64)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.RemoteAddr
		switch n := asked.Add(1); {
		case n == 1:
			http.Error(w, "new", http.StatusServiceUnavailable) // the right text with the wrong code
		case n < 4:
			fmt.Fprintln(w, "old")
		default:
			fmt.Fprintln(w, "new")
		}
	}))
	defer server.Close()
	before := time.Now()
	got, err := poll(t.Context(), server.URL, "new")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got.at).To(BeTemporally(">", before))
	g.Expect(got.failures).To(Equal(map[string]int{"503 Service Unavailable: new": 1}))
	g.Expect(got.asked).To(BeNumerically(">=", 4))
	server.Close()
	close(seen)
	for address := range seen {
		connections[address] = true
	}
	g.Expect(connections).To(HaveLen(int(asked.Load())), "every request has a connection of its own")
}

func TestPollIsNotHeldUpByARequestThatHangs(t *testing.T) {
	g := NewWithT(t)
	var asked atomic.Int32
	hang := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 1 {
			<-hang
		}
		fmt.Fprint(w, "new")
	}))
	defer server.Close()
	defer close(hang)
	_, err := poll(t.Context(), server.URL, "new")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(asked.Load()).To(BeNumerically(">=", 2))
}

func TestPollSaysWhatItGotInstead(t *testing.T) {
	g := NewWithT(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "old") }))
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := poll(ctx, server.URL, "new")
	g.Expect(err).To(MatchError(ContainSubstring(`to answer "new"`)))
	g.Expect(err).To(MatchError(ContainSubstring(`the last answer was "old"`)))
}

func TestPollTellsFailuresApart(t *testing.T) {
	g := NewWithT(t)
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) < 3 {
			panic(http.ErrAbortHandler) // cuts the connection
		}
		fmt.Fprint(w, "new")
	}))
	defer server.Close()
	got, err := poll(t.Context(), server.URL, "new")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got.failures).To(Equal(map[string]int{"EOF": 2}))

	server.Close()
	_, err = get(t.Context(), server.URL)
	g.Expect(why(err)).To(Equal("connection refused"))
}
