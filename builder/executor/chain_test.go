package executor

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	ggcr "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	. "github.com/onsi/gomega"

	"github.com/gitfn/gitfn/builder"
	"github.com/gitfn/gitfn/gitsource"
	"github.com/gitfn/gitfn/runtimes"
)

// store is a registry that wants a credential, counts what it is sent, and
// answers wrongly where a test says so.
type store struct {
	host, base string

	mu     sync.Mutex
	sent   int64    // bytes of blobs
	pushes []string // references of manifests, in order
	answer func(*http.Request) int
}

const username, password = "somebody", "correct horse"

func newStore(t *testing.T) *store {
	s := &store{}
	handler := ggcr.New(ggcr.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u, p, _ := r.BasicAuth()
		if u != username || p != password {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		s.mu.Lock()
		answer := s.answer
		s.mu.Unlock()
		if answer != nil {
			if code := answer(r); code != 0 {
				http.Error(w, "not now", code)
				return
			}
		}
		if r.Method == http.MethodPatch {
			body, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(body))
			s.mu.Lock()
			s.sent += int64(len(body))
			s.mu.Unlock()
		}
		if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/manifests/") {
			s.mu.Lock()
			s.pushes = append(s.pushes, r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:])
			s.mu.Unlock()
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	s.host = strings.TrimPrefix(server.URL, "http://")
	s.base = s.pushBase(t)
	s.reset() // what a test counts begins here
	return s
}

// pushBase stores what stands for the image of a runtime.
func (s *store) pushBase(t *testing.T) string {
	g := NewWithT(t)
	image, err := random.Image(2048, 3)
	g.Expect(err).NotTo(HaveOccurred())
	image, err = mutate.Config(image, v1.Config{WorkingDir: "/usr/src/app", Entrypoint: []string{"node", "server.mjs"}, User: "1000"})
	g.Expect(err).NotTo(HaveOccurred())
	digest, err := image.Digest()
	g.Expect(err).NotTo(HaveOccurred())
	reference := s.host + "/system/runtimes/nodejs22@" + digest.String()
	ref, err := name.ParseReference(reference, name.Insecure)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(remote.Write(ref, image, remote.WithAuthFromKeychain(keysOf(s.host)))).To(Succeed())
	return reference
}

// answers makes the registry give another answer from now on; 0 is its own.
func (s *store) answers(answer func(*http.Request) int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

// image reads an image back, wholly checked.
func (s *store) image(t *testing.T, reference string) v1.Image {
	g := NewWithT(t)
	ref, err := name.ParseReference(reference, name.Insecure)
	g.Expect(err).NotTo(HaveOccurred())
	image, err := remote.Image(ref, remote.WithAuthFromKeychain(keysOf(s.host)))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(validate.Image(image)).To(Succeed())
	return image
}

func (s *store) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent, s.pushes = 0, nil
}

// build is one run of the three stages, each with its own options as its
// container would give them.
type build struct {
	t     *testing.T
	store *store
	plan  builder.Plan
	dir   string
	// change may alter the options of a stage before it runs.
	change func(builder.Stage, *options)
	// auth is how the Git source's Secret is read; basic if it is empty.
	auth string
	// npm is what the package manager does, as a shell script.
	npm string
}

// told is what a stage left.
type told struct {
	code   int
	report builder.Report
	out    string
}

// inlineBuild is a build of an inline source.
func inlineBuild(t *testing.T, s *store, source, dependencies string) *build {
	b := newBuild(t, s)
	b.write("inline/source", source)
	b.write("inline/dependencies", dependencies)
	tree, err := gitsource.NewTree(builder.InlineFiles(runtimes.Default()[b.plan.Runtime], source, dependencies))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	b.plan.Tree = tree.ID
	return b
}

func newBuild(t *testing.T, s *store) *build {
	b := &build{t: t, store: s, dir: t.TempDir(), plan: builder.Plan{
		Namespace: "ns", Name: "fn", Runtime: "nodejs22", Base: s.base, Recipe: builder.Recipe, Repository: s.host + "/ns/fn",
	}}
	b.npm = `mkdir -p node_modules/left-pad node_modules/.bin
echo 'module.exports = 1' > node_modules/left-pad/index.js
ln -s ../left-pad/index.js node_modules/.bin/pad`
	pair := base64.StdEncoding.EncodeToString([]byte(username + ":" + password))
	b.write("docker/config.json", fmt.Sprintf(`{"auths":{"http://%s/v2/":{"auth":%q}}}`, s.host, pair))
	return b
}

