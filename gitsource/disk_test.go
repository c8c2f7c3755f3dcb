package gitsource_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"

	"github.com/gitfn/gitfn/gitsource"
)

// childEnv makes the test program a process of its own that reads a repository and ends; tests kill it, or give it
// a small disk.
const childEnv = "GITSOURCE_TEST_CHILD"

// childTask is what it is to do, as JSON in the environment.
type childTask struct {
	URL, Dir, BaseDir string
	// Disks are sizes of a disk that is mounted at Dir, one after the other, as mount(8) has them.
	Disks []string
}

func TestMain(m *testing.M) {
	if text := os.Getenv(childEnv); text != "" {
		if err := beChild(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// beChild prints for each disk what resolving came to.
func beChild(text string) error {
	var task childTask
	if err := json.Unmarshal([]byte(text), &task); err != nil {
		return err
	}
	resolve := func(c *gitsource.Client) {
		got, err := c.Resolve(context.Background(), gitsource.Repository{URL: task.URL}, gitsource.Selection{Reference: "main", BaseDir: task.BaseDir}, 0)
		fmt.Printf("%s\t%t\t%v\n", got.Commit, errors.Is(err, gitsource.ErrUnavailable), err)
	}
	if len(task.Disks) > 0 {
		if err := syscall.Mount("none", task.Dir, "tmpfs", 0, "size="+task.Disks[0]); err != nil {
			return fmt.Errorf("mount a small disk: %w", err)
		}
	}
	now := newClock()
	c, err := gitsource.New(gitsource.Options{CacheDir: task.Dir, Allow: loopback, Now: now.Now})
	if err != nil {
		return err
	}
	resolve(c)
	for _, size := range task.Disks[min(1, len(task.Disks)):] {
		if err := syscall.Mount("none", task.Dir, "tmpfs", syscall.MS_REMOUNT, "size="+size); err != nil {
			return fmt.Errorf("give the disk another size: %w", err)
		}
		now.move(time.Hour) // who failed is left alone for a while
		resolve(c)
	}
	return nil
}

func child(t *testing.T, task childTask) *exec.Cmd {
	t.Helper()
	text, err := json.Marshal(task)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+string(text))
	return cmd
}

// TestAProcessThatWasKilledLeavesNothing kills one in the middle of a pack, and begins anew in the same place.
func TestAProcessThatWasKilledLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, length := range []int{100, 300, 20_000} {
		t.Run(fmt.Sprint("after ", length, " bytes"), func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			r := newRepository(t)
			commit := r.commit("main", r.files(map[string]string{"f/handler.js": noise(40_000)}), "first")
			r.config("uploadpack.allowFilter", "false")
			killed := make(chan struct{})
			var s *gitServer
			s = newGitServer(t, r, func(w http.ResponseWriter, r *http.Request) bool {
				body := new(bytes.Buffer)
				_, _ = body.ReadFrom(r.Body)
				r.Body = readCloser{body}
				if !bytes.Contains(body.Bytes(), []byte("command=fetch")) {
					return false
				}
				select {
				case <-killed:
					return false
				default:
				}
				whole := httptest.NewRecorder()
				s.backend.ServeHTTP(whole, r)
				w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
				_, _ = w.Write(whole.Body.Bytes()[:length])
				w.(http.Flusher).Flush()
				<-killed
				return true
			})
			dir := t.TempDir()
			cmd := child(t, childTask{URL: s.URL + "/fn.git", Dir: dir, BaseDir: "f"})
			g.Expect(cmd.Start()).To(Succeed())
			g.Eventually(func() []string { return filesIn(g, dir) }, time.Minute, 5*time.Millisecond).ShouldNot(BeEmpty())
			g.Expect(cmd.Process.Kill()).To(Succeed())
			g.Expect(cmd.Wait()).To(HaveOccurred())
			close(killed)
			g.Expect(filesIn(g, dir)).NotTo(BeEmpty(), "it was in the middle")

			c := newClient(t, func(o *gitsource.Options) { o.CacheDir = dir })
			g.Expect(filesIn(g, dir)).To(BeEmpty())
			tree, err := c.Fetch(t.Context(), s.repo(), commit, gitsource.Selection{BaseDir: "f"})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(content(t, tree, "handler.js")).To(Equal(noise(40_000)))
			g.Expect(tree.Close()).To(Succeed())
		})
	}
}

