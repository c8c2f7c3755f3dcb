package gateway

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/gitfn/gitfn/registry/tenant"
)

// maxForm is the size of a token request's body in bytes.
const maxForm = 64 << 10

// tokens is the token endpoint: GET with basic authentication, as Docker and
// go-containerregistry ask, and POST of an OAuth 2 password grant, as containerd does.
type tokens struct {
	Options
	signer signer
}

// request is what both forms say.
type request struct {
	username, password string
	scopes             []string
}

// answer has the token under the names of both specifications.
type answer struct {
	Token       string `json:"token"`
	AccessToken string `json:"access_token"`
	TokenType   string `json:"token_type"`
	Scope       string `json:"scope"`
	ExpiresIn   int    `json:"expires_in"`
	IssuedAt    string `json:"issued_at"`
}

func (t *tokens) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		refuse(w, http.StatusBadRequest, "UNSUPPORTED", "read the request: "+err.Error())
		return
	}
	var asked request
	switch r.Method {
	case http.MethodGet:
		asked.username, asked.password, _ = r.BasicAuth()
		asked.scopes = r.Form["scope"]
	case http.MethodPost:
		if r.PostForm.Get("grant_type") != "password" {
			refuse(w, http.StatusBadRequest, "UNSUPPORTED", "only grant_type=password is understood")
			return
		}
		asked = request{r.PostForm.Get("username"), r.PostForm.Get("password"), r.PostForm["scope"]}
	default:
		w.Header().Set("Allow", "GET, POST")
		refuse(w, http.StatusMethodNotAllowed, "UNSUPPORTED", "ask for a token with GET or POST")
		return
	}
	t.answer(w, r, asked)
}

func (t *tokens) answer(w http.ResponseWriter, r *http.Request, asked request) {
	grant, err := t.Key.Verify(asked.username, asked.password)
	if err != nil {
		// Not even the user name: people paste passwords there.
		t.Log.Warn("credential refused", "remote", r.RemoteAddr)
		w.Header().Set("WWW-Authenticate", `Basic realm="gitfn registry"`)
		refuse(w, http.StatusUnauthorized, "UNAUTHORIZED", err.Error())
		return
	}
	log := t.Log.With("namespace", grant.Namespace, "access", grant.Access, "remote", r.RemoteAddr)
	scopes, err := parseScopes(asked.scopes)
	if err != nil {
		refuse(w, http.StatusBadRequest, "UNSUPPORTED", err.Error())
		return
	}
	granted, err := decide(t.Policy, grant, scopes)
	if err != nil {
		log.Warn("access denied", "asked", list(scopes))
		refuse(w, http.StatusForbidden, "DENIED", err.Error())
		return
	}
	log.Info("token issued", "asked", list(scopes), "granted", list(granted))
	t.issue(w, grant, granted)
}

func (t *tokens) issue(w http.ResponseWriter, grant tenant.Grant, granted []scope) {
	now := t.Now()
	token := t.signer.token(grant.Namespace+"."+string(grant.Access), granted, now)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	// A client that has gone needs no answer.
	_ = json.NewEncoder(w).Encode(answer{
		Token: token, AccessToken: token, TokenType: "Bearer", Scope: list(granted),
		ExpiresIn: int(tokenLife / time.Second), IssuedAt: now.UTC().Format(time.RFC3339),
	})
}

func list(scopes []scope) string {
	texts := make([]string, len(scopes))
	for i, s := range scopes {
		texts[i] = s.String()
	}
	return strings.Join(texts, " ")
}
