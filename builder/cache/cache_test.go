package cache

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/gitfn/gitfn/gitsource"
	"github.com/gitfn/gitfn/runtimes"
)

var node = runtimes.Default()["nodejs22"]

func treeOf(t *testing.T, files map[string]string) *gitsource.Tree {
	tree, err := gitsource.NewTree(files)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return tree
}

func TestSelect(t *testing.T) {
	const (
		plain = `{"dependencies":{"a":"1"}}`
		lock  = `{"lockfileVersion":3,"packages":{"":{},"node_modules/a":{}}}`
	)
	rows := []struct {
		name  string
		files map[string]string
		want  string // the paths
		err   error
		whole bool
		free  bool
	}{
		{name: "no manifest: nothing to install", files: map[string]string{"handler.js": "1"}},
		{name: "a manifest without dependencies: nothing to install", files: map[string]string{"package.json": `{"type":"module","scripts":{"test":"x"}}`}},
		{name: "development alone: nothing to install", files: map[string]string{"package.json": `{"devDependencies":{"a":"1"},"scripts":{"prepare":"husky"}}`}},
		{name: "a lock file of another and no dependencies: nothing to install", files: map[string]string{"package.json": `{}`, "yarn.lock": ""}},
		{name: "dependencies float without a lock file", files: map[string]string{"package.json": plain, "handler.js": "1"}, want: "package.json", free: true},
		{name: "lock file and project configuration are inputs", files: map[string]string{"package.json": plain, "package-lock.json": lock, ".npmrc": "x", "handler.js": "1"},
			want: ".npmrc package-lock.json package.json"},
		{name: "both of npm's lock files are inputs", files: map[string]string{"package.json": plain, "package-lock.json": lock, "npm-shrinkwrap.json": lock},
			want: "npm-shrinkwrap.json package-lock.json package.json"},
		{name: "npm's lock file wins over another's", files: map[string]string{"package.json": plain, "package-lock.json": lock, "yarn.lock": ""},
			want: "package-lock.json package.json"},
		{name: "a lock file of Yarn alone is refused", files: map[string]string{"package.json": plain, "yarn.lock": ""}, err: ErrForeignLock},
		{name: "a lock file of pnpm alone is refused", files: map[string]string{"package.json": plain, "pnpm-lock.yaml": ""}, err: ErrForeignLock},
		{name: "a lock file without manifest is refused", files: map[string]string{"package-lock.json": lock}, err: ErrManifest},
		{name: "a manifest that is no JSON is refused", files: map[string]string{"package.json": `{"dependencies":`}, err: ErrManifest},
		{name: "a manifest that is no object is refused", files: map[string]string{"package.json": `[]`}, err: ErrManifest},
		{name: "a lock file that is no JSON is refused", files: map[string]string{"package.json": plain, "package-lock.json": `<<<<<<< HEAD`}, err: ErrManifest},
		{name: "a script of the project: all is input but its own modules",
			files: map[string]string{"package.json": `{"dependencies":{"a":"1"},"scripts":{"postinstall":"x"}}`, "handler.js": "1", "node_modules/b/x": "1"},
			want:  "handler.js package.json", whole: true, free: true},
		{name: "a native module: all is input", files: map[string]string{"package.json": plain, "binding.gyp": "{}", "x.cc": ""}, want: "binding.gyp package.json x.cc", whole: true, free: true},
		{name: "workspaces: all is input", files: map[string]string{"package.json": `{"workspaces":["p/*"]}`, "p/a/package.json": "{}", "x.js": ""},
			want: "p/a/package.json package.json x.js", whole: true, free: true},
		{name: "a directory as dependency is input, with what it names",
			files: map[string]string{"package.json": `{"dependencies":{"a":"file:./libs/a"}}`, "libs/a/package.json": `{"dependencies":{"b":"file:../b"}}`, "libs/a/x.js": "", "libs/b/package.json": "{}", "libs/c/x.js": "", "handler.js": ""},
			want:  "libs/a/package.json libs/a/x.js libs/b/package.json package.json", free: true},
		{name: "an archive as dependency is input", files: map[string]string{"package.json": `{"dependencies":{"a":"file:a.tgz"}}`, "a.tgz": "x", "b.tgz": "y"}, want: "a.tgz package.json", free: true},
		{name: "a path without file: is one too", files: map[string]string{"package.json": `{"dependencies":{"a":"./a.tgz"}}`, "a.tgz": "x"}, want: "a.tgz package.json", free: true},
		{name: "directories that name one another end", files: map[string]string{"package.json": `{"dependencies":{"a":"file:a"}}`, "a/package.json": `{"dependencies":{"b":"file:../b"}}`, "b/package.json": `{"dependencies":{"a":"file:../a"}}`},
			want: "a/package.json b/package.json package.json", free: true},
		{name: "a directory whose script runs: all is input", files: map[string]string{"package.json": `{"dependencies":{"a":"file:a"}}`, "a/package.json": `{"scripts":{"prepare":"x"}}`, "handler.js": ""},
			want: "a/package.json handler.js package.json", whole: true, free: true},
		{name: "a directory that only the lock file names is input", files: map[string]string{"package.json": plain, "l/package.json": "{}", "handler.js": "", "package-lock.json": `{"packages":{"":{},"l":{},"node_modules/l":{"link":true}}}`},
			want: "l/package.json package-lock.json package.json"},
		{name: "an old lock file with paths: all is input", files: map[string]string{"package.json": plain, "handler.js": "", "package-lock.json": `{"lockfileVersion":1,"dependencies":{"a":{"version":"file:a"}}}`},
			want: "handler.js package-lock.json package.json", whole: true},
		{name: "a dependency outside of the source is refused", files: map[string]string{"package.json": `{"dependencies":{"a":"file:../shared"}}`}, err: ErrManifest},
		{name: "an absolute dependency is refused", files: map[string]string{"package.json": `{"dependencies":{"a":"file:/etc"}}`}, err: ErrManifest},
		{name: "a dependency that is not there is refused", files: map[string]string{"package.json": `{"dependencies":{"a":"file:a"}}`}, err: ErrManifest},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			g := NewWithT(t)
			inputs, err := Select(node, treeOf(t, row.files))
			if row.err != nil {
				g.Expect(err).To(MatchError(row.err))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			var paths []string
			for _, file := range inputs.Files {
				paths = append(paths, file.Path)
			}
			g.Expect(strings.Join(paths, " ")).To(Equal(row.want))
			g.Expect(inputs.None()).To(Equal(row.want == ""))
			g.Expect(inputs.Whole).To(Equal(row.whole))
			g.Expect(inputs.Locked).To(Equal(row.want != "" && !row.free))
		})
	}
}

