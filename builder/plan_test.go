package builder

import (
	"encoding/json"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/gitfn/gitfn/runtimes"
)

func newPlan(modify ...func(*Plan)) Plan {
	plan := Plan{
		Namespace: "shop", Name: "cart", Tree: strings.Repeat("a", 40),
		Origin:  Origin{URL: "https://git.example/fn.git", Commit: strings.Repeat("c", 40), BaseDir: "cart"},
		Runtime: "nodejs22", Base: "registry.svc:5000/runtimes/nodejs22@sha256:" + strings.Repeat("b", 64),
		Recipe: Recipe, Repository: "registry.svc:5000/shop/cart",
	}
	for _, m := range modify {
		m(&plan)
	}
	return plan
}

func TestKey(t *testing.T) {
	rows := []struct {
		name   string
		modify func(*Plan)
		same   bool
	}{
		{name: "another commit with the same tree has the same key", same: true, modify: func(p *Plan) { p.Origin.Commit = strings.Repeat("d", 40) }},
		{name: "the same tree from another repository has the same key", same: true, modify: func(p *Plan) { p.Origin.URL = "https://other.example/x.git" }},
		{name: "the same tree from an inline source has the same key", same: true, modify: func(p *Plan) { p.Origin = Origin{} }},
		{name: "another name and namespace have the same key", same: true, modify: func(p *Plan) { p.Namespace, p.Name = "x", "y" }},
		{name: "another registry has the same key", same: true, modify: func(p *Plan) {
			p.Base = "localhost:32137/elsewhere@sha256:" + strings.Repeat("b", 64)
			p.Repository = "localhost:32137/shop/cart"
		}},
		{name: "another tree has another key", modify: func(p *Plan) { p.Tree = strings.Repeat("e", 40) }},
		{name: "another runtime has another key", modify: func(p *Plan) { p.Runtime = "nodejs24" }},
		{name: "another base has another key", modify: func(p *Plan) { p.Base = "x@sha256:" + strings.Repeat("f", 64) }},
		{name: "another recipe has another key", modify: func(p *Plan) { p.Recipe++ }},
		{name: "the rebuild annotation has another key", modify: func(p *Plan) { p.Rebuild = "1" }},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			g := NewWithT(t)
			key, other := newPlan().Key(), newPlan(row.modify).Key()
			g.Expect(key).To(MatchRegexp("^[0-9a-f]{64}$"))
			g.Expect(key == other).To(Equal(row.same))
		})
	}
}

func TestKeyStays(t *testing.T) {
	// Images of earlier versions of gitfn are found by their keys: a change of
	// this value builds every Function of every cluster again.
	NewWithT(t).Expect(newPlan().Key()).To(Equal("7919b9ad94cee523388adc2b01d0c4353a1db7b6a5c5267f0ffb8ad4097e3faf"))
}

func TestPinNamesTheKey(t *testing.T) {
	plan := newPlan()
	NewWithT(t).Expect(plan.Pin()).To(Equal("registry.svc:5000/shop/cart:" + plan.Key()))
}

func TestPlanSurvivesItsArgument(t *testing.T) {
	g := NewWithT(t)
	text, err := json.Marshal(newPlan())
	g.Expect(err).NotTo(HaveOccurred())
	var back Plan
	g.Expect(json.Unmarshal(text, &back)).To(Succeed())
	g.Expect(back).To(Equal(newPlan()))
}

func TestChanges(t *testing.T) {
	rows := []struct {
		name string
		last Plan
		next Plan
		want []Change
	}{
		{name: "nothing before: First", next: newPlan(), want: []Change{ChangeFirst}},
		{name: "the same plan: no change", last: newPlan(), next: newPlan()},
		{name: "another commit alone: no change", last: newPlan(), next: newPlan(func(p *Plan) { p.Origin.Commit = "x" })},
		{name: "another tree: Source", last: newPlan(), next: newPlan(func(p *Plan) { p.Tree = "x" }), want: []Change{ChangeSource}},
		{
			name: "all at once: in a fixed order", last: newPlan(),
			next: newPlan(func(p *Plan) { p.Tree, p.Runtime, p.Base, p.Recipe, p.Rebuild = "x", "y", "z", 99, "r" }),
			want: []Change{ChangeSource, ChangeRuntime, ChangeBase, ChangeRecipe, ChangeRebuild},
		},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			NewWithT(t).Expect(Changes(row.last, row.next)).To(Equal(row.want))
		})
	}
}

func TestInlineFiles(t *testing.T) {
	g := NewWithT(t)
	node := runtimes.Default()["nodejs22"]
	g.Expect(InlineFiles(node, "code", "")).To(Equal(map[string]string{"handler.js": "code"}))
	g.Expect(InlineFiles(node, "code", " \n")).To(HaveLen(1), "blank dependencies are no manifest")
	g.Expect(InlineFiles(node, "code", "{}")).To(HaveKeyWithValue("package.json", "{}"))
}
