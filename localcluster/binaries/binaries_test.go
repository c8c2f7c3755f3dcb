package binaries

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/tarball"
	. "github.com/onsi/gomega"
)

func TestKeyFollowsEverythingThatMakesASet(t *testing.T) {
	g := NewWithT(t)
	sources := t.TempDir()
	file := filepath.Join(sources, "m", "go.mod")
	g.Expect(os.Mkdir(filepath.Dir(file), 0o755)).To(Succeed())
	g.Expect(os.WriteFile(file, []byte("module m"), 0o644)).To(Succeed())
	c := Cache{Sources: sources, Progress: io.Discard}

	first, err := c.key(Set{Module: "m"})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(c.key(Set{Module: "m"})).To(Equal(first))
	g.Expect(c.key(Set{Module: "m", LinkerFlags: "-s"})).NotTo(Equal(first))
	g.Expect(c.key(Set{Module: "m", Programs: []Program{{"a", "b"}}})).NotTo(Equal(first))
	g.Expect(os.WriteFile(file, []byte("module n"), 0o644)).To(Succeed())
	g.Expect(c.key(Set{Module: "m"})).NotTo(Equal(first))

	_, err = c.key(Set{Module: "absent"})
	g.Expect(err).To(MatchError(ContainSubstring("is the checkout whole?")))
}

func TestEverySetHasAModule(t *testing.T) {
	g := NewWithT(t)
	sources, err := Sources()
	g.Expect(err).NotTo(HaveOccurred())
	for _, s := range Sets {
		g.Expect(filepath.Join(sources, s.Module, "go.mod")).To(BeARegularFile())
	}
}

func TestEnsureBuildsOnceAndLeavesNothingHalf(t *testing.T) {
	g := NewWithT(t)
	sources, err := Sources()
	g.Expect(err).NotTo(HaveOccurred())
	all := Sets
	t.Cleanup(func() { Sets = all })
	for _, s := range all {
		if s.Module == "pause" {
			Sets = []Set{s}
		}
	}
	c := Cache{Dir: filepath.Join(t.TempDir(), "bin"), Sources: sources, Progress: io.Discard}

	dirs, err := c.Ensure(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	built, err := os.Stat(dirs.Program("pause"))
	g.Expect(err).NotTo(HaveOccurred())
	image, err := tarball.ImageFromPath(dirs.PauseImage(), nil)
	g.Expect(err).NotTo(HaveOccurred())
	config, err := image.ConfigFile()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(config.Config.Entrypoint).To(Equal([]string{"/pause"}))
	g.Expect(config.RootFS.DiffIDs).To(HaveLen(1))

	g.Expect(c.Ensure(t.Context())).To(Equal(dirs))
	again, err := os.Stat(dirs.Program("pause"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(again.ModTime()).To(Equal(built.ModTime()))
	g.Expect(filepath.Glob(filepath.Join(c.Dir, ".building-*"))).To(BeEmpty())
}
