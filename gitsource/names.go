package gitsource

import (
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// checkName refuses a name of a file or directory that some disk or shell would take for something else.
func checkName(name string) error {
	switch {
	case name == "" || name == "." || name == "..":
		return errors.New(`the name "` + name + `" leads elsewhere`)
	case strings.ContainsAny(name, `/\`):
		return errors.New("a name holds a slash or backslash")
	case !utf8.ValidString(name):
		return errors.New("a name is not UTF-8")
	case strings.ContainsFunc(name, unicode.IsControl):
		return errors.New("a name holds a control character")
	case len(name) > 255:
		return errors.New("a name is longer than 255 bytes")
	case isDotGit(name):
		return errors.New(`the name ".git", or one that some disks take for it, is Git's own`)
	}
	return nil
}

// isDotGit recognises .git as Windows and macOS disks would: whatever its case, with dots and spaces after it,
// by its short name, and with characters in it that those disks ignore.
func isDotGit(name string) bool {
	visible := withoutInvisible(name)
	visible, _, _ = strings.Cut(visible, ":") // before a stream of NTFS, spaces and dots do not count either
	visible = strings.ToLower(strings.TrimRight(visible, ". "))
	return visible == ".git" || visible == "git~1"
}

// withoutInvisible takes out the characters that show nothing, as macOS disks do when they compare names.
func withoutInvisible(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Cf, r) {
			return -1
		}
		return r
	}, name)
}

// foldName is what names have in common that some disk takes for one: case, the ways in which Unicode writes one
// character, and characters that show nothing do not count.
func foldName(name string) string {
	if !strings.ContainsFunc(name, func(r rune) bool { return r >= utf8.RuneSelf }) {
		return strings.ToLower(name)
	}
	folded := cases.Fold().String(norm.NFD.String(withoutInvisible(name)))
	return norm.NFD.String(folded)
}
