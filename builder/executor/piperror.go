package executor

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/gitfn/gitfn/builder"
)

// What pip prints of an error, and of what led to it.
var (
	pipLine = regexp.MustCompile(`^\s*(?:ERROR: |error: |WARNING: |× |╰─> )\S`)
	pipMark = regexp.MustCompile(`^\s*(?:ERROR: |error: |WARNING: |× |╰─> )`)
	pipURL  = regexp.MustCompile(`https?://(?:[^/@\s"']*@)?([^/\s"']+)`)
	// pipPool names a host where the URL stands without it.
	pipPool = regexp.MustCompile(`(?:host=|host: ?)'?([^',\s]+)'?(?:, port=(\d+))?`)
)

// pipFailures says what pip's words mean; the first row that matches any line
// counts. A sentence may hold {found}, what the pattern caught, {host} or {why}.
var pipFailures = []struct {
	pattern  *regexp.Regexp
	class    builder.Class
	sentence string
}{
	{regexp.MustCompile(`No space left on device|Errno 28`), builder.ClassInstallFailed, "dependencies are larger than the build's volumes"},
	{regexp.MustCompile(`(?i)CERTIFICATE_VERIFY_FAILED|certificate verify failed`), builder.ClassInstallFailed,
		"the certificate of the package registry {host} is not trusted; add its authority to gitfn's trust bundle"},
	{regexp.MustCompile(`\b(401|403) (?:Client )?Error|User for \S+:|HTTP error (?:401|403)|status code (?:401|403)|EOFError|Credentials not correct`), builder.ClassDependencyAuth,
		"the package registry {host} refused the credential; check pip.conf in Secret serverless-package-registry-config"},
	{regexp.MustCompile(`THESE PACKAGES DO NOT MATCH THE HASHES`), builder.ClassInstallFailed, "a package is not the one whose hash requirements.txt has"},
	{regexp.MustCompile(`Hashes are required in --require-hashes mode|all requirements must have their versions pinned`), builder.ClassInstallFailed,
		"requirements.txt has hashes for some packages and not for all; write it with pip-compile --generate-hashes"},
	{regexp.MustCompile(`ResolutionImpossible|Cannot install .* because these package versions have conflicting dependencies`), builder.ClassInstallFailed, "dependencies conflict: {why}"},
	{regexp.MustCompile(`(?:NewConnectionError|ConnectTimeoutError|ReadTimeoutError|NameResolutionError|ConnectionResetError|Connection broken|RemoteDisconnected|Max retries exceeded|(?:429|50[0234]) (?:Client |Server )?Error)`),
		builder.ClassDependencyUnavailable, "the package registry {host} does not answer: {why}"},
	{regexp.MustCompile(`(?:No matching distribution found for|Could not find a version that satisfies the requirement) (\S+)`), builder.ClassDependencyNotFound,
		"the package registry has no {found} that fits; check its name and version, or name its registry in pip.conf"},
	{regexp.MustCompile(`\b404 (?:Client )?Error.*for url`), builder.ClassDependencyNotFound, "the package registry {host} has no such file: {why}"},
	{regexp.MustCompile(`Invalid requirement: (.+?)(?: \(from line|$)`), builder.ClassInstallFailed, "requirements.txt cannot be read: {why}"},
	{regexp.MustCompile(`requires a different Python|Requires-Python`), builder.ClassInstallFailed, "a package does not run here: {why}"},
	{regexp.MustCompile(`Failed (?:to build|building wheel)|Could not build wheels|subprocess-exited-with-error|metadata-generation-failed|did not run successfully`), builder.ClassInstallFailed,
		"a package could not be built from its source: {why}; publish a wheel of it for this Python"},
}

// classifyPip reads out of pip's errors and warnings what went wrong.
func classifyPip(exitCode int, lines []string) (builder.Class, string) {
	text := strings.Join(lines, "\n")
	for _, row := range pipFailures {
		match := row.pattern.FindStringSubmatch(text)
		if match == nil {
			continue
		}
		found := ""
		if len(match) > 1 {
			found = short(match[1])
		}
		sentence := strings.NewReplacer("{found}", found, "{host}", pipHost(text), "{why}", pipWhy(lines, row.pattern)).Replace(row.sentence)
		return row.class, strings.ReplaceAll(sentence, "registry  ", "registry ")
	}
	switch {
	case len(lines) > 0:
		return builder.ClassInstallFailed, "pip install failed: " + pipWhy(lines, nil)
	case exitCode < 0:
		return builder.ClassInstallFailed, "pip install was killed; it may have used more memory than the build's limit"
	}
	return builder.ClassInstallFailed, fmt.Sprintf("pip install ended with code %d; see its output", exitCode)
}

func pipHost(text string) string {
	if match := pipURL.FindStringSubmatch(text); match != nil {
		return match[1]
	}
	if match := pipPool.FindStringSubmatch(text); match != nil {
		if match[2] != "" && match[2] != "443" && match[2] != "80" {
			return match[1] + ":" + match[2]
		}
		return match[1]
	}
	return ""
}

// pipWhy is the line that the pattern is in, without pip's mark and credentials;
// the first of all if there is no pattern.
func pipWhy(lines []string, pattern *regexp.Regexp) string {
	for _, line := range lines {
		if pattern == nil || pattern.MatchString(line) {
			line = pipMark.ReplaceAllString(line, "")
			return short(strings.TrimSpace(userinfo.ReplaceAllString(line, "://")))
		}
	}
	return "see its output"
}

// userinfo is who a URL says to be.
var userinfo = regexp.MustCompile(`://[^/@\s"']*@`)