func (b *build) write(file, text string) {
	file = filepath.Join(b.dir, file)
	g := NewWithT(b.t)
	g.Expect(os.MkdirAll(filepath.Dir(file), 0o755)).To(Succeed())
	g.Expect(os.WriteFile(file, []byte(text), 0o644)).To(Succeed())
}

// options are those of a container that has just started.
func (b *build) options(stage builder.Stage) *options {
	text, err := json.Marshal(b.plan)
	g := NewWithT(b.t)
	g.Expect(err).NotTo(HaveOccurred())
	at := func(name string) string { return filepath.Join(b.dir, name) }
	for _, dir := range []string{"source", "layers", "work", "tmp-" + string(stage)} {
		g.Expect(os.MkdirAll(at(dir), 0o755)).To(Succeed())
	}
	args := []string{string(stage), "--plan=" + string(text), "--source=" + at("source"), "--layers=" + at("layers"), "--work=" + at("work"),
		"--tmp=" + at("tmp-"+string(stage)), "--inline=" + at("inline"), "--docker-config=" + at("docker"), "--packages=" + at("packages"),
		"--termination-log=" + at("termination-"+string(stage)), "--plain-http", "--timeout=1m", "--wait=1m", "--allow=127.0.0.0/8"}
	o, err := parse(args)
	g.Expect(err).NotTo(HaveOccurred())
	b.write("npm", "echo \"$@\" >> "+at("npm-calls")+"\n"+b.npm+"\n")
	o.npmCommand, o.environ = []string{"/bin/sh", at("npm")}, os.Environ()
	if b.change != nil {
		b.change(stage, o)
	}
	return o
}

// run runs stages at the same time.
func (b *build) run(ctx context.Context, which ...builder.Stage) map[builder.Stage]told {
	if len(which) == 0 {
		which = []builder.Stage{builder.StageFetch, builder.StageInstall, builder.StagePush}
	}
	all, mu := map[builder.Stage]told{}, sync.Mutex{}
	ready := map[builder.Stage]*options{} // before any starts: they share files
	for _, stage := range which {
		ready[stage] = b.options(stage)
	}
	var group sync.WaitGroup
	for stage, o := range ready {
		out := &bytes.Buffer{}
		o.out = out
		group.Go(func() {
			code := run(ctx, stage, o)
			text, _ := os.ReadFile(o.termination)
			report, _ := builder.DecodeReport(string(text))
			mu.Lock()
			defer mu.Unlock()
			all[stage] = told{code, report, out.String()}
		})
	}
	group.Wait()
	return all
}

// succeed runs all stages and wants a result.
func (b *build) succeed() builder.Result {
	b.t.Helper()
	g := NewWithT(b.t)
	all := b.run(b.t.Context())
	for stage, told := range all {
		g.Expect(told.code).To(BeZero(), "%s: %+v %s", stage, told.report.Error, told.out)
	}
	g.Expect(all[builder.StageFetch].report).To(BeZero())
	g.Expect(all[builder.StageInstall].report).To(BeZero())
	g.Expect(all[builder.StagePush].report.Result).NotTo(BeNil())
	return *all[builder.StagePush].report.Result
}

