package receiver_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/gitfn/gitfn/gitsource/receiver"
)

// counts counts results. It is safe for concurrent use.
type counts struct {
	mu sync.Mutex
	of map[string]int
}

func (c *counts) count(forge string, result receiver.Result) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[string]int{}
	}
	c.of[forge+" "+string(result)]++
}

func (c *counts) all() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.of
}

// serve is an endpoint behind a real server.
func serve(t *testing.T, o receiver.Options) string {
	t.Helper()
	if o.Secrets == nil {
		o.Secrets = secrets
	}
	if o.Notify == nil {
		o.Notify = func(string, receiver.Push) bool { return true }
	}
	server := httptest.NewServer(receiver.New(o))
	t.Cleanup(server.Close)
	return server.URL
}

// request is a push from GitHub whose body comes from a reader.
func request(t *testing.T, at string, body io.Reader, signature string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, at, body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Hub-Signature-256", signature)
	r.Header.Set("X-GitHub-Event", "push")
	return r
}

func do(t *testing.T, r *http.Request) (code int, retryAfter string) {
	t.Helper()
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	return answer.StatusCode, answer.Header.Get("Retry-After")
}

// padded is a push of n bytes.
func padded(n int) string { return strings.Repeat(" ", n-len(large)) + large }

func TestBodiesOfAllSizes(t *testing.T) {
	t.Parallel()
	for _, size := range []int{len(large), 16 << 10, 16<<10 + 1, 1 << 20, 1<<20 + 1, 1<<20 + 2, 3 << 20, 25 << 20} {
		for _, chunked := range []bool{false, true} {
			g := NewWithT(t)
			var count counts
			at := serve(t, receiver.Options{Count: count.count}) + githubURL
			body := padded(size)
			var from io.Reader = strings.NewReader(body)
			if chunked {
				from = io.MultiReader(from) // a reader whose length nobody knows
			}
			code, _ := do(t, request(t, at, from, sign(key, body)))
			g.Expect(code).To(Equal(http.StatusAccepted), "%d bytes, chunked %t", size, chunked)
			g.Expect(count.all()).To(Equal(map[string]int{"github taken": 1}))
		}
	}
}

func TestBodiesThatAreTooLarge(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var count counts
	at := serve(t, receiver.Options{Count: count.count}) + githubURL
	code, _ := do(t, request(t, at, io.MultiReader(strings.NewReader(padded(25<<20+1))), "sha256=00"))
	g.Expect(code).To(Equal(http.StatusRequestEntityTooLarge), "chunked")
	recorder := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, githubURL, io.NopCloser(never{t}))
	r.ContentLength = 25<<20 + 1
	r.Header.Set("X-Hub-Signature-256", "sha256=00")
	receiver.New(receiver.Options{Secrets: secrets}).ServeHTTP(recorder, r)
	g.Expect(recorder.Code).To(Equal(http.StatusRequestEntityTooLarge), "who says so is believed without reading")
	g.Expect(count.all()).To(Equal(map[string]int{"github tooLarge": 1}))
}

// never is not read.
type never struct{ t *testing.T }

func (n never) Read([]byte) (int, error) {
	n.t.Error("the body was read")
	return 0, io.EOF
}

// watched tells when more than 1 MiB was read.
type watched struct {
	io.ReadCloser
	read    int
	isLarge func()
}

// Read reads.
func (w *watched) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	if w.read += n; w.read > 1<<20+1 {
		w.isLarge()
	}
	return n, err
}