func TestKey(t *testing.T) {
	facts := Facts{Base: "sha256:1", Platform: "linux/amd64", Recipe: 1}
	files := func() map[string]string {
		return map[string]string{"package.json": `{"dependencies":{"a":"1"}}`, "handler.js": "1"}
	}
	key := func(t *testing.T, facts Facts, files map[string]string) string {
		tree := treeOf(t, files)
		inputs, err := Select(node, tree)
		g := NewWithT(t)
		g.Expect(err).NotTo(HaveOccurred())
		got, err := Key(facts, inputs, tree)
		g.Expect(err).NotTo(HaveOccurred())
		return got
	}
	first := key(t, facts, files())
	rows := []struct {
		name   string
		change func(*Facts, map[string]string)
		same   bool
	}{
		{"nothing changed: same", func(*Facts, map[string]string) {}, true},
		{"what is no input changed: same", func(_ *Facts, f map[string]string) { f["handler.js"] = "2"; f["more.js"] = "" }, true},
		{"an input changed: other", func(_ *Facts, f map[string]string) { f["package.json"] = `{"dependencies":{"a":"2"}}` }, false},
		{"an input came: other", func(_ *Facts, f map[string]string) { f[".npmrc"] = "" }, false},
		{"the base changed: other", func(x *Facts, _ map[string]string) { x.Base = "sha256:2" }, false},
		{"the platform changed: other", func(x *Facts, _ map[string]string) { x.Platform = "linux/arm64" }, false},
		{"the recipe changed: other", func(x *Facts, _ map[string]string) { x.Recipe++ }, false},
		{"somebody asks for another build: other", func(x *Facts, _ map[string]string) { x.Rebuild = "1" }, false},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			g := NewWithT(t)
			other, changed := facts, files()
			row.change(&other, changed)
			got := key(t, other, changed)
			g.Expect(got).To(MatchRegexp("^[0-9a-f]{64}$"))
			g.Expect(got == first).To(Equal(row.same))
		})
	}
	NewWithT(t).Expect(key(t, facts, map[string]string{"handler.js": ""})).To(BeEmpty())
}