// npmCalls are the arguments that the package manager was called with.
func (b *build) npmCalls() []string {
	text, _ := os.ReadFile(filepath.Join(b.dir, "npm-calls"))
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// filesOf lists what a layer holds: a name, with what it is.
func filesOf(t *testing.T, layer v1.Layer) map[string]string {
	g := NewWithT(t)
	reader, err := layer.Uncompressed()
	g.Expect(err).NotTo(HaveOccurred())
	defer reader.Close()
	files := map[string]string{}
	in := tar.NewReader(reader)
	for {
		h, err := in.Next()
		if err == io.EOF {
			return files
		}
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(h.ModTime.Unix()).To(BeZero())
		g.Expect(h.Uid + h.Gid).To(BeZero())
		content, err := io.ReadAll(in)
		g.Expect(err).NotTo(HaveOccurred())
		files[h.Name] = fmt.Sprintf("%o %s%s", h.Mode, h.Linkname, content)
	}
}

const (
	hello   = "module.exports = { main: () => 'hello' }\n"
	padding = `{"dependencies":{"left-pad":"1.3.0"}}`
	dir     = "usr/src/app/function/"
)

func TestBuildWithoutDependencies(t *testing.T) {
	g := NewWithT(t)
	s := newStore(t)
	hints := make(chan string, 10)
	manager := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		hints <- string(text)
	}))
	t.Cleanup(manager.Close)
	b := inlineBuild(t, s, hello, " \n")
	b.change = func(_ builder.Stage, o *options) { o.hint = manager.URL }
	result := b.succeed()

	g.Expect(result.DependencyKey).To(BeEmpty())
	g.Expect(result.Cached).To(BeFalse())
	g.Expect(result.Floating).To(BeFalse())
	g.Expect(result.SourceBytes).To(BeNumerically(">", 0))
	g.Expect(result.DependencyBytes).To(BeZero())
	g.Expect(hints).To(Receive(MatchJSON(fmt.Sprintf(`{"pin":%q}`, b.plan.Pin()))))
	g.Expect(b.npmCalls()).To(Equal([]string{""}), "no package manager runs")

	image := s.image(t, b.plan.Pin())
	digest, err := image.Digest()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(digest.String()).To(Equal(result.Digest))
	layers, err := image.Layers()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(layers).To(HaveLen(4), "three of the base, and the source")
	g.Expect(filesOf(t, layers[3])).To(Equal(map[string]string{dir: "755 ", dir + "handler.js": "644 " + hello}))
	config, err := image.ConfigFile()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(config.Config.WorkingDir).To(Equal("/usr/src/app"))
	g.Expect(config.Config.Entrypoint).To(Equal([]string{"node", "server.mjs"}))
	g.Expect(config.Config.User).To(Equal("1000"))
	g.Expect(config.Created.Unix()).To(BeZero())
	g.Expect(config.Config.Labels).To(Equal(map[string]string{
		labelTree: b.plan.Tree, labelRecipe: "1", labelBase: b.plan.BaseDigest(), labelBaseOf: "system/runtimes/nodejs22",
	}))
}

func TestSamePlanIsSameDigest(t *testing.T) {
	g := NewWithT(t)
	s, other := newStore(t), newStore(t)
	first := inlineBuild(t, s, hello, padding).succeed()
	g.Expect(inlineBuild(t, s, hello, padding).succeed().Digest).To(Equal(first.Digest), "with the dependencies from the registry")

	moved := inlineBuild(t, other, hello, padding)
	ref, err := name.ParseReference(other.host+"/system/runtimes/nodejs22:copy", name.Insecure)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(remote.Write(ref, s.image(t, s.base), remote.WithAuthFromKeychain(keysOf(other.host)))).To(Succeed())
	_, digest, _ := strings.Cut(s.base, "@")
	moved.plan.Base = other.host + "/system/runtimes/nodejs22@" + digest
	g.Expect(moved.succeed().Digest).To(Equal(first.Digest), "in another registry, with the dependencies installed again")
}

