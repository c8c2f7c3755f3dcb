package executor

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/gitfn/gitfn/builder"
)

// What npm prints of an error: lines with a mark, one of them with a code.
var (
	npmLine     = regexp.MustCompile(`^npm (?:error|ERR!) (.*\S.*)$`)
	npmCode     = regexp.MustCompile(`^code (\S+)$`)
	npmMissing  = regexp.MustCompile(`'([^'\s]+)' is not in (?:this|the npm) registry`)
	npmNoTarget = regexp.MustCompile(`No matching version found for (\S+?)\.?(?:\s|$)`)
	npmURL      = regexp.MustCompile(`https?://(?:[^/@\s"']*@)?([^/\s"']+)(/\S*)?`)
	npmPath     = regexp.MustCompile(`^path (\S+)$`)
)

// npmFailures says what npm's codes mean. A sentence may hold {package}, {host}
// or {why}.
var npmFailures = []struct {
	codes    []string
	class    builder.Class
	sentence string
}{
	{[]string{"E404"}, builder.ClassDependencyNotFound,
		"the package registry {host} has no {package}; check its name, or name its registry in .npmrc"},
	{[]string{"ETARGET", "ENOVERSIONS"}, builder.ClassDependencyNotFound,
		"the package registry has no version that fits {package}"},
	{[]string{"E401", "E403", "ENEEDAUTH", "EOTP", "EAUTHUNKNOWN", "EAUTHIP"}, builder.ClassDependencyAuth,
		"the package registry {host} refused the credential; check .npmrc in Secret serverless-package-registry-config"},
	{[]string{"ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ECONNRESET", "ECONNABORTED", "ETIMEDOUT", "ESOCKETTIMEDOUT", "ERR_SOCKET_TIMEOUT",
		"ENETUNREACH", "EHOSTUNREACH", "EPIPE", "EIDLETIMEOUT", "ECONNECTIONTIMEOUT", "ERESPONSETIMEOUT", "ETRANSFERTIMEOUT", "FETCH_ERROR",
		"E408", "E425", "E429", "E500", "E502", "E503", "E504"}, builder.ClassDependencyUnavailable,
		"the package registry {host} does not answer: {why}"},
	{[]string{"UNABLE_TO_GET_ISSUER_CERT", "UNABLE_TO_GET_ISSUER_CERT_LOCALLY", "UNABLE_TO_VERIFY_LEAF_SIGNATURE", "SELF_SIGNED_CERT_IN_CHAIN",
		"DEPTH_ZERO_SELF_SIGNED_CERT", "CERT_HAS_EXPIRED", "CERT_NOT_YET_VALID", "ERR_TLS_CERT_ALTNAME_INVALID"}, builder.ClassInstallFailed,
		"the certificate of the package registry {host} is not trusted; add its authority to gitfn's trust bundle ({why})"},
	{[]string{"EUSAGE"}, builder.ClassInstallFailed,
		"package.json and the lock file do not fit each other; run npm install and commit the lock file"},
	{[]string{"ERESOLVE"}, builder.ClassInstallFailed, "dependencies conflict: {why}"},
	{[]string{"EINTEGRITY"}, builder.ClassInstallFailed, "a package is not the one that the lock file means: {why}"},
	{[]string{"EJSONPARSE"}, builder.ClassInstallFailed, "package.json cannot be read: {why}"},
	{[]string{"ENOSPC"}, builder.ClassInstallFailed, "dependencies are larger than the build's volumes"},
	{[]string{"EBADENGINE", "EBADPLATFORM"}, builder.ClassInstallFailed, "a package does not run here: {why}"},
}

// classifyNpm reads out of the lines that npm calls errors what went wrong.
func classifyNpm(verb string, exitCode int, lines []string) (builder.Class, string) {
	code, rest := npmSaid(lines)
	for _, row := range npmFailures {
		if slices.Contains(row.codes, code) {
			return row.class, fill(row.sentence, code, rest)
		}
	}
	switch {
	case code == "ENOENT" && slices.ContainsFunc(rest, func(line string) bool { return strings.Contains(line, "spawn git") }):
		return builder.ClassInstallFailed, "a dependency comes from Git, and the runtime's image has no git; publish it as a package"
	case code != "" && strings.Trim(code, "0123456789") == "": // the exit code of a script
		return builder.ClassInstallFailed, fmt.Sprintf("a script of %s failed with code %s", scriptOf(rest), code)
	case code != "":
		return builder.ClassInstallFailed, fmt.Sprintf("npm %s failed with %s: %s", verb, code, why(code, rest))
	case len(rest) > 0:
		return builder.ClassInstallFailed, fmt.Sprintf("npm %s failed: %s", verb, why(code, rest))
	case exitCode < 0:
		return builder.ClassInstallFailed, fmt.Sprintf("npm %s was killed; it may have used more memory than the build's limit", verb)
	}
	return builder.ClassInstallFailed, fmt.Sprintf("npm %s ended with code %d; see its output", verb, exitCode)
}

// npmSaid takes npm's mark from its lines, and the code out of them. Of two
// errors the last ended npm.
func npmSaid(lines []string) (code string, rest []string) {
	for _, line := range lines {
		match := npmLine.FindStringSubmatch(line)
		if match == nil {
			continue
		}
		if found := npmCode.FindStringSubmatch(match[1]); found != nil {
			code = found[1]
			continue
		}
		if !strings.HasPrefix(match[1], "A complete log of this run") {
			rest = append(rest, strings.TrimSpace(match[1]))
		}
	}
	return code, rest
}

func fill(sentence, code string, lines []string) string {
	text := strings.Join(lines, "\n")
	host, wanted := "", "this package"
	if match := npmURL.FindStringSubmatch(text); match != nil {
		host, wanted = match[1], strings.ReplaceAll(strings.Trim(match[2], "/ -"), "%2f", "/")
	}
	for _, pattern := range []*regexp.Regexp{npmMissing, npmNoTarget} {
		if match := pattern.FindStringSubmatch(text); match != nil {
			wanted = match[1]
		}
	}
	sentence = strings.NewReplacer("{package}", short(wanted), "{host}", host, "{why}", code+", "+why(code, lines)).Replace(sentence)
	return strings.ReplaceAll(sentence, "registry  ", "registry ")
}

// scriptOf is the package whose script failed.
func scriptOf(lines []string) string {
	for _, line := range lines {
		if match := npmPath.FindStringSubmatch(line); match != nil {
			if _, name, found := strings.Cut(match[1], "node_modules/"); found {
				return short(name)
			}
			return "the Function itself"
		}
	}
	return "a package"
}

// unexplaining begin lines that only name things.
var unexplaining = []string{"syscall", "errno", "path", "command"}

// why is the first line that explains, without the marks that npm puts before it.
func why(code string, lines []string) string {
	for _, line := range lines {
		words := strings.Fields(line)
		for len(words) > 0 && (words[0] == "network" || strings.EqualFold(words[0], code) || "E"+words[0] == code) {
			words = words[1:]
		}
		if len(words) > 1 && !slices.Contains(unexplaining, words[0]) {
			return short(strings.Join(words, " "))
		}
	}
	return "see its output"
}

// short bounds what of npm's words goes into a sentence.
func short(text string) string {
	const most = 200
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
