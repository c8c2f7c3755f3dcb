package tenant_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/gitfn/gitfn/registry/tenant"
)

func TestVerify(t *testing.T) {
	key, other := tenant.NewKey(), tenant.NewKey()
	push := key.Credential("a", tenant.Push)
	long := strings.Repeat("n", 63)
	for _, tt := range []struct {
		name       string
		credential tenant.Credential
		grant      tenant.Grant
		refused    bool
	}{
		{name: "a push credential is of its namespace", credential: push, grant: tenant.Grant{Namespace: "a", Access: tenant.Push}},
		{name: "a pull credential is of its namespace", credential: key.Credential("team-b", tenant.Pull), grant: tenant.Grant{Namespace: "team-b", Access: tenant.Pull}},
		{name: "the longest name works", credential: key.Credential(long, tenant.Manage), grant: tenant.Grant{Namespace: long, Access: tenant.Manage}},
		{name: "a namespace named as an access is no access", credential: key.Credential("push", tenant.Pull), grant: tenant.Grant{Namespace: "push", Access: tenant.Pull}},
		{name: "the password of another access is refused", credential: tenant.Credential{Username: "a.push", Password: key.Credential("a", tenant.Pull).Password}, refused: true},
		{name: "the password of another namespace is refused", credential: tenant.Credential{Username: "b.push", Password: push.Password}, refused: true},
		{name: "the password of another key is refused", credential: other.Credential("a", tenant.Push), refused: true},
		{name: "a shortened password is refused", credential: tenant.Credential{Username: "a.push", Password: push.Password[:10]}, refused: true},
		{name: "an empty password is refused", credential: tenant.Credential{Username: "a.push"}, refused: true},
		{name: "nobody is refused", refused: true},
		{name: "an unknown access is refused though the key gives it", credential: key.Credential("a", "own"), refused: true},
		{name: "a name that no namespace has is refused though the key gives it", credential: key.Credential("a/b", tenant.Push), refused: true},
		{name: "an empty namespace is refused though the key gives it", credential: key.Credential("", tenant.Push), refused: true},
		{name: "a name with a dot is refused though the key gives it", credential: key.Credential("a.push", tenant.Pull), refused: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			grant, err := key.Verify(tt.credential.Username, tt.credential.Password)
			g.Expect(grant).To(Equal(tt.grant))
			if tt.refused {
				g.Expect(err).To(MatchError(tenant.ErrBadCredential))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
		})
	}
}

func TestCredentialIsForEver(t *testing.T) {
	g := NewWithT(t)
	key, err := tenant.ParseKey([]byte("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(key.Credential("a", tenant.Push)).To(Equal(tenant.Credential{
		Username: "a.push", Password: "9CWWAw1t3Osby39Bh8ebEdlDDahhbVGItIBEReYr9fg",
	}), "a change here locks out every namespace until its Secret is written again")
}

func TestKeyAsText(t *testing.T) {
	g := NewWithT(t)
	key := tenant.NewKey()
	g.Expect(tenant.ParseKey(append(key.Encode(), '\n'))).To(Equal(key))
	for _, text := range []string{"", "short", "AAAA", strings.Repeat("A", 45)} {
		_, err := tenant.ParseKey([]byte(text))
		g.Expect(err).To(MatchError("read registry key: want the base64 of 32 bytes"))
	}
}

func TestKeyNeverPrints(t *testing.T) {
	g := NewWithT(t)
	key := tenant.NewKey()
	holder := struct{ Key tenant.Key }{key}
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		g.Expect(fmt.Sprintf(format, holder)).To(ContainSubstring("registry key"))
	}
}

func TestDerivedSecretsAreUnrelated(t *testing.T) {
	g := NewWithT(t)
	key := tenant.NewKey()
	g.Expect(key.Derive("a")).To(HaveLen(32))
	g.Expect(key.Derive("a")).To(Equal(key.Derive("a")))
	g.Expect(key.Derive("a")).NotTo(Equal(key.Derive("b")))
}

func TestDockerConfig(t *testing.T) {
	g := NewWithT(t)
	text := tenant.DockerConfig(map[string]tenant.Credential{
		"localhost:32137":          {Username: "a.pull", Password: "p"},
		"registry.system.svc:5000": {Username: "a.pull", Password: "p"},
	})
	g.Expect(json.Valid(text)).To(BeTrue())
	g.Expect(text).To(MatchJSON(`{"auths": {
		"localhost:32137": {"username": "a.pull", "password": "p", "auth": "YS5wdWxsOnA="},
		"registry.system.svc:5000": {"username": "a.pull", "password": "p", "auth": "YS5wdWxsOnA="}
	}}`))
}

func TestPolicy(t *testing.T) {
	const (
		pull, push, remove = tenant.ActionPull, tenant.ActionPush, tenant.ActionDelete
		system             = "gitfn-system"
	)
	for _, tt := range []struct {
		name       string
		namespace  string
		access     tenant.Access
		repository string
		allowed    []tenant.Action
	}{
		{"pull reads at home", "a", tenant.Pull, "a/fn", []tenant.Action{pull}},
		{"push reads and writes at home", "a", tenant.Push, "a/fn/deps", []tenant.Action{pull, push}},
		{"pull sees nothing of a neighbour", "a", tenant.Pull, "b/fn", nil},
		{"push sees nothing of a neighbour", "a", tenant.Push, "b/fn", nil},
		{"a name that begins alike is a neighbour", "a", tenant.Push, "a-b/fn", nil},
		{"a repository named as the namespace is nobody's", "a", tenant.Push, "a", nil},
		{"everybody reads runtimes", "a", tenant.Push, system + "/runtimes/nodejs22", []tenant.Action{pull}},
		{"everybody reads the builder", "a", tenant.Pull, system + "/builder", []tenant.Action{pull}},
		{"nobody reads what only begins as the builder", "a", tenant.Pull, system + "/builder-cache", nil},
		{"nobody reads what the system keeps to itself", "a", tenant.Pull, system + "/canary", nil},
		{"the system writes runtimes", system, tenant.Push, system + "/runtimes/nodejs22", []tenant.Action{pull, push}},
		{"the system's push sees no tenant", system, tenant.Push, "a/fn", nil},
		{"the manager reads and deletes everywhere, and writes nowhere", system, tenant.Manage, "a/fn", []tenant.Action{pull, remove}},
		{"a tenant's manager is nobody", "a", tenant.Manage, "a/fn", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			policy := tenant.Policy{System: system}
			g.Expect(policy.Actions(tenant.Grant{Namespace: tt.namespace, Access: tt.access}, tt.repository)).To(Equal(tt.allowed))
		})
	}
}
