package builder

import (
	"testing"

	. "github.com/onsi/gomega"
)

func TestPrintable(t *testing.T) {
	rows := []struct{ name, text, want string }{
		{"words stay, in any script", "häh 日本\n\ttab", "häh 日本\n\ttab"},
		{"colours go", "\x1b[1;31mred\x1b[0m", "red"},
		{"a title goes, however it ends", "\x1b]0;mine\x07a\x1b]2;mine\x1b\\b", "ab"},
		{"a clear screen goes", "a\x1b[2J\x1b[Hb\x1bcc", "abc"},
		{"a lone escape goes", "a\x1b", "a"},
		{"carriage return, bell and delete go", "a\rb\x07c\x7fd\u0085e", "abcde"},
		{"marks that turn the direction go", "a\u202eb\u2066c\u200bd\ufeff", "abcd"},
		{"what is not UTF-8 goes", "a\xff\xfeb", "ab"},
		{"what only becomes an escape by another's removal goes", "\x1b\xff[31mred", "red"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			NewWithT(t).Expect(Printable(row.text)).To(Equal(row.want))
		})
	}
}

func TestClassesThatPass(t *testing.T) {
	g := NewWithT(t)
	g.Expect(ClassDependencyUnavailable.Passing()).To(BeTrue())
	g.Expect(ClassInstallFailed.Passing()).To(BeFalse())
	g.Expect(Plan{Base: "h/r@sha256:1"}.BaseDigest()).To(Equal("sha256:1"))
}
