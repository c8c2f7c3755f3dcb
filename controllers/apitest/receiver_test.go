package apitest

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
	"github.com/gitfn/gitfn/controllers"
	"github.com/gitfn/gitfn/gitsource/receiver"
)

// TestThousandEqualHints counts at the Git server what hints, and hints that are
// sent again, cost it.
func TestThousandEqualHints(t *testing.T) {
	t.Parallel()
	w, fn := servingWorld(t)
	w.waker.Client = indexed{w.waker.Client, []functionv1.Function{*fn}}
	w.secret("hook", map[string]string{"token": "k3y"})
	w.later(10 * time.Second)
	asked := w.git.refsRequests()
	woken := 0
	for range 1000 {
		w.Expect(w.hook(w.namespace, "hook", "k3y", w.git.url, "refs/heads/main")).To(Equal(http.StatusAccepted))
		for range w.woken() {
			woken++
			w.later(time.Millisecond)
			w.pass("hello")
		}
		w.later(time.Millisecond)
	}
	// The timer passes the last of them on, and then a hint that showed nothing is looked at again.
	for range 40 {
		w.later(500 * time.Millisecond)
		w.woken()
		w.pass("hello")
	}
	t.Logf("1,000 equal hints in a second: woken %d times, %d refs requests, the looks after 2, 5 and 15 s among them", woken, w.git.refsRequests()-asked)
	w.Expect(woken).To(BeNumerically("<=", 3))
	w.Expect(w.git.refsRequests() - asked).To(BeNumerically("<=", 6))
}

// TestKeysOfHints looks at what a changed Secret changes.
func TestKeysOfHints(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const url = "https://git.example/team/fn.git"
	w.waker.Client = indexed{w.waker.Client, nil}
	hook := func(name, key string) int { return w.hook(w.namespace, name, key, url, "") }
	w.secret("hook", map[string]string{"token": "old"})
	w.Expect(hook("hook", "old")).To(Equal(http.StatusAccepted))
	w.secret("hook", map[string]string{"token": "new"})
	w.Expect(hook("hook", "old")).To(Equal(http.StatusUnauthorized), "a changed Secret takes effect at once")
	w.Expect(hook("hook", "new")).To(Equal(http.StatusAccepted))
	w.Expect(w.client.Delete(w.ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "hook"}})).To(Succeed())
	w.Expect(hook("hook", "new")).To(Equal(http.StatusUnauthorized), "so does one that is gone")
	w.secret("hook", map[string]string{"token": "newest"})
	w.Expect(hook("hook", "newest")).To(Equal(http.StatusAccepted), "and one that is made again")

	w.secret("other", map[string]string{"password": "k3y"})
	w.Expect(hook("other", "")).To(Equal(http.StatusUnauthorized))
	w.Expect(hook("other", "k3y")).To(Equal(http.StatusUnauthorized), "only the key token counts")
	w.typedSecret("bootstrap", corev1.SecretTypeBootstrapToken, map[string]string{"token": "k3y"})
	w.Expect(hook("bootstrap", "k3y")).To(Equal(http.StatusUnauthorized), "tokens of Kubernetes are for something else")
}

// TestSecretsWakeTheirOwnNamespace gives two namespaces the same repository and
// each a Secret of the same name.
func TestSecretsWakeTheirOwnNamespace(t *testing.T) {
	t.Parallel()
	ours, theirs := newWorld(t), newWorld(t)
	const url = "https://git.example/team/fn.git"
	functions := []functionv1.Function{*ours.function("ours", follow(url, "main")), *theirs.function("theirs", follow(url, "main"))}
	for _, w := range []*world{ours, theirs} {
		w.waker.Client = indexed{w.waker.Client, functions}
		w.secret("hook", map[string]string{"token": w.namespace})
	}
	ours.Expect(ours.hook(ours.namespace, "hook", ours.namespace, url, "")).To(Equal(http.StatusAccepted))
	ours.Expect(ours.woken()).To(Equal([]string{"ours"}))
	theirs.Expect(theirs.hook(theirs.namespace, "hook", theirs.namespace, url, "")).To(Equal(http.StatusAccepted))
	theirs.Expect(theirs.woken()).To(Equal([]string{"theirs"}))
	ours.later(time.Second)
	ours.Expect(ours.hook(ours.namespace, "hook", theirs.namespace, url, "")).To(Equal(http.StatusUnauthorized), "another namespace's key is none here")
	ours.Expect(ours.woken()).To(BeEmpty())
}

// load is hints at a steady rate, and how long their answers took.
type load struct {
	took    []time.Duration
	refused int
}

// at is the time within which a share of the answers came.
func (l *load) at(share float64) time.Duration {
	slices.Sort(l.took)
	return l.took[min(int(share*float64(len(l.took))), len(l.took)-1)]
}

