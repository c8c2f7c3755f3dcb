package gitsource_test

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"

	"github.com/gitfn/gitfn/gitsource"
)

// githubAPI gives out tokens to an App that signs as it must, and lets its Git server take them.
type githubAPI struct {
	*httptest.Server
	now  func() time.Time
	life time.Duration // of a token

	mu      sync.Mutex
	asked   []string // what was wished for
	faults  []string
	valid   map[string]time.Time
	revoked bool
	answer  func(w http.ResponseWriter) bool // instead of a token
}

func newGitHubAPI(t testing.TB, now func() time.Time) *githubAPI {
	t.Helper()
	a := &githubAPI{now: now, life: time.Hour, valid: map[string]time.Time{}}
	a.Server = httptest.NewServer(a)
	t.Cleanup(a.Close)
	return a
}

func (a *githubAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	a.asked = append(a.asked, strings.TrimSpace(string(body)))
	if a.answer != nil && a.answer(w) {
		return
	}
	if r.Method != http.MethodPost || r.URL.Path != "/api/v3/app/installations/34/access_tokens" {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	if err := a.check(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")); err != nil {
		a.faults = append(a.faults, err.Error())
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	token := fmt.Sprintf("ghs_%d_%s", len(a.asked), strings.Repeat("x", 300)) // they are long nowadays
	a.valid[token] = a.now().Add(a.life)
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(map[string]any{"token": token, "expires_at": a.valid[token].UTC(), "permissions": map[string]string{"contents": "read"}})
}

// check verifies a JSON Web Token as GitHub does.
func (a *githubAPI) check(assertion string) error {
	parts := strings.Split(assertion, ".")
	if len(parts) != 3 {
		return fmt.Errorf("%d parts", len(parts))
	}
	var raw [3][]byte
	for i, part := range parts {
		var err error
		if raw[i], err = base64.RawURLEncoding.DecodeString(part); err != nil {
			return err
		}
	}
	var header struct{ Alg, Typ string }
	var claims struct {
		Iat, Exp int64
		Iss      string
	}
	if err := json.Unmarshal(raw[0], &header); err != nil || header.Alg != "RS256" {
		return fmt.Errorf("header %s", raw[0])
	}
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if err := rsa.VerifyPKCS1v15(&rsaKey().PublicKey, crypto.SHA256, sum[:], raw[2]); err != nil {
		return err
	}
	if err := json.Unmarshal(raw[1], &claims); err != nil || claims.Iss != "12" {
		return fmt.Errorf("claims %s", raw[1])
	}
	now := a.now().Unix()
	if claims.Iat != now-60 || claims.Exp <= now || claims.Exp > now+600 {
		return fmt.Errorf("issued %d s ago, ends in %d s", now-claims.Iat, claims.Exp-now)
	}
	return nil
}

// letIn is the door of a Git server that takes only tokens of the API.
func (a *githubAPI) letIn(w http.ResponseWriter, r *http.Request) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	user, token, _ := r.BasicAuth()
	if ends, known := a.valid[token]; user == "x-access-token" && known && a.now().Before(ends) && !a.revoked {
		return false
	}
	w.WriteHeader(http.StatusUnauthorized)
	return true
}

func (a *githubAPI) set(change func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change()
}

func (a *githubAPI) wishes() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.asked)
}

func (a *githubAPI) credentials() gitsource.Credentials {
	return gitsource.Credentials{GitHubApp: &gitsource.GitHubApp{ID: "12", Installation: "34", PrivateKey: appKey(), BaseURL: a.URL + "/api/v3/"}}
}

// newAppWorld is an API, a Git server that believes it, and a repository of it.
func newAppWorld(t testing.TB) (now *clock, api *githubAPI, git *gitServer, repo gitsource.Repository, commit string) {
	now = newClock()
	api = newGitHubAPI(t, now.Now)
	r, commit := monorepo(t, 1)
	git = newGitServer(t, r, func(w http.ResponseWriter, r *http.Request) bool {
		r.URL.Path = strings.Replace(r.URL.Path, "/team/", "/", 1)
		return api.letIn(w, r)
	})
	return now, api, git, gitsource.Repository{URL: git.URL + "/team/fn.git", Credentials: api.credentials()}, commit
}

