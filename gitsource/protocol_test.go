package gitsource

import (
	"bytes"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	. "github.com/onsi/gomega"
)

const someID = "0123456789abcdef0123456789abcdef01234567"

func FuzzReadRefs(f *testing.F) {
	frame := func(lines ...string) []byte {
		r := &request{}
		for _, line := range lines {
			r.linef("%s", line)
		}
		r.flush()
		return r.Bytes()
	}
	f.Add(frame(someID + " refs/heads/main"))
	f.Add(frame(someID+" HEAD symref-target:refs/heads/main", someID+" refs/tags/v1 peeled:"+someID))
	f.Add(frame("ERR go away"))
	f.Add([]byte("0001"))
	f.Add([]byte("fff0"))
	f.Fuzz(func(t *testing.T, answer []byte) {
		_ = readRefs(bytes.NewReader(answer), 100, func(r ref) {
			if len(r.commit()) != 40 {
				t.Fatalf("ref %q leads to %q", r.name, r.commit())
			}
		})
	})
}

func FuzzReadAdvertisement(f *testing.F) {
	v0 := &request{}
	v0.linef("# service=git-upload-pack")
	v0.flush()
	v0.linef("%s HEAD\x00side-band-64k symref=HEAD:refs/heads/main agent=git/2", someID)
	v0.linef("%s refs/tags/v1", someID)
	v0.linef("%s refs/tags/v1^{}", someID)
	v0.flush()
	f.Add(v0.Bytes())
	v2 := &request{}
	for _, line := range []string{"version 2", "agent=git/2", "fetch=shallow filter", "object-format=sha1"} {
		v2.linef("%s", line)
	}
	v2.flush()
	f.Add(v2.Bytes())
	f.Add([]byte("0000"))
	f.Add([]byte("000Bshallow000"))
	f.Fuzz(func(t *testing.T, answer []byte) {
		_, _ = readAdvertisement(bytes.NewReader(answer), 100, func(r ref) {
			if len(r.commit()) != 40 || strings.HasSuffix(r.name, "^{}") {
				t.Fatalf("ref %q leads to %q", r.name, r.commit())
			}
		})
	})
}

func TestMirrorsDoNotSeeOneAnothersObjects(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	cache := newObjectCache()
	secret := &plumbing.MemoryObject{}
	_, _ = secret.Write([]byte("secret"))
	cache.of(1).Put(secret)
	_, found := cache.of(1).Get(secret.Hash())
	g.Expect(found).To(BeTrue())
	_, found = cache.of(2).Get(secret.Hash())
	g.Expect(found).To(BeFalse())
}

func TestObjectCacheIsBounded(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	cache := newObjectCache()
	for i := range 64 {
		object := &plumbing.MemoryObject{}
		_, _ = object.Write(bytes.Repeat([]byte{byte(i)}, objectCacheMost))
		cache.of(i).Put(object)
	}
	g.Expect(cache.used).To(And(BeNumerically(">", objectCacheBytes/2), BeNumerically("<=", objectCacheBytes)))
}
