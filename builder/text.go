package builder

import (
	"regexp"
	"strings"
)

// escape is a control sequence of a terminal: a colour, a cursor movement, a title.
var escape = regexp.MustCompile("\x1b(\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]*(\x07|\x1b\\\\)?|[0-Z\\\\^-~])")

// Printable drops from text what no line of output needs: control sequences and
// control characters but tab and line feed, marks that turn the direction of
// writing, and bytes that are not UTF-8. So no output moves a terminal's cursor
// or forges another line.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t':
			return r
		case r < ' ', r >= 0x7f && r <= 0x9f:
			return -1
		case r >= 0x200b && r <= 0x200f, r >= 0x2028 && r <= 0x202e, r >= 0x2060 && r <= 0x2069, r == 0xfeff:
			return -1
		}
		return r
	}, escape.ReplaceAllString(strings.ToValidUTF8(text, ""), ""))
}