func TestAGitHubAppReadsWithTokens(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	now, api, git, repo, commit := newAppWorld(t)
	c := newClient(t, withClock(now))
	resolve := func() error {
		got, err := c.Resolve(t.Context(), repo, gitsource.Selection{Reference: "main", BaseDir: "f0"}, 0)
		if err == nil && got.Commit != commit {
			err = fmt.Errorf("resolved to %s", got)
		}
		return err
	}
	group := errgroup.Group{}
	for range 20 {
		group.Go(resolve)
	}
	g.Expect(group.Wait()).To(Succeed())
	g.Expect(api.faults).To(BeEmpty())
	g.Expect(api.asked).To(Equal([]string{`{"repositories":["fn"],"permissions":{"contents":"read"}}`}), "one token, that reads one repository")

	now.move(54 * time.Minute)
	g.Expect(resolve()).To(Succeed())
	g.Expect(api.wishes()).To(Equal(1), "it is good for six minutes more")
	now.move(time.Minute)
	g.Expect(resolve()).To(Succeed())
	g.Expect(api.wishes()).To(Equal(2), "five minutes before its end it is made anew")
	g.Expect(api.faults).To(BeEmpty())

	for _, request := range git.all() {
		g.Expect(request.authorization).To(HavePrefix("Basic "))
	}

	// While the API is away a token serves to its end.
	now.move(56 * time.Minute)
	api.set(func() {
		api.answer = func(w http.ResponseWriter) bool { w.WriteHeader(http.StatusBadGateway); return true }
	})
	g.Expect(resolve()).To(Succeed())
	now.move(5 * time.Minute)
	g.Expect(resolve()).To(MatchError(gitsource.ErrUnavailable))
	api.set(func() { api.answer = nil })
	now.move(time.Minute)
	g.Expect(resolve()).To(Succeed())

	// A token that the server refuses is not shown a second time.
	before := api.wishes()
	api.set(func() { api.revoked = true })
	g.Expect(resolve()).To(MatchError(gitsource.ErrAuth))
	api.set(func() { api.revoked = false })
	now.move(4 * time.Second) // the failure stands for a moment
	g.Expect(resolve()).To(Succeed())
	g.Expect(api.wishes()).To(Equal(before + 1))
}

func TestAChangedSecretOfAnAppTakesEffectAtOnce(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	now, api, _, repo, _ := newAppWorld(t)
	c := newClient(t, withClock(now))
	resolve := func(change func(*gitsource.GitHubApp)) error {
		app := *repo.Credentials.GitHubApp
		change(&app)
		changed := repo
		changed.Credentials.GitHubApp = &app
		_, err := c.Resolve(t.Context(), changed, gitsource.Selection{Reference: "main"}, time.Hour)
		return err
	}
	g.Expect(resolve(func(*gitsource.GitHubApp) {})).To(Succeed())
	for _, change := range []func(*gitsource.GitHubApp){
		func(a *gitsource.GitHubApp) { a.ID = "13" },
		func(a *gitsource.GitHubApp) { a.Installation = "35" },
		func(a *gitsource.GitHubApp) { a.PrivateKey = []byte("gone") },
		func(a *gitsource.GitHubApp) { a.BaseURL = api.URL },
	} {
		g.Expect(resolve(change)).To(MatchError(gitsource.ErrAuth))
	}
	before := api.wishes()
	g.Expect(resolve(func(*gitsource.GitHubApp) {})).To(Succeed())
	g.Expect(api.wishes()).To(Equal(before))
}

