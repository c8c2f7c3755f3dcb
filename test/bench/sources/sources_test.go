package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestParseUsage(t *testing.T) {
	g := NewWithT(t)
	// The program's name holds a bracket and blanks.
	stat := "42 (a) b) S 1 42 42 0 -1 4194560 512 0 3 0 250 50 7 8 20 0 9 0 1000 0 0"
	status := "Name:\ta\nVmPeak:\t  9999 kB\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n"
	u, err := parseUsage(stat, status)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(u).To(Equal(usage{cpu: 3 * time.Second, resident: 1 << 20, peak: 2 << 20}))
	_, err = parseUsage("42 (a) S 1", status)
	g.Expect(err).To(MatchError(ContainSubstring("stat has 2 fields")))

	own, err := usageOf(os.Getpid())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(own.peak).To(BeNumerically(">=", own.resident))
	g.Expect(own.resident).To(BeNumerically(">", 1<<20))
}

func TestFigures(t *testing.T) {
	g := NewWithT(t)
	f := figures{row: "polls"}
	f.add("time", "ms", 3, 1, 2).beside("theirs", 4, 400, 200)
	f.add("builds", "", 2).exactly(1)
	f.add("memory", "MiB", 99.54).atMost(100)
	f.add("processor", "%", 1.25).atMost(1)
	var out bytes.Buffer
	printFigures(&out, f.all)
	g.Expect(out.String()).To(Equal(`
polls        FIGURE    N  PEER         RATIO   WANTED  
  time       2 ms      3  theirs: 200  0.0100          
  builds     2         1                       = 1     over
  memory     99.5 MiB  1                       ≤ 100   ok
  processor  1.2 %     1                       ≤ 1     over
`))
	file := filepath.Join(t.TempDir(), "figures.json")
	g.Expect(writeJSON(file, f.all)).To(Succeed())
	text, err := os.ReadFile(file)
	g.Expect(err).NotTo(HaveOccurred())
	var objects []map[string]any
	g.Expect(json.Unmarshal(text, &objects)).To(Succeed())
	g.Expect(objects[0]).To(Equal(map[string]any{"row": "polls", "name": "time", "unit": "ms", "value": 2.0, "n": 3.0, "peer": "theirs", "peerValue": 200.0}))
	g.Expect(objects[1]).To(HaveKeyWithValue("least", 1.0))
}

func TestParse(t *testing.T) {
	g := NewWithT(t)
	o, err := parse(nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(o.rows).To(Equal(inOrder))
	g.Expect(rows).To(HaveLen(len(inOrder)))
	_, err = parse([]string{"--rows", "refs,pulls"})
	g.Expect(err).To(MatchError(ContainSubstring(`there is no row "pulls"`)))
	_, err = parse([]string{"all"})
	g.Expect(err).To(MatchError(ContainSubstring(`no argument "all"`)))
}

func TestSumOf(t *testing.T) {
	g := NewWithT(t)
	sum, err := sumOf([]byte("# HELP asked x\nasked{code=\"200\",host=\"a b\"} 41\nasked{code=\"404\"} 1\nasked_total{} 7\n"), "asked")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(sum).To(Equal(42.0))
}

// TestWorker asks a worker in this process about repositories as the rows make them, and counts at their server.
func TestWorker(t *testing.T) {
	g := NewWithT(t)
	served := t.TempDir()
	r, err := makeLarge(t.Context(), filepath.Join(served, "fn.git"), 10)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(r.git(t.Context(), nil, "fsck", "--strict")).To(BeEmpty())
	server, err := serveGit(served)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(server.close()).To(Succeed()) })

	url := server.url + "/fn.git"
	orders := []order{
		{Op: opResolve, URL: url, Reference: "main", BaseDir: "team000/function000"},
		{Op: opResolve, URL: url, Reference: "next", BaseDir: "team000/function000"},
		{Op: opList, URL: url},
		{Op: opResolve, URL: url, Reference: "gone"},
	}
	var in, out bytes.Buffer
	for _, o := range orders {
		g.Expect(json.NewEncoder(&in).Encode(o)).To(Succeed())
	}
	g.Expect(work(t.Context(), t.TempDir(), 0, &in, &out)).To(Succeed())
	answers := make([]done, len(orders))
	decoder := json.NewDecoder(&out)
	for i := range answers {
		g.Expect(decoder.Decode(&answers[i])).To(Succeed())
	}
	g.Expect(answers[0]).To(HaveField("Error", ""))
	g.Expect(answers[0].Commit).NotTo(Equal(answers[1].Commit))
	g.Expect(answers[2].Count).To(Equal(3), "HEAD, main and next")
	g.Expect(answers[3].Error).To(ContainSubstring(`no branch or tag of that exact name`))
	for _, a := range answers {
		g.Expect(a.Peak).To(BeNumerically(">", 0))
		g.Expect(a.Allocated).To(BeNumerically(">", 0))
	}
	seen := server.traffic()
	g.Expect(seen.Bytes).To(BeNumerically(">", 0))
	seen.Bytes = 0
	g.Expect(seen).To(Equal(traffic{Advertisements: 2, Refs: 3, Packs: 2}))
	g.Expect(seen.minus(traffic{Refs: 1})).To(Equal(traffic{Advertisements: 2, Refs: 2, Packs: 2}))
}

func TestHandlersAreEquallyLong(t *testing.T) {
	g := NewWithT(t)
	g.Expect(handler(7, 1)).To(HaveLen(len(handler(999, 0))))
	g.Expect(handler(7, 1)).NotTo(Equal(handler(7, 0)))
}

func TestManyRefs(t *testing.T) {
	g := NewWithT(t)
	r, err := newRepository(t.Context(), filepath.Join(t.TempDir(), "fn.git"))
	g.Expect(err).NotTo(HaveOccurred())
	text := func(w io.Writer, _ int) error { _, err := fmt.Fprint(w, "x"); return err }
	g.Expect(r.write(t.Context(), commit{branch: "main", files: 1, path: func(int) string { return "f" }, size: 1, content: text})).To(Succeed())
	g.Expect(r.manyRefs(t.Context(), 100)).To(Succeed())
	refs, err := r.git(t.Context(), nil, "for-each-ref")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(strings.Count(refs, "\n")).To(Equal(100))
}