func TestSourceFiles(t *testing.T) {
	g := NewWithT(t)
	tree := treeOf(t, map[string]string{".npmrc": "x", "a/.npmrc": "x", "handler.js": "1", "node_modules/b/x.js": "1", "p/node_modules/c.js": ""})
	paths := func(installs bool) (all []string) {
		files, err := SourceFiles(node, tree, installs)
		g.Expect(err).NotTo(HaveOccurred())
		for _, file := range files {
			all = append(all, file.Path)
		}
		return all
	}
	g.Expect(paths(true)).To(Equal([]string{"a/.npmrc", "handler.js"}))
	g.Expect(paths(false)).To(Equal([]string{"a/.npmrc", "handler.js", "node_modules/b/x.js", "p/node_modules/c.js"}), "modules that the source brings are its own if none are installed")
	_, err := SourceFiles(node, treeOf(t, map[string]string{"a/.wh.b/c": ""}), false)
	g.Expect(err).To(MatchError(ErrUnsafe))
}

const base = "usr/src/app/function/"

// copied runs CopyInstalled on a tar of headers.
func copied(t *testing.T, limits Limits, headers ...*tar.Header) ([]byte, error) {
	g := NewWithT(t)
	var in, out bytes.Buffer
	w := tar.NewWriter(&in)
	for _, h := range headers {
		g.Expect(w.WriteHeader(h)).To(Succeed())
		_, err := w.Write(make([]byte, h.Size))
		g.Expect(err).NotTo(HaveOccurred())
	}
	g.Expect(w.Close()).To(Succeed())
	err := CopyInstalled(&out, &in, node, limits)
	return out.Bytes(), err
}

