package apitest

import (
	"testing"

	. "github.com/onsi/gomega"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
)

func TestInline(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.git.push("main", files{"hello/handler.js": handler + "\n"})
	tree := w.git.tree("main", "hello")
	// fast-import ends what it is given with the line break that follows.
	w.function("hello", inline(w.git.git("", "--git-dir", w.git.dir, "cat-file", "blob", "main:hello/handler.js")+"\n"))
	w.pass("hello")
	j := w.job()
	w.Expect(w.configMaps()).To(HaveLen(1))
	w.builds(j)
	w.pass("hello")
	w.rollsOut("hello")
	fn, _ := w.pass("hello")
	w.serves(fn, "inline@sha1:"+tree)
	w.Expect(fn.Status.Tree).To(Equal(tree), "the same content has the same id in Git")
	w.Expect(w.configMaps()).To(BeEmpty())
	generation := w.deployment("hello").Generation

	w.change("hello", func(fn *functionv1.Function) {
		fn.Spec.Source = functionv1.Source{GitRepository: &functionv1.GitRepository{URL: w.git.url, Reference: "main", BaseDir: "hello"}}
	})
	fn, _ = w.pass("hello")
	w.serves(fn, "main@sha1:"+fn.Status.Commit)
	w.Expect(w.deployment("hello").Generation).To(Equal(generation))
	w.Expect(w.tap.builds()).To(Equal(1))
}

func TestInlineTellsItsSourceOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.function("hello", inline(handler))
	w.pass("hello")
	w.Expect(w.events.taken()).To(HaveLen(2))
	w.admit(w.job())
	w.pass("hello")
	w.pass("hello")
	w.Expect(w.events.taken()).To(BeEmpty())
}
