package gitsource_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/gitfn/gitfn/gitsource"
)

func TestNormalizeURLGivesOneRepositoryOneName(t *testing.T) {
	t.Parallel()
	rows := []struct{ url, want string }{
		{"https://github.com/Team/Fn.git", "github.com/team/fn"},
		{"https://GitHub.com/Team/Fn", "github.com/team/fn"},
		{"https://github.com/Team/Fn/", "github.com/team/fn"},
		{"https://github.com/Team/Fn.git/", "github.com/team/fn"},
		{"https://github.com:443/Team/Fn.git", "github.com/team/fn"},
		{"http://github.com:80/Team/Fn.git", "github.com/team/fn"},
		{"https://user:token@github.com/Team/Fn.git", "github.com/team/fn"},
		{"ssh://git@github.com/Team/Fn.git", "github.com/team/fn"},
		{"ssh://git@github.com:22/Team/Fn.git", "github.com/team/fn"},
		{"git@github.com:Team/Fn.git", "github.com/team/fn"},
		{"github.com:Team/Fn.git", "github.com/team/fn"},
		{"git@github.com:/Team/Fn.git", "github.com/team/fn"},
		{"HTTPS://github.com//Team//Fn.git", "github.com/team/fn"},
		{"https://git.example:8443/fn", "git.example:8443/fn"},
		{"http://[::1]:80/fn", "[::1]/fn"},
		{"http://[::1]:8080/fn", "[::1]:8080/fn"},
		{"https://git.example/.git", "git.example/.git"},
		{"https://git.example/fn.git.git", "git.example/fn.git"},
		{"ssh://git@ssh.github.com:443/Team/Fn.git", "github.com/team/fn"},
		{"ssh://git@altssh.bitbucket.org:443/team/fn.git", "bitbucket.org/team/fn"},
		{"ssh://git@altssh.gitlab.com:443/team/sub/fn.git", "gitlab.com/team/sub/fn"},
		{"https://dev.azure.com/Org/My%20Project/_git/Fn", "dev.azure.com/org/my project/fn"},
		{"https://Org@dev.azure.com/Org/My%20Project/_git/Fn", "dev.azure.com/org/my project/fn"},
		{"https://org.visualstudio.com/My%20Project/_git/Fn", "dev.azure.com/org/my project/fn"},
		{"https://org.visualstudio.com/DefaultCollection/My%20Project/_git/Fn", "dev.azure.com/org/my project/fn"},
		{"git@ssh.dev.azure.com:v3/Org/My%20Project/Fn", "dev.azure.com/org/my project/fn"},
		{"ssh://git@ssh.dev.azure.com/v3/Org/My%20Project/Fn", "dev.azure.com/org/my project/fn"},
		{"org@vs-ssh.visualstudio.com:v3/org/My%20Project/Fn", "dev.azure.com/org/my project/fn"},
		{"ssh://org@org.visualstudio.com:22/My%20Project/_ssh/Fn", "dev.azure.com/org/my project/fn"},
		{"https://org.visualstudio.com/_git/Fn", "dev.azure.com/org/fn/fn"},
		{"https://dev.azure.com/org/_git/Fn", "dev.azure.com/org/fn/fn"},
		{"https://dev.azure.com/org/DefaultCollection/_git/Fn", "dev.azure.com/org/fn/fn"},
		{"https://dev.azure.com/v3", "dev.azure.com/v3"},
		{"https://visualstudio.com/a/_git/fn", "visualstudio.com/a/_git/fn"},
		{"", ""}, {"github.com/team/fn", ""}, {"https://git.example", ""}, {"https:///fn", ""},
		{"file:///srv/fn.git", ""}, {"ext::sh -c date", ""}, {"data:text/plain,x", ""}, {"/srv/fn.git", ""},
	}
	for _, row := range rows {
		t.Run(row.url, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			got, err := gitsource.NormalizeURL(row.url)
			if row.want == "" {
				g.Expect(err).To(MatchError(gitsource.ErrInvalidURL))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got).To(Equal(row.want))
		})
	}
}

func TestCheckURLSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	rows := []struct {
		url string
		err error
	}{
		{"https://git.example/fn.git", nil},
		{"http://git.example:3000/team/fn", nil},
		{"ssh://git@git.example/fn.git", nil},
		{"ssh://git.example:2222/~ada/fn.git", nil},
		{"ssh://git@[2001:db8::7]:2222/fn.git", nil},
		{"git@git.example:team/fn.git", nil},
		{"git.example:fn.git", nil},
		{"org-1234@git.example:team/fn.git", nil},
		{"git@[2001:db8::7]:fn.git", nil},
		{"git://git.example:9419/team/fn.git", nil},
		{"ssh://git:hunter2@git.example/fn.git", gitsource.ErrInvalidURL},
		{"git:hunter2@git.example:fn.git", gitsource.ErrInvalidURL},
		{"git://ada@git.example/fn.git", gitsource.ErrInvalidURL},
		{"ssh://-oProxyCommand=date/fn.git", gitsource.ErrInvalidURL},
		{"ssh://-oProxyCommand=date@git.example/fn.git", gitsource.ErrInvalidURL},
		{"-oProxyCommand=date@git.example:fn.git", gitsource.ErrInvalidURL},
		{"-oProxyCommand=date:fn.git", gitsource.ErrInvalidURL},
		{"git@git.example:-upload-pack=date", gitsource.ErrInvalidURL},
		{"git@git.example:--strict", gitsource.ErrInvalidURL},
		{"git://-git.example/fn.git", gitsource.ErrInvalidURL},
		{"https://-git.example/fn.git", gitsource.ErrInvalidURL},
		{"ssh://git@git.example/fn%0agit.git", gitsource.ErrInvalidURL},
		{"ssh://git@git.example/fn%00.git", gitsource.ErrInvalidURL},
		{"git://git.example/fn.git%00host=other", gitsource.ErrInvalidURL},
		{"git@git.example:fn\x00.git", gitsource.ErrInvalidURL},
		{"ssh://git%0a@git.example/fn.git", gitsource.ErrInvalidURL},
		{"ssh://git@git.exa$mple/fn.git", gitsource.ErrInvalidURL},
		{"ssh://git@git.example", gitsource.ErrInvalidURL},
		{"git@git.example:/", gitsource.ErrInvalidURL},
		{"ssh://git@git.example/fn.git?x=1", gitsource.ErrInvalidURL},
		{"ssh://git@git.example/" + strings.Repeat("a", 5000), gitsource.ErrInvalidURL},
		{"ext::ssh%20git@git.example/fn.git", gitsource.ErrInvalidURL},
		{"https://user:hunter2@git.example/fn.git", gitsource.ErrInvalidURL},
		{"https://token@git.example/fn.git", gitsource.ErrInvalidURL},
		{"file:///srv/fn.git", gitsource.ErrInvalidURL},
		{"ext::sh -c date", gitsource.ErrInvalidURL},
		{"data:text/plain,fn", gitsource.ErrInvalidURL},
		{"git://git.example/fn.git", nil},
		{"/srv/fn.git", gitsource.ErrInvalidURL},
		{"https://git.example", gitsource.ErrInvalidURL},
		{"https://git.example/fn.git?x=1", gitsource.ErrInvalidURL},
		{"https://git.example/fn.git#main", gitsource.ErrInvalidURL},
		{"https://user:hunter2@git.example:port/fn.git", gitsource.ErrInvalidURL},
		{"", gitsource.ErrInvalidURL},
	}
	for _, row := range rows {
		t.Run(row.url, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			err := gitsource.CheckURL(row.url)
			if row.err == nil {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			g.Expect(err).To(MatchError(row.err))
			g.Expect(err.Error()).NotTo(ContainSubstring("hunter2"))
		})
	}
}

