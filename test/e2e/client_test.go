package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// caller makes requests that no proxy sees. keepAlive says whether they share connections.
func caller(keepAlive bool) *http.Client {
	return &http.Client{
		Timeout: 15 * time.Second,
		Transport: &http.Transport{
			DisableKeepAlives: !keepAlive,
			DialContext:       (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		},
	}
}

var once = caller(false)

// get returns the body of a 200; anything else is an error.
func get(client *http.Client, url string) (string, error) {
	response, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return "", err
	}
	text := strings.TrimSpace(string(body))
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %.300s", response.Status, text)
	}
	return text, nil
}

// url is the address of a Function, which this machine reaches as Pods do.
func (s *space) url(name string) string {
	s.t.Helper()
	ip := s.kubectl("get", "service", name, "--output=jsonpath={.spec.clusterIP}")
	s.g.Expect(net.ParseIP(ip)).NotTo(BeNil(), "clusterIP of Service %s is %q", name, ip)
	return "http://" + ip + "/"
}

// answers waits until a Function answers with a text.
func (s *space) answers(name, want string) {
	s.t.Helper()
	url := s.url(name)
	s.soon(30*time.Second, func(g Gomega) {
		answer, err := get(once, url)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(answer).To(Equal(want))
	}, "answer of %s/%s at %s", s.name, name, url)
}

// steady is a client that calls a Function all the time.
type steady struct {
	stop func()

	mu       sync.Mutex
	requests int
	failures []string
	answers  map[string]int
	last     string
}

// callSteadily calls a Function every 50 ms until stop, in turn over a new
// connection and over one that is kept open.
func (s *space) callSteadily(name string) *steady {
	s.t.Helper()
	url := s.url(name)
	c := &steady{answers: map[string]int{}}
	done, over := make(chan struct{}), make(chan struct{})
	var stopping sync.Once
	c.stop = func() { stopping.Do(func() { close(done) }); <-over }
	s.t.Cleanup(c.stop)
	go func() {
		defer close(over)
		clients := []*http.Client{caller(false), caller(true)}
		defer clients[1].CloseIdleConnections()
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ; i++ {
			began := time.Now()
			answer, err := get(clients[i%2], url)
			c.note(began, i%2 == 1, answer, err)
			select {
			case <-done:
				return
			case <-tick.C:
			}
		}
	}()
	return c
}

func (c *steady) note(began time.Time, kept bool, answer string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests++
	if err != nil {
		c.failures = append(c.failures, fmt.Sprintf("%s after %s, request %d, kept connection %v: %v",
			time.Now().Format("15:04:05.000"), time.Since(began).Round(time.Millisecond), c.requests, kept, err))
		return
	}
	c.answers[answer]++
	c.last = answer
}

// lastAnswer is what the client got last.
func (c *steady) lastAnswer() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

// sawOnly stops the client. No request must have failed, and the answers must
// be those given and no others.
func (c *steady) sawOnly(t *testing.T, answers ...string) {
	t.Helper()
	c.stop()
	g := NewWithT(t)
	g.Expect(c.failures).To(BeEmpty(), "of %d requests these failed", c.requests)
	for answer := range c.answers {
		g.Expect(answers).To(ContainElement(answer), "answers of %d requests: %v", c.requests, c.answers)
	}
	t.Logf("steady client: %d requests, none failed, answers %v", c.requests, c.answers)
}