func TestAnswersOfTheAppsAPI(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name    string
		status  int
		headers map[string]string
		body    string
		err     error
		says    string
		after   time.Duration
	}{
		{name: "401 is the key", status: 401, err: gitsource.ErrAuth, says: "check githubAppID and githubAppPrivateKey"},
		{name: "403 is a suspended installation", status: 403, err: gitsource.ErrAuth, says: "suspended"},
		{name: "404 is the installation", status: 404, err: gitsource.ErrAuth, says: "check githubAppInstallationID and githubAppBaseURL"},
		{name: "422 is the repository or the permission", status: 422, err: gitsource.ErrAuth, says: "contents: read"},
		{name: "429 is for later", status: 429, headers: map[string]string{"Retry-After": "70"}, err: gitsource.ErrUnavailable, after: 70 * time.Second},
		{name: "403 with Retry-After is for later", status: 403, headers: map[string]string{"Retry-After": "70"}, err: gitsource.ErrUnavailable, after: 70 * time.Second},
		{name: "403 of a limit is for later", status: 403, err: gitsource.ErrUnavailable, after: 90 * time.Second,
			headers: map[string]string{"X-Ratelimit-Remaining": "0", "X-Ratelimit-Reset": fmt.Sprint(newClock().Now().Unix() + 90)}},
		{name: "500 is for later", status: 500, err: gitsource.ErrUnavailable, says: "answers 500"},
		{name: "503 is for later", status: 503, headers: map[string]string{"Retry-After": "70"}, err: gitsource.ErrUnavailable, after: 70 * time.Second},
		{name: "a page is no API", status: 200, body: "<html>canary", err: gitsource.ErrUnsupported, says: "check githubAppBaseURL"},
		{name: "a token without an end is none", status: 201, body: `{"token":"canary"}`, err: gitsource.ErrUnsupported, says: "without a token"},
		{name: "an end without a token is none", status: 201, body: `{"expires_at":"2030-01-01T00:00:00Z"}`, err: gitsource.ErrUnsupported, says: "without a token"},
		{name: "no JSON is none", status: 201, body: `canary`, err: gitsource.ErrUnsupported, says: "without a token"},
		{name: "a redirect is refused", status: 307, headers: map[string]string{"Location": "http://127.0.0.1:1/canary"}, err: gitsource.ErrUnsupported, says: "redirect"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			now, api, git, repo, _ := newAppWorld(t)
			api.answer = func(w http.ResponseWriter) bool {
				for name, value := range row.headers {
					w.Header().Set(name, value)
				}
				w.WriteHeader(row.status)
				_, _ = io.WriteString(w, row.body)
				return true
			}
			_, err := newClient(t, withClock(now)).Resolve(t.Context(), repo, gitsource.Selection{Reference: "main"}, 0)
			g.Expect(err).To(MatchError(row.err))
			g.Expect(err).To(MatchError(ContainSubstring(row.says)))
			g.Expect(err.Error()).To(HavePrefix("ask " + repo.URL + ": "))
			g.Expect(err.Error()).NotTo(Or(ContainSubstring("canary"), ContainSubstring("eyJ"), ContainSubstring("PRIVATE")))
			if row.after > 0 {
				g.Expect(err.(*gitsource.UnavailableError).RetryAfter).To(Equal(row.after))
			}
			g.Expect(git.all()).To(BeEmpty(), "nothing is asked without a token")
			g.Expect(api.wishes()).To(Equal(1))
		})
	}
}

