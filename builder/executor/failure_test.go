package executor

import (
	"archive/tar"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/gitfn/gitfn/builder"
	"github.com/gitfn/gitfn/builder/cache"
)

func TestFailures(t *testing.T) {
	blobs := func(r *http.Request) bool { return strings.Contains(r.URL.Path, "/blobs/uploads/") }
	refuse := func(code int, which func(*http.Request) bool) func(*build) {
		return func(b *build) {
			b.store.answers(func(r *http.Request) int {
				if which(r) {
					return code
				}
				return 0
			})
		}
	}
	only := func(stage builder.Stage, change func(*options)) func(*build) {
		return func(b *build) {
			b.change = func(s builder.Stage, o *options) {
				if s == stage {
					change(o)
				}
			}
		}
	}
	rows := []struct {
		name         string
		dependencies string
		arrange      func(*build)
		stage        builder.Stage
		class        builder.Class
		says         string
	}{
		{name: "the source is another tree than the plan's", arrange: func(b *build) { b.plan.Tree = strings.Repeat("0", 40) },
			stage: builder.StageFetch, class: builder.ClassSourceInvalid, says: "0000"},
		{name: "package.json is no JSON", dependencies: "{", stage: builder.StageFetch, class: builder.ClassSourceInvalid, says: "package.json cannot be read"},
		{name: "the registry does not say whether the dependencies are there", dependencies: padding,
			arrange: refuse(500, func(r *http.Request) bool {
				return strings.Contains(r.URL.Path, "/manifests/deps-") && r.Method == http.MethodGet
			}),
			stage: builder.StageFetch, class: builder.ClassRegistryUnavailable, says: "deps-"},
		{name: "a proxy's 404 does not say that the dependencies are not there", dependencies: padding,
			arrange: refuse(404, func(r *http.Request) bool {
				return strings.Contains(r.URL.Path, "/manifests/deps-") && r.Method == http.MethodGet
			}),
			stage: builder.StageFetch, class: builder.ClassRegistryUnavailable, says: "deps-"},
		{name: "npm does not know a package", dependencies: padding,
			arrange: func(b *build) {
				b.npm = `printf '\033[31mnpm error code E404\033[0m\nnpm error 404 Not Found - GET https://registry.example/left-padx - Not found\nnpm error 404  '"'"'left-padx@1.0.0'"'"' is not in this registry.\n' >&2; exit 1`
			}, stage: builder.StageInstall, class: builder.ClassDependencyNotFound, says: "registry.example has no left-padx@1.0.0"},
		{name: "npm takes too long", dependencies: padding,
			arrange: func(b *build) {
				b.npm = "echo begun; sleep 100"
				only(builder.StageInstall, func(o *options) { o.timeout = 300 * time.Millisecond })(b)
			}, stage: builder.StageInstall, class: builder.ClassTimeout, says: "install took longer than 300ms"},
		{name: "npm is not there", dependencies: padding, arrange: only(builder.StageInstall, func(o *options) { o.npmCommand = []string{"/nowhere/npm"} }),
			stage: builder.StageInstall, class: builder.ClassInstallFailed, says: "npm does not start"},
		{name: "dependencies are too large", dependencies: padding,
			arrange: only(builder.StageInstall, func(o *options) { o.limits = cache.Limits{Bytes: 10, Entries: 100} }),
			stage:   builder.StageInstall, class: builder.ClassInstallFailed, says: "more than 0 MiB"},
		{name: "the credential may not push", arrange: refuse(403, blobs), stage: builder.StagePush, class: builder.ClassRegistryAuth, says: "push layer to"},
		{name: "the credential is refused", arrange: only(builder.StagePush, func(o *options) { o.dockerConfig = "" }),
			stage: builder.StagePush, class: builder.ClassRegistryAuth, says: "credential refused"},
		{name: "the registry is read-only", arrange: refuse(503, blobs), stage: builder.StagePush, class: builder.ClassRegistryUnavailable, says: "push layer to"},
		{name: "the registry has no room", arrange: refuse(507, blobs), stage: builder.StagePush, class: builder.ClassRegistryUnavailable, says: "push layer to"},
		{name: "the registry limits requests", arrange: refuse(429, blobs), stage: builder.StagePush, class: builder.ClassRegistryUnavailable, says: "push layer to"},
		{name: "the base image is not there",
			arrange: func(b *build) { b.plan.Base = b.store.host + "/system/none@sha256:" + strings.Repeat("0", 64) },
			stage:   builder.StagePush, class: builder.ClassRegistryUnavailable, says: "system/none"},
		{name: "the registry speaks no TLS and is not said to", arrange: only(builder.StagePush, func(o *options) { o.plainHTTP = false }),
			stage: builder.StagePush, class: builder.ClassRegistryUnavailable, says: "not configured for plain HTTP"},
		{name: "the registry hangs",
			arrange: func(b *build) {
				only(builder.StagePush, func(o *options) { o.timeout = 300 * time.Millisecond })(b)
				b.store.answers(func(r *http.Request) int {
					if blobs(r) {
						<-r.Context().Done()
					}
					return 0
				})
			}, stage: builder.StagePush, class: builder.ClassTimeout, says: "push took longer than 300ms"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			b := inlineBuild(t, newStore(t), hello, row.dependencies)
			if row.arrange != nil {
				row.arrange(b)
			}
			began := time.Now()
			all := b.run(t.Context())
			g.Expect(time.Since(began)).To(BeNumerically("<", 30*time.Second), "nobody waits for who has failed")
			failure := all[row.stage].report.Error
			g.Expect(failure).NotTo(BeNil(), "%+v", all)
			g.Expect(failure.Stage).To(Equal(row.stage))
			g.Expect(failure.Class).To(Equal(row.class))
			g.Expect(failure.Message).To(ContainSubstring(row.says))
			g.Expect(all[row.stage].code).To(Equal(exitFailed))
			for stage, told := range all {
				g.Expect(told.out).NotTo(ContainSubstring(password))
				if stage != row.stage {
					g.Expect(told.report).To(BeZero(), "only one stage reports")
				}
			}
		})
	}
}

