package gitsource_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/gitfn/gitfn/gitsource"
)

// plant puts a canary of its own into every string and every slice of bytes below a value.
func plant(v reflect.Value, name string) (canaries []string) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return plant(v.Elem(), name)
	case reflect.Struct:
		for i := range v.NumField() {
			canaries = append(canaries, plant(v.Field(i), name+"-"+v.Type().Field(i).Name)...)
		}
		return canaries
	case reflect.String:
		v.SetString("canary" + name)
	case reflect.Slice:
		v.SetBytes([]byte("canary" + name))
	default:
		panic("a field of a kind that nobody has thought of: " + name)
	}
	return []string{"canary" + name}
}

// TestNoFieldOfCredentialsPrints holds for fields that are added later too.
func TestNoFieldOfCredentialsPrints(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var c gitsource.Credentials
	canaries := plant(reflect.ValueOf(&c).Elem(), "")
	g.Expect(len(canaries)).To(BeNumerically(">=", 14))
	repo := gitsource.Repository{URL: "https://git.example/fn", Credentials: c}
	type holder struct {
		Name        string
		Credentials gitsource.Credentials
		App         *gitsource.GitHubApp
	}
	values := []any{
		c, &c, *c.GitHubApp, c.GitHubApp, repo, &repo, []any{c, c.GitHubApp}, map[string]any{"c": c, "app": c.GitHubApp},
		holder{"h", c, c.GitHubApp}, &holder{"h", c, c.GitHubApp}, []gitsource.Credentials{c}, []gitsource.GitHubApp{*c.GitHubApp},
	}
	var out bytes.Buffer
	for _, value := range values {
		// Not p: fmt asks no value what to print for it.
		for _, verb := range strings.Split("v +v #v s q x X d o b c U e f g t T +q #x 10s .3s", " ") {
			fmt.Fprintf(&out, "%"+verb+"\n", value)
		}
		fmt.Fprintln(&out, value)
		fmt.Fprintln(&out, fmt.Errorf("wrapped %v, %+v, %s", value, value, value))
		text, err := json.Marshal(value)
		g.Expect(err).NotTo(HaveOccurred())
		out.Write(text)
		for _, handler := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
			slog.New(handler).With("with", value).WithGroup("group").Info("look", "value", value, slog.Any("any", value))
		}
	}
	for _, canary := range canaries {
		expectNowhere(g, out.String(), canary)
	}
	expectNowhere(g, out.String(), "canary")
	for _, marshal := range []func() ([]byte, error){c.MarshalText, c.GitHubApp.MarshalText, c.MarshalJSON, c.GitHubApp.MarshalJSON} {
		text, err := marshal()
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(string(text)).To(ContainSubstring("redacted"))
	}
	g.Expect(gitsource.Credentials{}.String()).To(Equal("anonymous"))
	g.Expect([]string{c.String(), c.GoString(), c.LogValue().String(), c.GitHubApp.String(), c.GitHubApp.GoString(), c.GitHubApp.LogValue().String()}).To(HaveEach("redacted"))
}

// expectNowhere looks for a secret in every form in which one comes back.
func expectNowhere(g *WithT, text, secret string) {
	for _, form := range []string{
		secret, strings.ToUpper(secret), fmt.Sprintf("%x", secret), fmt.Sprintf("%X", secret), fmt.Sprintf("% x", secret), fmt.Sprint([]byte(secret)),
		url.QueryEscape(secret), strings.TrimRight(base64.StdEncoding.EncodeToString([]byte(secret[:len(secret)/3*3])), "="),
	} {
		before, _, found := strings.Cut(text, form)
		g.Expect(found).To(BeFalse(), "%s after …%s", form, before[max(0, len(before)-200):])
	}
}

