// Package gitfn holds no code: only what checks the module as a whole.
package gitfn

import (
	"encoding/json"
	"errors"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

const module = "github.com/gitfn/gitfn"

// layers says what a package may know, however far down. The longest prefix
// counts. docs/architecture.md has the same as a table.
var layers = []struct {
	prefix string
	// forbidden are prefixes of import paths.
	forbidden []string
}{
	{"/runtimes", []string{"k8s.io/", "sigs.k8s.io/", module + "/"}},
	{"/gitsource", []string{"k8s.io/", "sigs.k8s.io/", module + "/builder", module + "/registry", module + "/controllers", module + "/api"}},
	{"/registry", []string{"k8s.io/", "sigs.k8s.io/", module + "/builder", module + "/controllers", module + "/api"}},
	{"/builder", []string{"k8s.io/", "sigs.k8s.io/", module + "/controllers", module + "/api", module + "/rollout"}},
	{"/builder/job", []string{"k8s.io/client-go", "sigs.k8s.io/controller-runtime", module + "/controllers"}},
	{"/builder/queue", []string{"k8s.io/client-go", "sigs.k8s.io/controller-runtime", module + "/controllers"}},
	{"/rollout", []string{"k8s.io/client-go", "sigs.k8s.io/controller-runtime", module + "/controllers"}},
	{"/api", []string{"k8s.io/client-go", "sigs.k8s.io/controller-runtime", module + "/controllers", module + "/builder", module + "/rollout"}},
	{"/cmd/builder", []string{"k8s.io/", "sigs.k8s.io/"}},
	{"/cmd/registry-gateway", []string{"k8s.io/", "sigs.k8s.io/"}},
	{"/controllers", []string{module + "/cmd", module + "/builder/executor"}},
}

type goPackage struct {
	ImportPath, Dir string
	GoFiles, Deps   []string
}

func listPackages(t *testing.T) []goPackage {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Dir,GoFiles,Deps", "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	var all []goPackage
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

func TestLayers(t *testing.T) {
	g := NewWithT(t)
	used := map[string]bool{}
	for _, p := range listPackages(t) {
		prefix, forbidden := "", []string(nil)
		for _, layer := range layers {
			path := module + layer.prefix
			if (p.ImportPath == path || strings.HasPrefix(p.ImportPath, path+"/")) && len(layer.prefix) > len(prefix) {
				prefix, forbidden = layer.prefix, layer.forbidden
			}
		}
		used[prefix] = true
		for _, dependency := range p.Deps {
			for _, wall := range forbidden {
				own := dependency == p.ImportPath || strings.HasPrefix(dependency, module+prefix+"/") || dependency == module+prefix
				g.Expect(!own && strings.HasPrefix(dependency, wall)).To(BeFalse(), "%s must not know %s", p.ImportPath, dependency)
			}
		}
	}
	for _, layer := range layers {
		g.Expect(used[layer.prefix]).To(BeTrue(), "no package is in the layer %s any more", layer.prefix)
	}
}

// TestPackageDocs wants of every package that it says what goes in and out.
func TestPackageDocs(t *testing.T) {
	for _, p := range listPackages(t) {
		if len(p.GoFiles) == 0 {
			continue
		}
		documented := false
		for _, file := range p.GoFiles {
			parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, file), nil, parser.ParseComments|parser.PackageClauseOnly)
			if err != nil {
				t.Fatal(err)
			}
			documented = documented || parsed.Doc != nil && len(parsed.Doc.Text()) > 100
		}
		if !documented {
			t.Errorf("%s has no package comment that says what goes in, what comes out and what it never does", p.ImportPath)
		}
	}
}