func TestGitFailures(t *testing.T) {
	rows := []struct {
		name    string
		files   map[string]string
		arrange func(*build)
		class   builder.Class
		says    string
	}{
		{name: "the handler is not there", files: map[string]string{"fn/index.js": "1"}, class: builder.ClassSourceInvalid, says: "no handler.js in fn"},
		{name: "the lock file is Yarn's", files: map[string]string{"fn/handler.js": hello, "fn/package.json": padding, "fn/yarn.lock": ""},
			class: builder.ClassInstallFailed, says: "npm install --package-lock-only"},
		{name: "a name would delete files", files: map[string]string{"fn/handler.js": hello, "fn/.wh.x": ""}, class: builder.ClassSourceInvalid, says: ".wh."},
		{name: "the credential is refused", files: map[string]string{"fn/handler.js": hello},
			arrange: func(b *build) { b.write("git-credentials/password", "wrong horse") }, class: builder.ClassGitAuth, says: ""},
		{name: "the Secret has no password", files: map[string]string{"fn/handler.js": hello},
			arrange: func(b *build) { _ = os.Remove(filepath.Join(b.dir, "git-credentials/password")) }, class: builder.ClassGitAuth, says: "the Secret has no key password"},
		{name: "the Secret is of another kind", files: map[string]string{"fn/handler.js": hello},
			arrange: func(b *build) { b.auth = "githubApp" }, class: builder.ClassGitAuth, says: "the Secret has no key githubAppID"},
		{name: "the Secret has a proxy that is none", files: map[string]string{"fn/handler.js": hello},
			arrange: func(b *build) { b.write("git-credentials/proxy", "horse:3128") }, class: builder.ClassGitAuth, says: "proxy cannot be used"},
		{name: "the Secret has a proxy that nobody may reach", files: map[string]string{"fn/handler.js": hello},
			arrange: func(b *build) {
				b.write("git-credentials/proxy", "http://u:horse@169.254.169.254")
				b.plan.Origin.URL = "http://203.0.113.1/fn.git"
			},
			class: builder.ClassSourceInvalid, says: "169.254.169.254"},
		{name: "the commit is gone", files: map[string]string{"fn/handler.js": hello},
			arrange: func(b *build) { b.plan.Origin.Commit = strings.Repeat("1", 40) }, class: builder.ClassRefNotFound, says: "1111"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			b := gitBuild(t, newStore(t), row.files)
			if row.arrange != nil {
				row.arrange(b)
			}
			all := b.run(t.Context())
			failure := all[builder.StageFetch].report.Error
			g.Expect(failure).NotTo(BeNil(), "%+v", all)
			g.Expect(failure.Class).To(Equal(row.class), failure.Message)
			g.Expect(failure.Message).To(ContainSubstring(row.says))
			g.Expect(all[builder.StageInstall].code).To(Equal(exitGaveUp))
			g.Expect(all[builder.StagePush].code).To(Equal(exitGaveUp))
			g.Expect(all[builder.StageFetch].out + failure.Message).NotTo(ContainSubstring("horse"))
		})
	}
}

func TestWaitingEnds(t *testing.T) {
	t.Run("nobody comes: a stage gives up without a word", func(t *testing.T) {
		g := NewWithT(t)
		b := inlineBuild(t, newStore(t), hello, "")
		b.change = func(_ builder.Stage, o *options) { o.wait = 50 * time.Millisecond }
		all := b.run(t.Context(), builder.StageInstall, builder.StagePush)
		for _, told := range all {
			g.Expect(told.code).To(Equal(exitGaveUp))
			g.Expect(told.report).To(BeZero())
		}
	})
	t.Run("SIGTERM ends every stage at once, without a word", func(t *testing.T) {
		g := NewWithT(t)
		b := inlineBuild(t, newStore(t), hello, padding)
		b.npm = "echo > running; sleep 100"
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			for ctx.Err() == nil {
				if _, err := os.Stat(filepath.Join(b.dir, "work/running")); err == nil {
					cancel()
				}
			}
		}()
		began := time.Now()
		all := b.run(ctx)
		g.Expect(time.Since(began)).To(BeNumerically("<", 20*time.Second))
		g.Expect(all[builder.StageInstall].code).To(Equal(exitStopped))
		g.Expect(all[builder.StagePush].code).To(Equal(exitStopped))
		g.Expect(all[builder.StageInstall].report).To(BeZero())
	})
}

