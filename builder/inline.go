package builder

import (
	"strings"

	"github.com/gitfn/gitfn/runtimes"
)

// InlineFiles are the files that an inline source stands for. Blank dependencies
// are no manifest, so that the tree is that of a repository without one.
func InlineFiles(runtime runtimes.Runtime, source, dependencies string) map[string]string {
	files := map[string]string{runtime.Handler: source}
	if strings.TrimSpace(dependencies) != "" {
		files[runtime.Manifest] = dependencies
	}
	return files
}