func TestSourceOnlyChange(t *testing.T) {
	g := NewWithT(t)
	s := newStore(t)
	first := inlineBuild(t, s, hello, padding)
	result := first.succeed()
	g.Expect(first.npmCalls()).To(HaveLen(1))
	g.Expect(first.npmCalls()[0]).To(HavePrefix("install --omit=dev "))
	g.Expect(result.Floating).To(BeTrue())
	g.Expect(result.Cached).To(BeFalse())
	g.Expect(s.pushes).To(ConsistOf(first.plan.Key(), "deps-"+result.DependencyKey))
	layers, err := s.image(t, first.plan.Pin()).Layers()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(layers).To(HaveLen(5))
	modules := dir + "node_modules/"
	g.Expect(filesOf(t, layers[3])).To(Equal(map[string]string{
		modules: "755 ", modules + ".bin/": "755 ", modules + ".bin/pad": "777 ../left-pad/index.js",
		modules + "left-pad/": "755 ", modules + "left-pad/index.js": "644 module.exports = 1\n",
	}))
	g.Expect(filesOf(t, layers[4])).To(HaveKeyWithValue(dir+"package.json", "644 "+padding))

	s.reset()
	changed := inlineBuild(t, s, hello+"// new\n", padding)
	again := changed.succeed()
	g.Expect(changed.npmCalls()).To(Equal([]string{""}), "no package manager runs")
	g.Expect(again.Cached).To(BeTrue())
	g.Expect(again.DependencyKey).To(Equal(result.DependencyKey))
	g.Expect(again.DependencyBytes).To(Equal(result.DependencyBytes))
	g.Expect(s.pushes).To(Equal([]string{changed.plan.Key()}))
	image := s.image(t, changed.plan.Pin())
	manifest, err := image.Manifest()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.sent).To(Equal(again.SourceBytes+manifest.Config.Size), "the source layer and the configuration, nothing else")
}

func TestBaseFromAnotherRegistry(t *testing.T) {
	g := NewWithT(t)
	s, far := newStore(t), newStore(t)
	b := inlineBuild(t, s, hello, "")
	b.plan.Base = far.base
	b.write("docker/config.json", fmt.Sprintf(`{"auths":{%q:{"username":%q,"password":%q},%q:{"username":%q,"password":%q}}}`,
		s.host, username, password, far.host, username, password))
	result := b.succeed()
	g.Expect(result.Digest).NotTo(BeEmpty())
	s.image(t, b.plan.Pin())
}

func TestGitBuild(t *testing.T) {
	g := NewWithT(t)
	s := newStore(t)
	files := map[string]string{
		"fn/handler.js": hello, "fn/lib/util.js": "1", "fn/.npmrc": "//r/:_authToken=${T}", "fn/node_modules/old/x.js": "0",
		"fn/package.json": padding, "fn/package-lock.json": `{"lockfileVersion":3,"packages":{"":{},"node_modules/left-pad":{}}}`,
	}
	b := gitBuild(t, s, files)
	b.npm += "\nls -A . lib >&2; mkdir lib; true"
	all := b.run(t.Context())
	g.Expect(all[builder.StagePush].report.Result).NotTo(BeNil(), "%+v", all)
	g.Expect(b.npmCalls()[0]).To(HavePrefix("ci --omit=dev "))
	g.Expect(all[builder.StageInstall].out).To(ContainSubstring("package-lock.json"))
	g.Expect(all[builder.StageInstall].out).To(ContainSubstring(".npmrc"))
	g.Expect(all[builder.StageInstall].out).NotTo(ContainSubstring("handler.js"), "npm sees only what is in the key")
	g.Expect(all[builder.StagePush].report.Result.Floating).To(BeFalse())
	layers, err := s.image(t, b.plan.Pin()).Layers()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(slices.Sorted(maps.Keys(filesOf(t, layers[4])))).To(Equal([]string{
		dir, dir + "handler.js", dir + "lib/", dir + "lib/util.js", dir + "package-lock.json", dir + "package.json",
	}), "neither npm's configuration nor the old modules are in the image")
}

func TestRealNpm(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	s := newStore(t)
	b := gitBuild(t, s, map[string]string{
		"fn/handler.js": hello, "fn/package.json": `{"name":"fn","dependencies":{"util":"file:libs/util"}}`,
		"fn/libs/util/package.json": `{"name":"util","version":"1.0.0","bin":"x.js"}`, "fn/libs/util/x.js": "1",
	})
	credentials := b.change
	b.change = func(stage builder.Stage, o *options) {
		credentials(stage, o)
		o.npmCommand = []string{"npm"}
		o.environ = append(o.environ, "npm_config_offline=true")
	}
	b.succeed()
	layers, err := s.image(t, b.plan.Pin()).Layers()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(filesOf(t, layers[3])).To(Equal(map[string]string{
		dir + "node_modules/": "755 ", dir + "node_modules/util": "777 ../libs/util",
		dir + "node_modules/.bin/": "755 ", dir + "node_modules/.bin/util": "777 ../util/x.js",
	}), "npm links a directory into the source layer")
}