// entry is one header of a hostile tar.
type entry struct {
	name, link string
	kind       byte
	body       string
	size       int64 // if it lies
}

func writeTar(t *testing.T, file string, entries ...entry) {
	g := NewWithT(t)
	out, err := os.Create(file)
	g.Expect(err).NotTo(HaveOccurred())
	defer out.Close()
	w := tar.NewWriter(out)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Linkname: e.link, Typeflag: e.kind, Mode: 0o6777, Size: int64(len(e.body)), Uid: 7, ModTime: time.Now()}
		if e.size != 0 {
			h.Size = e.size
		}
		g.Expect(w.WriteHeader(h)).To(Succeed())
		_, err := io.WriteString(w, e.body)
		g.Expect(err).NotTo(HaveOccurred())
	}
	_ = w.Flush() // a lying size is an error here, and what is wanted
	g.Expect(out.Sync()).To(Succeed())
}

func TestHostileInstall(t *testing.T) {
	top := entry{name: dir + "node_modules/", kind: tar.TypeDir}
	rows := []struct {
		name  string
		leave func(t *testing.T, layers string)
		says  string
	}{
		{"the word is forged and nothing is there", func(*testing.T, string) {}, "no such file"},
		{"deps.tar is a link to a secret", func(_ *testing.T, layers string) { _ = os.Symlink("/etc/shadow", filepath.Join(layers, fileDeps)) }, "install left no dependencies"},
		{"deps.tar is a pipe that nobody writes", func(_ *testing.T, layers string) { _ = syscall.Mkfifo(filepath.Join(layers, fileDeps), 0o666) }, "no regular file"},
		{"deps.tar is a directory", func(_ *testing.T, layers string) { _ = os.Mkdir(filepath.Join(layers, fileDeps), 0o777) }, "no regular file"},
		{"deps.tar is no tar", func(_ *testing.T, layers string) {
			_ = os.WriteFile(filepath.Join(layers, fileDeps), []byte(strings.Repeat("x", 2000)), 0o666)
		}, "no tar"},
		{"an entry lies about its size", func(t *testing.T, layers string) {
			writeTar(t, filepath.Join(layers, fileDeps), top, entry{name: dir + "node_modules/a", kind: tar.TypeReg, body: "x", size: 1 << 40})
		}, "more than 2048 MiB"},
		{"an entry breaks off", func(t *testing.T, layers string) {
			writeTar(t, filepath.Join(layers, fileDeps), top, entry{name: dir + "node_modules/a", kind: tar.TypeReg, body: "x", size: 1 << 20})
		}, "breaks off"},
		{"an entry is the handler", func(t *testing.T, layers string) {
			writeTar(t, filepath.Join(layers, fileDeps), entry{name: dir + "handler.js", kind: tar.TypeReg})
		}, "outside of"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			s := newStore(t)
			b := inlineBuild(t, s, hello, padding)
			g.Expect(b.run(t.Context(), builder.StageFetch)[builder.StageFetch].code).To(BeZero())
			layers := filepath.Join(b.dir, "layers")
			row.leave(t, layers)
			g.Expect(os.WriteFile(filepath.Join(layers, fileInstalled), []byte(`{"digest":"sha256:1"}`), 0o666)).To(Succeed())
			told := b.run(t.Context(), builder.StagePush)[builder.StagePush]
			g.Expect(told.report.Result).To(BeNil())
			g.Expect(told.report.Error).NotTo(BeNil())
			g.Expect(told.report.Error.Class).To(Equal(builder.ClassInstallFailed))
			g.Expect(told.report.Error.Message).To(ContainSubstring(row.says))
			g.Expect(s.pushes).To(BeEmpty())
		})
	}
}

func TestInstallClearsWhatScriptsLeft(t *testing.T) {
	g := NewWithT(t)
	b := inlineBuild(t, newStore(t), hello, padding)
	layers := filepath.Join(b.dir, "layers")
	victim := filepath.Join(b.dir, "victim")
	b.write("victim", "untouched")
	b.npm += `
cd ` + layers + `
ln -s ` + victim + ` deps.tar
ln -s ` + victim + ` .installed
mkdir -p deep/er && chmod 500 deep
mkfifo pipe
echo forged > other`
	result := b.succeed()
	g.Expect(result.Digest).NotTo(BeEmpty())
	text, err := os.ReadFile(victim)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(text)).To(Equal("untouched"))
	entries, err := os.ReadDir(layers)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(entries).To(HaveLen(2), "deps.tar and the word")
}
