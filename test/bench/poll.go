package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	pollEvery   = 20 * time.Millisecond
	pollTimeout = time.Second
	// inFlight bounds the requests that wait for their answer, so that one that
	// hangs does not keep the next from being sent.
	inFlight = 8
)

// client opens a connection for every request: a kept one would stay with the
// Pod of the last version.
var pollClient = &http.Client{
	Transport: &http.Transport{DisableKeepAlives: true, MaxIdleConns: -1},
	Timeout:   pollTimeout,
}

// answer is when a URL first answered what was wanted, and what came before.
type answer struct {
	at time.Time
	// asked counts requests; failures, by why, those not answered with 200.
	asked    int
	failures map[string]int
}

// poll asks a URL until it answers what is wanted.
func poll(ctx context.Context, url, want string) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var (
		mu      sync.Mutex
		sum     = answer{failures: map[string]int{}}
		last    string
		waiting sync.WaitGroup
		slots   = make(chan struct{}, inFlight)
		tick    = time.NewTicker(pollEvery)
	)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case slots <- struct{}{}:
			waiting.Go(func() {
				defer func() { <-slots }()
				text, err := get(ctx, url)
				at := time.Now()
				mu.Lock()
				defer mu.Unlock()
				if ctx.Err() != nil {
					return // it was cut off
				}
				sum.asked++
				if err != nil {
					last = err.Error()
					sum.failures[why(err)]++
					return
				}
				if last = fmt.Sprintf("%q", text); text == want {
					sum.at = at
					cancel()
				}
			})
		default: // all are waiting
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	waiting.Wait()
	if sum.at.IsZero() {
		return sum, fmt.Errorf("wait for %s to answer %q: %w; the last answer was %s", url, want, ctx.Err(), last)
	}
	return sum, nil
}

// why is the end of an error's chain, without addresses: what many requests
// that failed have in common.
func why(err error) string {
	var timeout interface{ Timeout() bool }
	if errors.As(err, &timeout) && timeout.Timeout() {
		return fmt.Sprintf("no answer within %s", pollTimeout)
	}
	for next := err; next != nil; next = errors.Unwrap(err) {
		err = next
	}
	return err.Error()
}

func get(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := pollClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 4096))
	text := strings.TrimSpace(string(body))
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, text)
	}
	return text, err
}