// TestLargeBodiesComeOneByOne holds one large body back and sends others.
func TestLargeBodiesComeOneByOne(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var count counts
	endpoint := receiver.New(receiver.Options{Secrets: secrets, Notify: func(string, receiver.Push) bool { return true }, Count: count.count})
	held := make(chan struct{})
	isLarge := sync.OnceFunc(func() { close(held) })
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = &watched{ReadCloser: r.Body, isLarge: isLarge}
		endpoint.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	at := server.URL + githubURL
	body := padded(4 << 20)
	slow, writer := io.Pipe()
	first := make(chan int, 1)
	go func() {
		code, _ := do(t, request(t, at, slow, sign(key, body)))
		first <- code
	}()
	_, err := io.WriteString(writer, body[:3<<20])
	g.Expect(err).NotTo(HaveOccurred())
	<-held // the server has read more than 1 MiB of it

	code, retryAfter := do(t, request(t, at, strings.NewReader(body), sign(key, body)))
	g.Expect(code).To(Equal(http.StatusServiceUnavailable))
	g.Expect(retryAfter).NotTo(BeEmpty())
	code, _ = do(t, request(t, at, strings.NewReader(large), sign(key, large)))
	g.Expect(code).To(Equal(http.StatusAccepted), "a small one has room")

	_, err = io.WriteString(writer, body[3<<20:])
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(writer.Close()).To(Succeed())
	g.Expect(<-first).To(Equal(http.StatusAccepted))
	code, _ = do(t, request(t, at, strings.NewReader(body), sign(key, body)))
	g.Expect(code).To(Equal(http.StatusAccepted), "then the next one has room")
	g.Expect(count.all()).To(Equal(map[string]int{"github taken": 3, "github lost": 1}))
}

// TestSmallBodiesHaveABudget lets strangers hold what there is.
func TestSmallBodiesHaveABudget(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	at := serve(t, receiver.Options{}) + genericURL
	var held sync.WaitGroup
	var writers []*io.PipeWriter
	refused := make(chan int, 64)
	for range 64 { // each a MiB but a byte: twice the budget
		body, writer := io.Pipe()
		writers = append(writers, writer)
		r := request(t, at, body, "sha256=00")
		held.Go(func() {
			answer, err := http.DefaultTransport.RoundTrip(r)
			if err == nil {
				refused <- answer.StatusCode
				_ = answer.Body.Close()
			}
		})
	}
	var filling sync.WaitGroup
	for _, writer := range writers {
		filling.Go(func() { _, _ = writer.Write(bytes.Repeat([]byte(" "), 1<<20-1)) })
	}
	g.Eventually(refused, 20*time.Second).Should(Receive(Equal(http.StatusServiceUnavailable)))
	for _, writer := range writers {
		_ = writer.CloseWithError(io.ErrClosedPipe)
	}
	filling.Wait()
	held.Wait()
	g.Eventually(func() int {
		r := request(t, at, strings.NewReader(small), sign(key, small))
		code, _ := do(t, r)
		return code
	}, 20*time.Second).Should(Equal(http.StatusAccepted), "what was held comes back")
}

// TestSlowSendersAreCutOff waits for the endpoint's own clock.
func TestSlowSendersAreCutOff(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var count counts
	at := serve(t, receiver.Options{Count: count.count}) + genericURL
	body, writer := io.Pipe()
	defer writer.Close()
	began := time.Now()
	go func() { _, _ = io.WriteString(writer, small[:10]) }()
	answer, err := http.DefaultTransport.RoundTrip(request(t, at, body, sign(key, small)))
	if err == nil {
		g.Expect(answer.StatusCode).To(Equal(http.StatusRequestTimeout))
		_ = answer.Body.Close()
	}
	g.Expect(time.Since(began)).To(BeNumerically("<", 20*time.Second))
	g.Eventually(count.all, 10*time.Second).Should(Equal(map[string]int{"generic malformed": 1}))
}

// TestRefusalsTakeTheirTime wants that nobody can tell by the time whether a Secret was read.
func TestRefusalsTakeTheirTime(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	at := serve(t, receiver.Options{})
	for _, path := range []string{genericURL, "/hooks/generic/team-a/other", "/hooks/generic/team-a/empty"} {
		began := time.Now()
		code, _ := do(t, request(t, at+path, strings.NewReader(small), sign("guess", small)))
		g.Expect(code).To(Equal(http.StatusUnauthorized))
		g.Expect(time.Since(began)).To(BeNumerically(">=", 25*time.Millisecond), path)
	}
}

func TestPushesThatCannotBeTaken(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var count counts
	at := serve(t, receiver.Options{Count: count.count, Notify: func(string, receiver.Push) bool { return false }})
	code, retryAfter := do(t, request(t, at+githubURL, strings.NewReader(large), sign(key, large)))
	g.Expect(code).To(Equal(http.StatusServiceUnavailable))
	g.Expect(retryAfter).To(Equal("2"))
	g.Expect(count.all()).To(Equal(map[string]int{"github lost": 1}))
}