// TestADiskThatIsFull mounts a small one in a process that sees its own mounts.
func TestADiskThatIsFull(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r := newRepository(t)
	r.config("uploadpack.allowFilter", "false")
	commit := r.commit("main", r.files(map[string]string{"f/handler.js": noise(3_000_000)}), "first")
	s := newGitServer(t, r, nil)
	dir := t.TempDir()
	cmd := child(t, childTask{URL: s.URL + "/fn.git", Dir: dir, BaseDir: "f", Disks: []string{"1m", "16m", "16m"}})
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Unshareflags: syscall.CLONE_NEWNS}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	g.Expect(err).NotTo(HaveOccurred(), complaints.String())
	g.Expect(strings.Split(strings.TrimRight(string(out), "\n"), "\n")).To(Equal([]string{
		"\ttrue\task " + s.URL + "/fn.git: keep objects: the disk that holds the mirrors is full",
		commit + "\tfalse\t<nil>",
		commit + "\tfalse\t<nil>",
	}))
	g.Expect(filesIn(g, dir)).To(BeEmpty(), "the disk was the child's own")
}

// TestDamageInAnyPlace flips bits and removes files between fetches.
func TestDamageInAnyPlace(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r := newRepository(t)
	files := map[string]string{}
	for i := range 40 {
		files[fmt.Sprintf("f%d/handler.js", i)] = fmt.Sprint(i, noise(200+i))
	}
	commit := r.commit("main", r.files(files), "first")
	s := newGitServer(t, r, nil)
	dir := t.TempDir()
	c := newClient(t, func(o *gitsource.Options) { o.CacheDir = dir })
	random := rand.New(rand.NewPCG(3, 4))
	for i := range 40 {
		for _, path := range filesIn(g, dir) {
			g.Expect(os.Chmod(path, 0o600)).To(Succeed())
			raw, err := os.ReadFile(path)
			g.Expect(err).NotTo(HaveOccurred())
			raw[random.IntN(len(raw))] ^= 1 << random.IntN(8)
			g.Expect(os.WriteFile(path, raw, 0o600)).To(Succeed())
		}
		switch i % 20 {
		case 10:
			g.Expect(os.RemoveAll(filepath.Join(dir, "mirrors"))).To(Succeed())
		case 15:
			for _, path := range filesIn(g, dir) {
				g.Expect(os.RemoveAll(filepath.Dir(path))).To(Succeed())
			}
		}
		name := fmt.Sprint("f", i)
		tree, err := c.Fetch(t.Context(), s.repo(), commit, gitsource.Selection{BaseDir: name})
		g.Expect(err).NotTo(HaveOccurred(), name)
		g.Expect(tree.ID).To(Equal(r.run("", "rev-parse", commit+":"+name)))
		g.Expect(content(t, tree, "handler.js")).To(Equal(files[name+"/handler.js"]))
		g.Expect(tree.Close()).To(Succeed())
	}
}

