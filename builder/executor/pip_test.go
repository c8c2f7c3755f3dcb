package executor

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/pem"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/gitfn/gitfn/builder"
	"github.com/gitfn/gitfn/gitsource"
	"github.com/gitfn/gitfn/runtimes"
)

// index is a package index (PEP 503) that wants a credential.
type index struct {
	*httptest.Server
	files map[string][]byte // "<project>/<file>"
}

const indexUser, indexPassword = "reader", "s3cret-of-index"

func newIndex(t *testing.T, start func(http.Handler) *httptest.Server) *index {
	x := &index{files: map[string][]byte{
		"pad/pad-1.0-py3-none-any.whl":       wheel(t, "pad", "1.0", "WIDTH = 1\n"),
		"pad/pad-2.0-py3-none-any.whl":       wheel(t, "pad", "2.0", "WIDTH = 2\n"),
		"fromsource/fromsource-1.0.tar.gz":   sdist(t, "fromsource", backend),
		"unbuildable/unbuildable-1.0.tar.gz": sdist(t, "unbuildable", "raise SystemExit('no compiler')\n"),
	}}
	x.Server = start(http.HandlerFunc(x.serve))
	t.Cleanup(x.Close)
	return x
}

func (x *index) serve(w http.ResponseWriter, r *http.Request) {
	if user, password, _ := r.BasicAuth(); user != indexUser || password != indexPassword {
		w.Header().Set("WWW-Authenticate", `Basic realm="index"`)
		http.Error(w, "who are you?", http.StatusUnauthorized)
		return
	}
	if content, found := x.files[strings.TrimPrefix(r.URL.Path, "/files/")]; found {
		_, _ = w.Write(content)
		return
	}
	project := strings.Trim(strings.TrimPrefix(r.URL.Path, "/simple/"), "/")
	page := ""
	for file, content := range x.files {
		if path.Dir(file) == project {
			page += fmt.Sprintf("<a href=\"/files/%s#sha256=%x\">%s</a>\n", file, sha256.Sum256(content), html.EscapeString(path.Base(file)))
		}
	}
	if page == "" {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/html")
	fmt.Fprint(w, "<!DOCTYPE html><html><body>", page, "</body></html>")
}

func (x *index) host() string { return x.URL[strings.Index(x.URL, "://")+3:] }

// conf is a pip.conf with a password.
func (x *index) conf(password string) string {
	return fmt.Sprintf("[global]\nindex-url = %s/simple\n", strings.Replace(x.URL, "://", "://"+indexUser+":"+password+"@", 1))
}

func wheel(t *testing.T, name, version, code string) []byte {
	g := NewWithT(t)
	out := &bytes.Buffer{}
	archive := zip.NewWriter(out)
	info := name + "-" + version + ".dist-info/"
	for _, file := range [][2]string{
		{name + "/__init__.py", code},
		{info + "METADATA", "Metadata-Version: 2.1\nName: " + name + "\nVersion: " + version + "\n"},
		{info + "WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"},
		{info + "RECORD", name + "/__init__.py,,\n" + info + "METADATA,,\n" + info + "WHEEL,,\n" + info + "RECORD,,\n"},
	} {
		entry, err := archive.Create(file[0])
		g.Expect(err).NotTo(HaveOccurred())
		_, err = io.WriteString(entry, file[1])
		g.Expect(err).NotTo(HaveOccurred())
	}
	g.Expect(archive.Close()).To(Succeed())
	return out.Bytes()
}

// backend builds the wheel of its folder, and needs no other package for it.
const backend = `import os, zipfile
def build_wheel(directory, config_settings=None, metadata_directory=None):
    name = "fromsource-1.0-py3-none-any.whl"
    info = "fromsource-1.0.dist-info/"
    with zipfile.ZipFile(os.path.join(directory, name), "w") as z:
        z.writestr("fromsource.py", "BUILT = True\n")
        z.writestr(info + "METADATA", "Metadata-Version: 2.1\nName: fromsource\nVersion: 1.0\n")
        z.writestr(info + "WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        z.writestr(info + "RECORD", "fromsource.py,,\n")
    return name
`

func sdist(t *testing.T, name, build string) []byte {
	g := NewWithT(t)
	out := &bytes.Buffer{}
	packed := gzip.NewWriter(out)
	archive := tar.NewWriter(packed)
	for _, file := range [][2]string{
		{"pyproject.toml", "[build-system]\nrequires = []\nbuild-backend = \"build_it\"\nbackend-path = [\".\"]\n"},
		{"build_it.py", build},
		{"PKG-INFO", "Metadata-Version: 2.1\nName: " + name + "\nVersion: 1.0\n"},
	} {
		g.Expect(archive.WriteHeader(&tar.Header{Name: name + "-1.0/" + file[0], Mode: 0o644, Size: int64(len(file[1]))})).To(Succeed())
		_, err := io.WriteString(archive, file[1])
		g.Expect(err).NotTo(HaveOccurred())
	}
	g.Expect(archive.Close()).To(Succeed())
	g.Expect(packed.Close()).To(Succeed())
	return out.Bytes()
}

// pythonBuild is a build of an inline source whose pip is the machine's own.
func pythonBuild(t *testing.T, s *store, requirements, conf string) *build {
	const handler = "def main(event, context):\n    return 'hello'\n"
	b := newBuild(t, s)
	b.plan.Runtime = "python313"
	b.write("inline/source", handler)
	b.write("inline/dependencies", requirements)
	b.write("packages/pip.conf", conf)
	tree, err := gitsource.NewTree(builder.InlineFiles(runtimes.Default()["python313"], handler, requirements))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	b.plan.Tree = tree.ID
	b.change = func(_ builder.Stage, o *options) { ofMachine(o) }
	return b
}

// ofMachine makes the machine's pip, and no setting of it, that of the build.
func ofMachine(o *options) {
	o.pythonCommand = []string{"/usr/bin/python3"}
	o.environ = slices.DeleteFunc(o.environ, func(v string) bool { return strings.HasPrefix(v, "PIP_") })
}

const modules = "kubeless/lib/python3.13/site-packages/"

func TestPipInstallsFromAPrivateIndex(t *testing.T) {
	g := NewWithT(t)
	x := newIndex(t, httptest.NewServer)
	const requirements = "# what we need\npad==1.0\nfromsource\n"
	s := newStore(t)
	b := pythonBuild(t, s, requirements, x.conf(indexPassword))
	result := b.succeed()
	g.Expect(result.Cached).To(BeFalse())
	g.Expect(result.Floating).To(BeTrue(), "nothing has hashes")

	layers, err := s.image(t, b.plan.Pin()).Layers()
	g.Expect(err).NotTo(HaveOccurred())
	all := map[string]string{}
	for _, layer := range layers[3:] {
		for name, what := range filesOf(t, layer) {
			all[name] = what
			g.Expect(what).NotTo(ContainSubstring(indexPassword), name)
		}
	}
	g.Expect(all).To(HaveKeyWithValue("kubeless/handler.py", HavePrefix("644 def main")))
	g.Expect(all).To(HaveKeyWithValue(modules+"pad/__init__.py", "644 WIDTH = 1\n"))
	g.Expect(all).To(HaveKeyWithValue(modules+"fromsource.py", "644 BUILT = True\n"))
	var bytecode []string
	for name, what := range all {
		if strings.HasSuffix(name, ".pyc") {
			bytecode = append(bytecode, name)
			// After the mode: the magic number, then the flag that says by hash and unchecked.
			g.Expect([]byte(what)[8:12]).To(Equal([]byte{1, 0, 0, 0}), name)
			g.Expect(what).To(ContainSubstring("/kubeless/lib/python3.13"), "of paths it says where the files are")
			g.Expect(what).NotTo(ContainSubstring(b.dir))
		}
	}
	g.Expect(bytecode).To(HaveLen(2))

	again := pythonBuild(t, s, requirements, x.conf(indexPassword)).succeed()
	g.Expect(again.Digest).To(Equal(result.Digest), "with the dependencies from the registry")
	g.Expect(again.Cached).To(BeTrue())
	other := newStore(t)
	moved := pythonBuild(t, other, requirements, x.conf(indexPassword)).succeed()
	g.Expect(moved.Cached).To(BeFalse())
	g.Expect(moved.DependencyBytes).To(Equal(result.DependencyBytes), "installed anew, the layer is the same")
}

func TestPipTrustsTheBundle(t *testing.T) {
	g := NewWithT(t)
	x := newIndex(t, httptest.NewTLSServer)
	const requirements = "pad==2.0"
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: x.Certificate().Raw})
	trusting := pythonBuild(t, newStore(t), requirements, x.conf(indexPassword))
	bundle := filepath.Join(trusting.dir, "bundle.crt")
	g.Expect(os.WriteFile(bundle, authority, 0o600)).To(Succeed())
	trusting.change = func(stage builder.Stage, o *options) {
		ofMachine(o)
		if stage == builder.StageInstall {
			o.trustBundle = bundle
		}
	}
	trusting.succeed()
}

