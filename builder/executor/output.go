package executor

import (
	"bytes"
	"encoding/base64"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/gitfn/gitfn/builder"
)

// What is kept of an output.
const (
	tailBytes = 2048
	tailLines = 20
	// mostErrors bounds the lines that the package manager calls errors: the
	// first of them says what happened, and may be far from the end.
	mostErrors = 50
	// mostLine is where a line without end is broken.
	mostLine = 8 << 10
)

// tail passes output on, line by line and cleaned, and keeps its end.
type tail struct {
	mu      sync.Mutex
	out     io.Writer
	secrets []string
	partial []byte
	kept    []string
	// telling are the lines kept in errors; none if it is nil.
	telling *regexp.Regexp
	errors  []string
}

func newTail(out io.Writer, secrets []string, telling *regexp.Regexp) *tail {
	return &tail{out: out, secrets: secrets, telling: telling}
}

// Write takes what a process prints. It never fails: a build does not end for
// want of a log.
func (t *tail) Write(text []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.partial = append(t.partial, text...)
	for {
		line, rest, complete := bytes.Cut(t.partial, []byte("\n"))
		if !complete {
			if len(t.partial) < mostLine {
				return len(text), nil
			}
			line, rest = t.partial[:mostLine], t.partial[mostLine:]
		}
		t.line(string(line))
		t.partial = rest
	}
}

// flush ends the last line.
func (t *tail) flush() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.partial) > 0 {
		t.line(string(t.partial))
		t.partial = nil
	}
}

func (t *tail) line(line string) {
	// What is before the last carriage return was overwritten on a terminal.
	line = strings.TrimRight(line, "\r")
	line = line[strings.LastIndexByte(line, '\r')+1:]
	line = mask(builder.Printable(line), t.secrets)
	_, _ = io.WriteString(t.out, line+"\n")
	if t.kept = append(t.kept, line); len(t.kept) > tailLines {
		t.kept = t.kept[1:]
	}
	if t.telling != nil && t.telling.MatchString(line) && len(t.errors) < mostErrors {
		t.errors = append(t.errors, line)
	}
}

// String is the end of the output.
func (t *tail) String() string {
	t.flush()
	t.mu.Lock()
	defer t.mu.Unlock()
	text := strings.Join(t.kept, "\n")
	return strings.ToValidUTF8(text[max(0, len(text)-tailBytes):], "")
}

// mask hides secrets.
func mask(line string, secrets []string) string {
	for _, secret := range secrets {
		line = strings.ReplaceAll(line, secret, "***")
	}
	return line
}

// How credentials stand in .npmrc and pip.conf.
var (
	secretSetting = regexp.MustCompile(`(?mi)^[^#;\n=]*(?:_auth|token|password|passphrase|secret|otp|(?:^|[^a-z])key)\s*=\s*(.+)$`)
	secretURL     = regexp.MustCompile(`(?i)[a-z]://([^/\s:@"']*):([^/\s@"']+)@`)
)

// secretsOf lists the values in the files of a directory that no output may
// show, longest first: as they are written, and as what they are encoded from
// or in URLs become. Values of up to 5 characters would mask ordinary words.
func secretsOf(dir string) []string {
	files, _ := filepath.Glob(filepath.Join(dir, "*")) // also those that begin with a dot
	var values []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // a directory of the volume's own
		}
		for _, match := range secretSetting.FindAllStringSubmatch(string(text), -1) {
			values = append(values, variants(strings.Trim(strings.TrimSpace(match[1]), `"'`))...)
		}
		for _, match := range secretURL.FindAllStringSubmatch(string(text), -1) {
			values = append(values, variants(match[2])...)
			values = append(values, base64.StdEncoding.EncodeToString([]byte(match[1]+":"+match[2])))
		}
	}
	values = slices.DeleteFunc(values, func(v string) bool { return len(v) <= 5 || strings.HasPrefix(v, "${") })
	slices.SortFunc(values, func(a, b string) int { return len(b) - len(a) })
	return slices.Compact(values)
}

func variants(value string) []string {
	all := []string{value, url.QueryEscape(value), url.PathEscape(value)}
	if plain, err := url.PathUnescape(value); err == nil {
		all = append(all, plain)
	}
	if plain, err := base64.StdEncoding.DecodeString(value); err == nil && len(plain) > 0 && builder.Printable(string(plain)) == string(plain) {
		all = append(all, string(plain))
		if _, password, found := strings.Cut(string(plain), ":"); found {
			all = append(all, password)
		}
	}
	return all
}