func TestCleanBaseDirHasOneForm(t *testing.T) {
	t.Parallel()
	for dir, want := range map[string]string{"": "", "/": "", ".": "", "./": "", "a": "a", "/a/": "a", "a/b": "a/b", "./a//b/.": "a/b"} {
		t.Run("fine "+dir, func(t *testing.T) {
			t.Parallel()
			got, err := gitsource.CleanBaseDir(dir)
			g := NewWithT(t)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got).To(Equal(want))
		})
	}
	for _, dir := range []string{"..", "a/..", "a/../b", "/..", ".git", "a/.git/b", "a\x00b", `a\b`} {
		t.Run(fmt.Sprintf("refused %q", dir), func(t *testing.T) {
			t.Parallel()
			_, err := gitsource.CleanBaseDir(dir)
			NewWithT(t).Expect(err).To(MatchError(gitsource.ErrBaseDirNotFound))
		})
	}
}

func TestRevisionIsWrittenInOneWay(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	id := strings.Repeat("4f", 20)
	g.Expect(gitsource.Revision{Reference: "main", Commit: id}.String()).To(Equal("main@sha1:" + id))
	g.Expect(gitsource.Revision{Reference: id, Commit: id}.String()).To(Equal("sha1:" + id))
}

func TestNextPollSaysWhen(t *testing.T) {
	t.Parallel()
	last := time.Date(2026, 3, 28, 10, 7, 30, 0, time.UTC)
	rows := []struct {
		name, schedule string
		last           time.Time
		interval       time.Duration
		want           time.Time
		fails          bool
	}{
		{name: "an interval counts from the last look", last: last, interval: time.Minute, want: last.Add(time.Minute)},
		{name: "what was never looked at is due", interval: time.Minute},
		{name: "a schedule wins over the interval", last: last, interval: time.Minute, schedule: "*/15 * * * *", want: time.Date(2026, 3, 28, 10, 15, 0, 0, time.UTC)},
		{name: "a schedule of what was never looked at is due", schedule: "0 3 * * *"},
		{name: "a schedule has a zone", last: last, schedule: "CRON_TZ=Europe/Berlin 30 11 * * *", want: time.Date(2026, 3, 28, 10, 30, 0, 0, time.UTC)},
		{name: "a descriptor is a schedule", last: last, schedule: "@hourly", want: time.Date(2026, 3, 28, 11, 0, 0, 0, time.UTC)},
		{name: "an interval of nothing is refused", last: last, fails: true},
		{name: "a negative interval is refused", last: last, interval: -time.Second, fails: true},
		{name: "a schedule of words is refused", last: last, schedule: "every now and then", fails: true},
		{name: "a schedule that makes cron panic is refused", last: last, schedule: "TZ=UTC", fails: true},
		{name: "a date that never comes is refused", last: last, schedule: "0 0 30 2 *", fails: true},
		{name: "a date that never comes is refused before the first look", schedule: "0 0 30 2 *", fails: true},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			got, err := gitsource.NextPoll(row.last, row.interval, row.schedule)
			g.Expect(err != nil).To(Equal(row.fails), fmt.Sprint(err))
			g.Expect(got).To(Equal(row.want))
		})
	}
	_, err := gitsource.Schedule{}.Next(last)
	NewWithT(t).Expect(err).To(HaveOccurred())
}

func FuzzNormalizeURL(f *testing.F) {
	for _, seed := range []string{"https://github.com/team/fn.git", "git@github.com:team/fn", "ssh://git@h:22/p", "http://[::1]/a/../b", "https://u:p@h/x?y#z", "a:b", "https://dev.azure.com/o/p%20q/_git/r", "git@ssh.dev.azure.com:v3/o/p/r", "https://o.visualstudio.com/_git/r"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, url string) {
		name, err := gitsource.NormalizeURL(url)
		if err != nil {
			if name != "" {
				t.Fatalf("%q: a name and an error", url)
			}
			return
		}
		host, path, found := strings.Cut(name, "/")
		if !found || host == "" || path == "" || host != strings.ToLower(host) || strings.Contains(host, "@") {
			t.Fatalf("%q became %q", url, name)
		}
	})
}