func TestPipFailures(t *testing.T) {
	x := newIndex(t, httptest.NewServer)
	anonymous := "[global]\nindex-url = " + x.URL + "/simple\n"
	rows := []struct {
		name, requirements, conf string
		class                    builder.Class
		says                     string
	}{
		{"a wrong password", "pad", x.conf("wrong-password"), builder.ClassDependencyAuth,
			"the package registry " + x.host() + " refused the credential; check pip.conf in Secret serverless-package-registry-config"},
		{"no password", "pad", anonymous, builder.ClassDependencyAuth,
			"the package registry " + x.host() + " refused the credential; check pip.conf in Secret serverless-package-registry-config"},
		{"no such package", "nosuch", x.conf(indexPassword), builder.ClassDependencyNotFound,
			"the package registry has no nosuch that fits; check its name and version, or name its registry in pip.conf"},
		{"no such version", "pad==3", x.conf(indexPassword), builder.ClassDependencyNotFound, "the package registry has no pad==3 that fits"},
		{"another hash", "pad==1.0 --hash=sha256:" + strings.Repeat("0", 64), x.conf(indexPassword), builder.ClassInstallFailed,
			"a package is not the one whose hash requirements.txt has"},
		{"hashes for some", fmt.Sprintf("pad==1.0 --hash=sha256:%x\nfromsource==1.0", sha256.Sum256(x.files["pad/pad-1.0-py3-none-any.whl"])), x.conf(indexPassword), builder.ClassInstallFailed,
			"requirements.txt has hashes for some packages and not for all"},
		{"what cannot be read", "pad=1.0", x.conf(indexPassword), builder.ClassInstallFailed, "requirements.txt cannot be read: Invalid requirement: "},
		{"a build that fails", "unbuildable", x.conf(indexPassword), builder.ClassInstallFailed, "a package could not be built from its source"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			g := NewWithT(t)
			b := pythonBuild(t, newStore(t), row.requirements, row.conf)
			told := b.run(t.Context())[builder.StageInstall]
			g.Expect(told.code).NotTo(BeZero())
			g.Expect(told.report.Error).NotTo(BeNil(), told.out)
			g.Expect(told.report.Error.Message).To(HavePrefix(row.says), told.out)
			g.Expect(told.report.Error.Class).To(Equal(row.class))
			for _, secret := range []string{indexPassword, "wrong-password"} {
				g.Expect(told.out + told.report.Error.Output + told.report.Error.Message).NotTo(ContainSubstring(secret))
			}
		})
	}
}