// TestWhatIsIncludedIsBuilt has a package of the repository as a dependency, as real npm takes it.
func TestWhatIsIncludedIsBuilt(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	s := newStore(t)
	fn := map[string]string{"handler.js": hello, "package.json": `{"name":"fn","dependencies":{"util":"file:libs/util"}}`}
	util := map[string]string{"package.json": `{"name":"util","version":"1.0.0"}`, "index.js": "1"}
	repository, joined := map[string]string{"README.md": "x"}, map[string]string{}
	for file, text := range fn {
		repository["fn/"+file], joined[file] = text, text
	}
	for file, text := range util {
		repository["packages/util/"+file], joined["libs/util/"+file] = text, text
	}
	b := gitBuild(t, s, repository)
	b.plan.Origin.Include = []gitsource.Include{{Path: "packages/util", To: "libs/util"}}
	tree, err := gitsource.NewTree(joined)
	g.Expect(err).NotTo(HaveOccurred())
	b.plan.Tree = tree.ID
	credentials := b.change
	b.change = func(stage builder.Stage, o *options) {
		credentials(stage, o)
		o.npmCommand = []string{"npm"}
		o.environ = append(o.environ, "npm_config_offline=true")
	}
	b.succeed()
	layers, err := s.image(t, b.plan.Pin()).Layers()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(filesOf(t, layers[3])).To(HaveKeyWithValue(dir+"node_modules/util", "777 ../libs/util"))
	g.Expect(filesOf(t, layers[4])).To(And(HaveKeyWithValue(dir+"libs/util/index.js", "644 1"), Not(HaveKey(ContainSubstring("README")))))
}

// gitBuild is a build of directory fn of a repository that a real Git server has.
func gitBuild(t *testing.T, s *store, files map[string]string) *build {
	g := NewWithT(t)
	b := newBuild(t, s)
	for file, text := range files {
		b.write("git/repo/"+file, text)
	}
	repo := filepath.Join(b.dir, "git/repo")
	git := func(args ...string) string {
		cmd := exec.Command("git", args...)
		cmd.Dir = repo
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org")
		out, err := cmd.CombinedOutput()
		g.Expect(err).NotTo(HaveOccurred(), string(out))
		return strings.TrimSpace(string(out))
	}
	git("init", "-q", "-b", "main")
	git("config", "uploadpack.allowFilter", "true")
	git("config", "uploadpack.allowAnySHA1InWant", "true")
	git("config", "http.receivepack", "false")
	git("add", "-f", "-A")
	git("commit", "-q", "-m", "x")
	core := git("--exec-path")
	backend := &cgi.Handler{Path: filepath.Join(core, "git-http-backend"), Dir: repo, InheritEnv: []string{"PATH"}, Stderr: io.Discard,
		Env: []string{"GIT_PROJECT_ROOT=" + filepath.Dir(repo), "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, p, _ := r.BasicAuth(); p != password {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			http.Error(w, "who?", http.StatusUnauthorized)
			return
		}
		if protocol := r.Header.Get("Git-Protocol"); protocol != "" {
			r.Header.Set("Git-Protocol", protocol)
		}
		backend.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	b.plan.Origin = builder.Origin{URL: server.URL + "/repo", Commit: git("rev-parse", "HEAD"), BaseDir: "fn"}
	b.plan.Tree = git("rev-parse", "HEAD:fn")
	b.write("git-credentials/username", username)
	b.write("git-credentials/password", password)
	b.change = func(_ builder.Stage, o *options) {
		o.gitCredentials, o.gitAuth = filepath.Join(b.dir, "git-credentials"), cmp.Or(b.auth, "basic")
	}
	return b
}

func TestHintThatIsLost(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	asked := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-asked }))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(asked) })
	b := inlineBuild(t, newStore(t), hello, "")
	b.change = func(_ builder.Stage, o *options) { o.hint = server.URL }
	began := time.Now()
	b.succeed()
	g.Expect(time.Since(began)).To(BeNumerically("<", 10*time.Second))
}