// TestWhatAServerRepeatsIsNotShown has servers that answer in every way with all that they were shown.
func TestWhatAServerRepeatsIsNotShown(t *testing.T) {
	t.Parallel()
	const advertisement, result = "application/x-git-upload-pack-advertisement", "application/x-git-upload-pack-result"
	// shown is everything of a request that is a secret, plain and encoded.
	shown := func(r *http.Request) string {
		user, password, _ := r.BasicAuth()
		return strings.Join([]string{
			r.Header.Get("Authorization"), r.Header.Get("Proxy-Authorization"), user, password,
			url.QueryEscape(password), url.PathEscape(password), user + ":" + password,
		}, " ")
	}
	answers := map[string]func(w http.ResponseWriter, r *http.Request){
		"an error of the protocol": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", advertisement)
			fmt.Fprint(w, packets("ERR "+shown(r)))
		},
		"an error in place of refs": func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				w.Header().Set("Content-Type", advertisement)
				fmt.Fprint(w, packets("version 2\n", "ls-refs\n", "fetch\n", ""))
				return
			}
			w.Header().Set("Content-Type", result)
			fmt.Fprint(w, packets("ERR not found: "+shown(r)))
		},
		"an object format": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", advertisement)
			fmt.Fprint(w, packets("version 2\n", "object-format="+shown(r)+"\n", ""))
		},
		"a redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "ftp://x/"+url.PathEscape(shown(r)), 302)
		},
		"a redirect to nowhere": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/"+url.PathEscape(shown(r)), 302)
		},
		"a redirect that is bad": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "http://"+shown(r)+"\x7f")
			w.WriteHeader(302)
		},
		"a page": func(w http.ResponseWriter, r *http.Request) { http.Error(w, shown(r), 200) },
		"a status": func(w http.ResponseWriter, r *http.Request) {
			connection, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				fmt.Fprintf(connection, "HTTP/1.1 555 %s\r\nContent-Length: 0\r\n\r\n", shown(r))
				_ = connection.Close()
			}
		},
		"no HTTP": func(w http.ResponseWriter, r *http.Request) {
			connection, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				fmt.Fprintf(connection, "%s\r\n\r\n", shown(r))
				_ = connection.Close()
			}
		},
		"a challenge": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("WWW-Authenticate", "Basic realm="+shown(r))
			http.Error(w, shown(r), 401)
		},
		"a limit": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", shown(r))
			http.Error(w, shown(r), 429)
		},
	}
	now := newClock()
	api := newGitHubAPI(t, now.Now)
	kinds := map[string]gitsource.Credentials{
		"basic":             {Username: "robot", Password: "canary/+ pass%"},
		"a token as a user": {Username: "canary-token"},
		"an App":            api.credentials(),
		"a proxy":           {Username: "robot", Password: "canary-pass", Proxy: "http://pu:canary%2Fproxy@HOST"},
	}
	for name, answer := range answers {
		for kind, credentials := range kinds {
			t.Run(kind+", "+name, func(t *testing.T) {
				t.Parallel()
				g := NewWithT(t)
				s := httptest.NewServer(http.HandlerFunc(answer))
				t.Cleanup(s.Close)
				at := s.URL
				if credentials.Proxy != "" {
					// The server is the proxy: it sees what is for both.
					credentials.Proxy = strings.Replace(credentials.Proxy, "HOST", strings.TrimPrefix(s.URL, "http://"), 1)
					at = "http://git.example"
				}
				c := newClient(t, withClock(now), withNames(nil))
				_, err := c.Resolve(t.Context(), gitsource.Repository{URL: at + "/team/fn.git", Credentials: credentials}, gitsource.Selection{Reference: "main"}, 0)
				g.Expect(err).To(HaveOccurred())
				all := fmt.Sprintf("%v %+v %q %s", err, err, err.Error(), fmt.Errorf("resolve: %w", err))
				var unavailable *gitsource.UnavailableError
				if errors.As(err, &unavailable) {
					all += unavailable.Err.Error()
				}
				for _, secret := range []string{"canary", "ghs_", base64.RawStdEncoding.EncodeToString([]byte("robot:c")), base64.RawStdEncoding.EncodeToString([]byte("pu:canary"))} {
					g.Expect(all).NotTo(ContainSubstring(secret))
				}
			})
		}
	}
}
