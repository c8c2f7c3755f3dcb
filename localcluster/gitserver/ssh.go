package gitserver

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
)

// commandRule is what git asks an SSH server to run.
var commandRule = regexp.MustCompile(`^git[- ](upload-pack|receive-pack) '?/?([^']+?)/?'?$`)

func parseCommand(command string) (request, bool) {
	m := commandRule.FindStringSubmatch(command)
	if m == nil {
		return request{}, false
	}
	return parse("/" + m[2] + "/git-" + m[1])
}

// RunSSH is what sshd runs for every session instead of what the client asks for: the one service of git
// that the client asked for, in a repository of the directory. On success git takes the place of this process.
func RunSSH(repositories, command string) error {
	req, ok := parseCommand(command)
	if !ok {
		return fmt.Errorf("refuse %q: only git fetch and git push are served here", command)
	}
	git, err := exec.LookPath("git")
	if err != nil {
		return fmt.Errorf("serve repositories: %w", err)
	}
	h := &Handler{Repositories: repositories, Git: git}
	if req.service == "git-receive-pack" {
		if err := h.create(context.Background(), req.repository); err != nil {
			return fmt.Errorf("create %s: %w", req.repository, err)
		}
	}
	env := append(environment(), "PATH="+os.Getenv("PATH"))
	if v := os.Getenv("GIT_PROTOCOL"); v != "" {
		env = append(env, "GIT_PROTOCOL="+v)
	}
	// Complaints of git then name the repository as the client does.
	if err := os.Chdir(repositories); err != nil {
		return err
	}
	return syscall.Exec(git, []string{"git", strings.TrimPrefix(req.service, "git-"), req.repository}, env)
}