func TestATokenOfAnAppGoesToItsServerAlone(t *testing.T) {
	t.Parallel()
	t.Run("a redirect to another origin sees none", func(t *testing.T) {
		t.Parallel()
		g := NewWithT(t)
		now, api, target, _, _ := newAppWorld(t)
		from := redirecting(t, target.URL)
		_, err := newClient(t, withClock(now)).Resolve(t.Context(), gitsource.Repository{URL: from + "/team/fn.git", Credentials: api.credentials()}, gitsource.Selection{Reference: "main"}, 0)
		g.Expect(err).To(MatchError(gitsource.ErrAuth))
		g.Expect(target.all()).To(HaveLen(1))
		g.Expect(target.all()[0].authorization).To(BeEmpty())
	})
	rows := []struct{ name, base, url, says string }{
		{"an App of github.com and another server", "", "https://git.example/team/fn.git", "a GitHub App of api.github.com has no tokens for git.example: check githubAppBaseURL"},
		{"an App of a server and github.com", "https://ghe.example/api/v3", "https://github.com/team/fn.git", "has no tokens for github.com"},
		{"a server that ends alike", "https://ghe.example/api/v3", "https://evilghe.example/team/fn.git", "has no tokens for evilghe.example"},
		{"an API with TLS and a repository without", "https://ghe.example/api/v3", "http://ghe.example/team/fn.git", "write the URL with https"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			repo := gitsource.Repository{URL: row.url, Credentials: gitsource.Credentials{GitHubApp: &gitsource.GitHubApp{ID: "12", Installation: "34", PrivateKey: appKey(), BaseURL: row.base}}}
			_, err := newClient(t, withNames(nil)).Resolve(t.Context(), repo, gitsource.Selection{Reference: "main"}, 0)
			g.Expect(err).To(MatchError(gitsource.ErrAuth))
			g.Expect(err).To(MatchError(ContainSubstring(row.says)))
		})
	}
	t.Run("the API of api.HOST serves HOST", func(t *testing.T) {
		t.Parallel()
		g := NewWithT(t)
		now, api, git, repo, commit := newAppWorld(t)
		repo.URL = strings.Replace(repo.URL, "127.0.0.1", "ghe.example", 1)
		repo.Credentials.GitHubApp.BaseURL = strings.Replace(api.URL, "127.0.0.1", "api.ghe.example", 1) + "/api/v3"
		c := newClient(t, withClock(now), withNames(map[string]string{"ghe.example": "127.0.0.1", "api.ghe.example": "127.0.0.1"}))
		got, err := c.Resolve(t.Context(), repo, gitsource.Selection{Reference: "main"}, 0)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(got.Commit).To(Equal(commit))
		g.Expect(git.all()).NotTo(BeEmpty())
	})
}

func TestTheAppsAPIGoesThroughTheDialer(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	now, api, git, repo, _ := newAppWorld(t)
	repo.URL = strings.Replace(repo.URL, "127.0.0.1", "ghe.example", 1)
	for _, inside := range []string{"169.254.169.254", "127.0.0.2"} {
		c := newClient(t, withClock(now), withNames(map[string]string{"ghe.example": "127.0.0.1", "api.ghe.example": inside}), func(o *gitsource.Options) {
			o.Allow = loopbackOne
		})
		repo.Credentials.GitHubApp.BaseURL = strings.Replace(api.URL, "127.0.0.1", "api.ghe.example", 1) + "/api/v3"
		_, err := c.Resolve(t.Context(), repo, gitsource.Selection{Reference: "main"}, 0)
		g.Expect(err).To(MatchError(gitsource.ErrAddressRefused), inside)
	}
	g.Expect(api.wishes()).To(BeZero())
	g.Expect(git.all()).To(BeEmpty())

	// Through a proxy it goes as well.
	p, _ := newProxy(t, false, map[string]string{
		"ghe.example:80":     strings.TrimPrefix(git.URL, "http://"),
		"api.ghe.example:80": strings.TrimPrefix(api.URL, "http://"),
	})
	repo.URL, repo.Credentials.GitHubApp.BaseURL, repo.Credentials.Proxy = "http://ghe.example/team/fn.git", "http://api.ghe.example/api/v3", p.URL
	_, err := newClient(t, withClock(now), withNames(nil)).Resolve(t.Context(), repo, gitsource.Selection{Reference: "main"}, 0)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(p.requests()).To(HaveExactElements("POST api.ghe.example", "GET ghe.example", "POST ghe.example", "POST ghe.example"))
}