// TestTheQuotaIsKeptByMany reads many repositories at once with room for a few.
func TestTheQuotaIsKeptByMany(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	const repositories, readers, size, quota = 6, 4, 200_000, 500_000
	dir := t.TempDir()
	var mu sync.Mutex
	var most int64
	look := func() (total int64) {
		_ = filepath.Walk(dir, func(_ string, info os.FileInfo, err error) error {
			if err == nil && info.Mode().IsRegular() {
				total += info.Size()
			}
			return nil // a file may go meanwhile
		})
		mu.Lock()
		defer mu.Unlock()
		most = max(most, total)
		return total
	}
	var servers []*gitServer
	var commits, texts []string
	for i := range repositories {
		texts = append(texts, fmt.Sprint(i, noise(size)))
		r := newRepository(t)
		r.config("uploadpack.allowFilter", "false")
		commits = append(commits, r.commit("main", r.files(map[string]string{"handler.js": texts[i]}), "first"))
		servers = append(servers, newGitServer(t, r, func(http.ResponseWriter, *http.Request) bool { look(); return false }))
	}
	c := newClient(t, func(o *gitsource.Options) { o.CacheDir, o.CacheBytes = dir, quota })
	group, ctx := errgroup.WithContext(t.Context())
	for reader := range readers {
		group.Go(func() error {
			for i := range 2 * repositories {
				n := (i*(reader+1) + reader) % repositories
				tree, err := c.Fetch(ctx, servers[n].repo(), commits[n], gitsource.Selection{})
				if err != nil {
					return err
				}
				file, err := tree.Open("handler.js")
				if err != nil {
					return err
				}
				text, err := io.ReadAll(file)
				if err == nil && string(text) != texts[n] {
					err = fmt.Errorf("repository %d: other content", n)
				}
				look()
				if err := errors.Join(err, tree.Close()); err != nil {
					return err
				}
			}
			return nil
		})
	}
	g.Expect(group.Wait()).To(Succeed())
	g.Expect(look()).To(BeNumerically("<=", quota))
	t.Logf("at most %d bytes, at the end %d", most, look())
	// Each reader holds one, arriving or arrived: an index and a file more than the pack while it arrives.
	g.Expect(most).To(BeNumerically("<=", quota+readers*(size+20_000)))
}

func TestAPackThatIsTooLargeNamesTheCure(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r := newRepository(t)
	r.config("uploadpack.allowFilter", "false")
	r.commit("main", r.files(map[string]string{"handler.js": noise(40_000)}), "first")
	s := newGitServer(t, r, nil)
	c := newClient(t, func(o *gitsource.Options) { o.Limits.PackBytes = 20_000 })
	_, err := c.Resolve(t.Context(), s.repo(), gitsource.Selection{Reference: "main"}, 0)
	g.Expect(err).To(MatchError(gitsource.ErrTooLarge))
	g.Expect(err).To(MatchError(ContainSubstring("uploadpack.allowFilter")))
	g.Expect(err).To(MatchError(ContainSubstring("20000 bytes")))
}

// TestMoreThanTheQuotaAtOnceIsForLater has repositories on their way that do not fit together.
func TestMoreThanTheQuotaAtOnceIsForLater(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	dir := t.TempDir()
	now := newClock()
	c := newClient(t, withClock(now), func(o *gitsource.Options) { o.CacheDir, o.CacheBytes = dir, 5<<20 })
	repository := func(seed string) (*gitServer, string) {
		r := newRepository(t)
		r.config("uploadpack.allowFilter", "false")
		commit := r.commit("main", r.files(map[string]string{"handler.js": seed + noise(4_000_000)}), "first")
		return newGitServer(t, r, nil), commit
	}
	first, one := repository("1")
	held, err := c.Fetch(t.Context(), first.repo(), one, gitsource.Selection{})
	g.Expect(err).NotTo(HaveOccurred())
	second, two := repository("2")
	_, err = c.Fetch(t.Context(), second.repo(), two, gitsource.Selection{})
	g.Expect(err).To(MatchError(gitsource.ErrUnavailable))
	g.Expect(err).To(MatchError(ContainSubstring("fill the space for mirrors")))
	g.Expect(content(t, held, "handler.js")).To(HaveLen(4_000_001))
	g.Expect(held.Close()).To(Succeed())

	now.move(time.Hour) // who failed is left alone for a while
	tree, err := c.Fetch(t.Context(), second.repo(), two, gitsource.Selection{})
	g.Expect(err).NotTo(HaveOccurred(), "the first may go now")
	g.Expect(content(t, tree, "handler.js")).To(HaveLen(4_000_001))
	g.Expect(tree.Close()).To(Succeed())
}