func TestClassifyPip(t *testing.T) {
	rows := []struct {
		name, output string
		class        builder.Class
		says         string
	}{
		{"nobody listens", "WARNING: Retrying (Retry(total=0, connect=None)) after connection broken by 'NewConnectionError('x: Failed to establish a new connection: [Errno 111] Connection refused')': /simple/pad/\nERROR: No matching distribution found for pad\nhttp://me:pw@pip.example:81/simple/pad/: connection error",
			builder.ClassDependencyUnavailable, "the package registry pip.example:81 does not answer: Retrying"},
		{"the index is broken", "ERROR: No matching distribution found for pad\nhttps://pip.example/simple/pad/: 503 Server Error: Service Unavailable for url: https://pip.example/simple/pad/ - skipping",
			builder.ClassDependencyUnavailable, "the package registry pip.example does not answer: https://pip.example/simple/pad/: 503 Server Error"},
		{"forbidden", "ERROR: No matching distribution found for pad\nhttps://pip.example/simple/pad/: 403 Client Error: Forbidden for url: https://pip.example/simple/pad/ - skipping",
			builder.ClassDependencyAuth, "the package registry pip.example refused the credential"},
		{"an unknown authority", "ERROR: No matching distribution found for pad\nhttps://pip.example/simple/pad/: There was a problem confirming the ssl certificate: CERTIFICATE_VERIFY_FAILED - skipping",
			builder.ClassInstallFailed, "the certificate of the package registry pip.example is not trusted"},
		{"a conflict", "ERROR: Cannot install a and b because these package versions have conflicting dependencies.\nERROR: ResolutionImpossible: for help visit x",
			builder.ClassInstallFailed, "dependencies conflict: Cannot install a and b"},
		{"a full volume", "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device",
			builder.ClassInstallFailed, "dependencies are larger than the build's volumes"},
		{"another error", "ERROR: something happened at https://me:pw@pip.example/x", builder.ClassInstallFailed, "pip install failed: something happened at https://pip.example/x"},
		{"nothing", "", builder.ClassInstallFailed, "pip install ended with code 1; see its output"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			g := NewWithT(t)
			lines := slices.DeleteFunc(strings.Split(row.output, "\n"), func(line string) bool { return line == "" })
			class, message := classifyPip(1, lines)
			g.Expect(message).To(HavePrefix(row.says))
			g.Expect(class).To(Equal(row.class))
			g.Expect(message).NotTo(ContainSubstring("me:pw"))
		})
	}
}
