package main

import (
	"bytes"
	"io"
	"testing"

	. "github.com/onsi/gomega"
)

func TestParseOptions(t *testing.T) {
	for name, row := range map[string]struct {
		verb  string
		args  []string
		name  string
		rest  []string
		wrong string
	}{
		"no name is dev":                     {verb: "up", name: "dev"},
		"a name is taken":                    {verb: "up", args: []string{"--name", "two"}, name: "two"},
		"a part follows the name":            {verb: "stop", args: []string{"--name", "two", "git"}, name: "two", rest: []string{"git"}},
		"a command keeps its flags":          {verb: "exec", args: []string{"--", "ls", "-l"}, name: "dev", rest: []string{"ls", "-l"}},
		"a bad name is refused":              {verb: "up", args: []string{"--name", "../x"}, wrong: "cluster name"},
		"a word too many is refused":         {verb: "up", args: []string{"dev"}, wrong: "usage: localcluster up"},
		"a missing part is refused":          {verb: "stop", wrong: "usage: localcluster stop"},
		"a flag of another verb is refused":  {verb: "up", args: []string{"--assets"}, wrong: "not defined"},
		"load takes any number of archives":  {verb: "load", args: []string{"a.tar", "b.tar"}, name: "dev", rest: []string{"a.tar", "b.tar"}},
		"load without an archive is refused": {verb: "load", wrong: "wrong number"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			o, err := parseOptions(row.verb, row.args, io.Discard)
			if row.wrong != "" {
				g.Expect(err).To(MatchError(ContainSubstring(row.wrong)))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(o.name).To(Equal(row.name))
			g.Expect(o.args).To(HaveExactElements(row.rest))
		})
	}
}

func TestUsageListsEveryVerb(t *testing.T) {
	g := NewWithT(t)
	var out bytes.Buffer
	g.Expect(dispatch(t.Context(), nil, &out, io.Discard)).To(Succeed())
	g.Expect(order).To(HaveLen(len(verbs)))
	for name := range verbs {
		g.Expect(out.String()).To(ContainSubstring("localcluster " + name + " "))
	}
	g.Expect(dispatch(t.Context(), []string{"fly"}, io.Discard, io.Discard)).To(MatchError(`there is no verb "fly"`))
}