func TestCopyInstalledRefuses(t *testing.T) {
	folder := func(name string) *tar.Header {
		return &tar.Header{Name: base + name + "/", Typeflag: tar.TypeDir, Mode: 0o755}
	}
	file := func(name string) *tar.Header {
		return &tar.Header{Name: base + name, Typeflag: tar.TypeReg, Mode: 0o644}
	}
	link := func(name, to string) *tar.Header {
		return &tar.Header{Name: base + name, Typeflag: tar.TypeSymlink, Linkname: to}
	}
	modules := folder("node_modules")
	limits := Limits{Bytes: 1 << 20, Entries: 10}
	rows := []struct {
		name    string
		entries []*tar.Header
		says    string // empty is allowed
	}{
		{"nothing at all", nil, ""},
		{"a package with a link to a program", []*tar.Header{modules, folder("node_modules/.bin"), link("node_modules/.bin/x", "../x/x.js"), folder("node_modules/x"), file("node_modules/x/x.js")}, ""},
		{"names that sort after a directory's own", []*tar.Header{modules, folder("node_modules/a"), file("node_modules/a/z"), folder("node_modules/a-b"), file("node_modules/a-b/x"), file("node_modules/a.js")}, ""},
		{"modules of a workspace's package", []*tar.Header{modules, link("node_modules/p", "../packages/p"), folder("packages/p/node_modules"), file("packages/p/node_modules/x")}, ""},
		{"a link to the Function's directory", []*tar.Header{modules, link("node_modules/self", "..")}, ""},
		{"a file outside of node_modules", []*tar.Header{file("handler.js")}, "outside of"},
		{"a file of the server", []*tar.Header{{Name: "usr/src/app/server.mjs", Typeflag: tar.TypeReg}}, "outside of"},
		{"an absolute name", []*tar.Header{{Name: "/" + base + "node_modules/", Typeflag: tar.TypeDir}}, "outside of"},
		{"a way up", []*tar.Header{modules, file("node_modules/../../x")}, "no clean path"},
		{"a way up at the beginning", []*tar.Header{{Name: "../" + base + "node_modules/x", Typeflag: tar.TypeReg}}, "no clean path"},
		{"a dot", []*tar.Header{modules, file("node_modules/./x")}, "no clean path"},
		{"a name with a line feed", []*tar.Header{modules, file("node_modules/a\nb")}, "no clean path"},
		{"a name that is not UTF-8", []*tar.Header{modules, file("node_modules/a\xff")}, "no clean path"},
		{"a very long name", []*tar.Header{modules, file("node_modules/" + strings.Repeat("a", 256))}, "no clean path"},
		{"a whiteout", []*tar.Header{modules, file("node_modules/.wh.x")}, "whiteout"},
		{"an opaque directory", []*tar.Header{modules, file("node_modules/.wh..wh..opq")}, "whiteout"},
		{"out of order", []*tar.Header{modules, file("node_modules/b"), file("node_modules/a")}, "out of order"},
		{"the same twice", []*tar.Header{modules, file("node_modules/a"), link("node_modules/a", "b")}, "out of order"},
		{"node_modules as a link", []*tar.Header{link("node_modules", "lib")}, "is no directory"},
		{"a file without its directory", []*tar.Header{file("node_modules/a/b")}, "lies in what is no directory"},
		{"a file below a link", []*tar.Header{modules, link("node_modules/a", ".."), file("node_modules/a/handler.js")}, "lies in what is no directory"},
		{"a file below a file", []*tar.Header{modules, file("node_modules/a"), file("node_modules/a/b")}, "lies in what is no directory"},
		{"an absolute link", []*tar.Header{modules, link("node_modules/a", "/etc/passwd")}, "links to"},
		{"a link that leaves the Function", []*tar.Header{modules, link("node_modules/a", "../../server.mjs")}, "links to"},
		{"a link that leaves it by way of another", []*tar.Header{modules, folder("node_modules/b"), link("node_modules/b/up", "../.."), link("node_modules/c", "b/up/../x")}, "links to"},
		{"a link to nothing", []*tar.Header{modules, link("node_modules/a", "")}, "links to"},
		{"a hard link", []*tar.Header{modules, file("node_modules/a"), {Name: base + "node_modules/b", Typeflag: tar.TypeLink, Linkname: base + "node_modules/a"}}, "neither a file"},
		{"a hard link to the outside", []*tar.Header{modules, {Name: base + "node_modules/b", Typeflag: tar.TypeLink, Linkname: "/etc/shadow"}}, "neither a file"},
		{"a device", []*tar.Header{modules, {Name: base + "node_modules/b", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3}}, "neither a file"},
		{"a pipe", []*tar.Header{modules, {Name: base + "node_modules/b", Typeflag: tar.TypeFifo}}, "neither a file"},
		{"more bytes than allowed", []*tar.Header{modules, {Name: base + "node_modules/b", Typeflag: tar.TypeReg, Size: 1<<20 + 1}}, "more than 1 MiB"},
		{"more entries than allowed", []*tar.Header{modules, file("node_modules/a"), file("node_modules/b"), file("node_modules/c"), file("node_modules/d"), file("node_modules/e"),
			file("node_modules/f"), file("node_modules/g"), file("node_modules/h"), file("node_modules/i"), file("node_modules/j")}, "more than 10 files"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			g := NewWithT(t)
			_, err := copied(t, limits, row.entries...)
			if row.says == "" {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			g.Expect(err).To(MatchError(ErrUnsafe))
			g.Expect(err).To(MatchError(ContainSubstring(row.says)))
		})
	}
}

