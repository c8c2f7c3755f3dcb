package executor

import (
	"io"
	"os"
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"
)

// What is kept of an output for the report.
const (
	tailBytes = 2048
	tailLines = 20
)

// tail passes output on, line by line and cleaned, and keeps its end.
type tail struct {
	mu      sync.Mutex
	out     io.Writer
	secrets []string
	partial []byte
	kept    []string
}

func newTail(out io.Writer, secrets []string) *tail { return &tail{out: out, secrets: secrets} }

// Write takes what a process prints. It never fails: a build does not end for
// want of a log.
func (t *tail) Write(text []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.partial = append(t.partial, text...)
	for {
		line, rest, complete := strings.Cut(string(t.partial), "\n")
		if !complete {
			break
		}
		t.line(line)
		t.partial = []byte(rest)
	}
	if len(t.partial) > 64<<10 { // a line without end
		t.line(string(t.partial))
		t.partial = nil
	}
	return len(text), nil
}

func (t *tail) line(line string) {
	line = clean(line, t.secrets)
	_, _ = io.WriteString(t.out, line+"\n")
	t.kept = append(t.kept, line)
	if len(t.kept) > tailLines {
		t.kept = t.kept[1:]
	}
}

// String is the end of the output.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := strings.Join(t.kept, "\n")
	if len(t.partial) > 0 {
		text += "\n" + clean(string(t.partial), t.secrets)
	}
	if len(text) > tailBytes {
		text = text[len(text)-tailBytes:]
		for len(text) > 0 && !utf8.RuneStart(text[0]) {
			text = text[1:]
		}
	}
	return text
}

var ansi = regexp.MustCompile(`\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07`)

// clean masks secrets and drops what would move a terminal's cursor.
func clean(line string, secrets []string) string {
	line = ansi.ReplaceAllString(strings.ToValidUTF8(line, ""), "")
	line = strings.Map(func(r rune) rune {
		if r == '\t' || r >= ' ' && r != 0x7f && (r < 0x80 || r > 0x9f) {
			return r
		}
		return -1
	}, line)
	for _, secret := range secrets {
		line = strings.ReplaceAll(line, secret, "***")
	}
	return line
}

// secretSetting finds the lines of an .npmrc that hold a credential.
var secretSetting = regexp.MustCompile(`(?mi)^[^#;\n]*(?:_authToken|_auth|_password|password|token)\s*=\s*"?([^"\s]+)`)

// secretsOf lists the values of an .npmrc that no output may show.
func secretsOf(file string) []string {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	var secrets []string
	for _, match := range secretSetting.FindAllStringSubmatch(string(text), -1) {
		if len(match[1]) > 5 { // shorter ones would mask ordinary words
			secrets = append(secrets, match[1])
		}
	}
	return secrets
}
