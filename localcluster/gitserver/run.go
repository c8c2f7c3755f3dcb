package gitserver

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
)

// Run serves the repositories of a directory on an address until the process ends. The password is the
// first line of a file.
func Run(address, repositories, user, passwordFile string) error {
	git, err := exec.LookPath("git")
	if err != nil {
		return fmt.Errorf("serve repositories: %w; run: apt-get install git", err)
	}
	password, err := os.ReadFile(passwordFile)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(repositories, 0o755); err != nil {
		return err
	}
	h := &Handler{Repositories: repositories, Git: git, User: user, Password: strings.TrimSpace(string(password))}
	return http.ListenAndServe(address, h)
}