func TestCopyInstalledNormalises(t *testing.T) {
	g := NewWithT(t)
	out, err := copied(t, DefaultLimits,
		&tar.Header{Name: base + "node_modules/", Typeflag: tar.TypeDir, Mode: 0o2700, ModTime: time.Now(), Uid: 5, Uname: "me"},
		&tar.Header{Name: base + "node_modules/a", Typeflag: tar.TypeReg, Mode: 0o4711, ModTime: time.Now(), Gid: 7, PAXRecords: map[string]string{"SCHILY.xattr.security.capability": "x"}},
	)
	g.Expect(err).NotTo(HaveOccurred())
	in := tar.NewReader(bytes.NewReader(out))
	for _, want := range []int64{0o755, 0o755} {
		h, err := in.Next()
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(h.Mode).To(Equal(want))
		g.Expect(h.ModTime.Unix()).To(BeZero())
		g.Expect([]any{h.Uid, h.Gid, h.Uname}).To(Equal([]any{0, 0, ""}))
		g.Expect(h.PAXRecords).To(BeEmpty())
	}
	_, err = in.Next()
	g.Expect(err).To(Equal(io.EOF))
}

func TestWriteInstalledIsAccepted(t *testing.T) {
	g := NewWithT(t)
	work := t.TempDir()
	write := func(name, text string) {
		file := filepath.Join(work, name)
		g.Expect(os.MkdirAll(filepath.Dir(file), 0o755)).To(Succeed())
		g.Expect(os.WriteFile(file, []byte(text), 0o644)).To(Succeed())
	}
	for _, name := range []string{"handler.js", "node_modules/.package-lock.json", "node_modules/a/index.js", "node_modules/a-b/index.js", "node_modules/a.js",
		"node_modules/a/node_modules/c/x.js", "packages/p/node_modules/d/x.js", "packages/p/index.js"} {
		write(name, name)
	}
	g.Expect(os.Symlink("../packages/p", filepath.Join(work, "node_modules/p"))).To(Succeed())
	g.Expect(os.Link(filepath.Join(work, "node_modules/a.js"), filepath.Join(work, "node_modules/z.js"))).To(Succeed())
	g.Expect(syscall.Mkfifo(filepath.Join(work, "node_modules/pipe"), 0o600)).To(Succeed())
	g.Expect(os.MkdirAll(filepath.Join(work, "other"), 0o755)).To(Succeed())
	g.Expect(os.Symlink("../packages", filepath.Join(work, "other/node_modules"))).To(Succeed())

	var packed, layer, again bytes.Buffer
	g.Expect(WriteInstalled(&packed, work, node, DefaultLimits)).To(Succeed())
	g.Expect(CopyInstalled(&layer, bytes.NewReader(packed.Bytes()), node, DefaultLimits)).To(Succeed())
	var names []string
	in := tar.NewReader(bytes.NewReader(layer.Bytes()))
	for h, err := in.Next(); err != io.EOF; h, err = in.Next() {
		g.Expect(err).NotTo(HaveOccurred())
		names = append(names, strings.TrimPrefix(h.Name, base))
	}
	g.Expect(names).To(Equal([]string{"node_modules/", "node_modules/a/", "node_modules/a/index.js", "node_modules/a/node_modules/", "node_modules/a/node_modules/c/",
		"node_modules/a/node_modules/c/x.js", "node_modules/a-b/", "node_modules/a-b/index.js", "node_modules/a.js", "node_modules/p", "node_modules/z.js",
		"packages/p/node_modules/", "packages/p/node_modules/d/", "packages/p/node_modules/d/x.js"}))

	g.Expect(os.Chtimes(filepath.Join(work, "node_modules/a.js"), time.Now(), time.Now().Add(time.Hour))).To(Succeed())
	g.Expect(WriteInstalled(&again, work, node, DefaultLimits)).To(Succeed())
	g.Expect(again.Bytes()).To(Equal(packed.Bytes()), "times do not show")
	g.Expect(WriteInstalled(io.Discard, work, node, Limits{Bytes: 10, Entries: 100})).To(MatchError(ErrUnsafe))
}