// send sends n hints, rate a second, as GitHub would: each when its time has come,
// however long the others take.
func (w *world) send(server, secret, key string, n, rate int) *load {
	w.t.Helper()
	body := fmt.Appendf(nil, `{"ref": "refs/heads/main", "repository": {"clone_url": %q}, "commits": [%s{}]}`, w.git.url, strings.Repeat(`{"message": "twenty kilobytes of it"}, `, 500))
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write(body)
	signature := "sha256=" + hex.EncodeToString(mac.Sum(nil))
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64, MaxConnsPerHost: 64}}
	defer client.CloseIdleConnections()
	var result load
	var mu sync.Mutex
	var all sync.WaitGroup
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for sent, began := 0, time.Now(); sent < n; <-tick.C {
		w.clock.SetTime(time.Now()) // the Git client's
		for ; sent < n && sent <= int(time.Since(began).Seconds()*float64(rate)); sent++ {
			all.Go(func() {
				r, err := http.NewRequest(http.MethodPost, server+"/hooks/github/"+w.namespace+"/"+secret, bytes.NewReader(body))
				if err != nil {
					w.t.Error(err)
					return
				}
				r.Header.Set("X-Hub-Signature-256", signature)
				r.Header.Set("X-GitHub-Event", "push")
				start := time.Now()
				answer, err := client.Do(r)
				if err != nil {
					w.t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, answer.Body)
				_ = answer.Body.Close()
				mu.Lock()
				defer mu.Unlock()
				result.took = append(result.took, time.Since(start))
				if answer.StatusCode != http.StatusAccepted {
					result.refused++
				}
			})
		}
	}
	all.Wait()
	return &result
}

// hinted is a world with a manager as cmd/manager wires it, a Function, and the
// endpoint of hints behind a real server.
func hinted(t testing.TB) (w *world, server string, asked *requests) {
	w = newWorld(t, func(c *controllers.Config) { c.PollInterval = time.Hour })
	w.clock.SetTime(time.Now())
	asked = w.runManager()
	w.git.push("main", files{"hello/handler.js": handler})
	w.secret("hook", map[string]string{"token": "k3y"})
	commit := w.git.git("", "--git-dir", w.git.dir, "rev-parse", "main")
	w.function("hello")
	w.until("hello", func(fn *functionv1.Function) bool { return fn.Status.Commit == commit })
	endpoint := httptest.NewServer(receiver.New(receiver.Options{Secrets: w.waker.Secret, Notify: w.waker.Pushed}))
	t.Cleanup(endpoint.Close)
	w.Eventually(func() int { return w.send(endpoint.URL, "hook", "k3y", 1, 1000).refused }, 10*time.Second).Should(BeZero())
	return w, endpoint.URL, asked
}

// TestThousandHintsASecond counts what they cost the API server and the Git server.
// How long they take depends on what else the machine does: see the benchmark.
func TestThousandHintsASecond(t *testing.T) {
	t.Parallel()
	w, server, asked := hinted(t)
	asked.taken()
	refs, began := w.git.refsRequests(), time.Now()
	result := w.send(server, "hook", "k3y", 2000, 1000)
	lasted := time.Since(began)
	refs = w.git.refsRequests() - refs
	read := slices.DeleteFunc(asked.taken(), func(request string) bool { return !strings.HasSuffix(request, "/secrets/hook") })
	t.Logf("%d hints of 20 kB in %s: p50 %s, p99 %s, longest %s; the Secret was read %d times, refs were asked for %d times",
		len(result.took), lasted, result.at(0.5), result.at(0.99), result.at(1), len(read), refs)
	w.Expect(result.refused).To(BeZero())
	w.Expect(len(read)).To(BeNumerically("<=", 2+int(lasted/(10*time.Second))), "reads of the Secret")
	w.Expect(refs).To(And(BeNumerically(">=", 1), BeNumerically("<=", 5+int(lasted/time.Second))), "refs requests")
}

// BenchmarkThousandHintsASecond sends a thousand hints of 20 kB in each round, and
// fails if one in a hundred answers takes longer than 50 ms. It wants a quiet machine.
func BenchmarkThousandHintsASecond(b *testing.B) {
	w, server, _ := hinted(b)
	empty := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		answer.WriteHeader(http.StatusAccepted)
	}))
	b.Cleanup(empty.Close)
	floor := w.send(empty.URL, "hook", "k3y", 1000, 1000)
	all := &load{}
	for b.Loop() {
		round := w.send(server, "hook", "k3y", 1000, 1000)
		all.took, all.refused = append(all.took, round.took...), all.refused+round.refused
	}
	milliseconds := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	b.ReportMetric(milliseconds(all.at(0.5)), "p50-ms")
	b.ReportMetric(milliseconds(all.at(0.99)), "p99-ms")
	b.ReportMetric(milliseconds(floor.at(0.5)), "floor-p50-ms")
	b.ReportMetric(milliseconds(floor.at(0.99)), "floor-p99-ms")
	w.Expect(all.refused).To(BeZero())
	if all.at(0.99) > 50*time.Millisecond {
		b.Errorf("p99 is %s", all.at(0.99))
	}
}
