package gitsource

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	. "github.com/onsi/gomega"
)

const someBytes = "01234567890123456789"

func TestEntriesAreReadAsGitReadsThem(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name, tree string
		want       string // "mode name" of each row
		err        error
	}{
		{name: "no rows", tree: "", want: ""},
		{name: "one of each kind", tree: "100644 a\x00" + someBytes + "100755 b\x00" + someBytes + "120000 c\x00" + someBytes + "40000 d\x00" + someBytes + "160000 e\x00" + someBytes,
			want: "100644 a, 100755 b, 120000 c, 40000 d, 160000 e"},
		{name: "old and odd permissions count only by the owner's bit", tree: "100664 a\x00" + someBytes + "104755 b\x00" + someBytes + "100666 c\x00" + someBytes, want: "100644 a, 100755 b, 100644 c"},
		{name: "a zero before a mode", tree: "040000 d\x00" + someBytes, want: "40000 d"},
		{name: "directories sort as if they ended in a slash", tree: "100644 a-\x00" + someBytes + "40000 a\x00" + someBytes + "100644 a0\x00" + someBytes, want: "100644 a-, 40000 a, 100644 a0"},
		{name: "no tree at all", tree: "garbage", err: ErrUnsafeTree},
		{name: "a mode that is no number", tree: "rwxr a\x00" + someBytes, err: ErrUnsafeTree},
		{name: "a mode without end", tree: strings.Repeat("1", 100_000), err: ErrUnsafeTree},
		{name: "a mode that is too large", tree: "1100644 a\x00" + someBytes, err: ErrUnsafeTree},
		{name: "a kind that Git does not have", tree: "140000 socket\x00" + someBytes, err: ErrUnsafeTree},
		{name: "no kind", tree: "644 a\x00" + someBytes, err: ErrUnsafeTree},
		{name: "a name without end", tree: "100644 a", err: ErrUnsafeTree},
		{name: "a name longer than any path", tree: "100644 " + strings.Repeat("a", 100_000) + "\x00" + someBytes, err: ErrUnsafeTree},
		{name: "half an id", tree: "100644 a\x000123", err: ErrUnsafeTree},
		{name: "names that are not in order", tree: "100644 b\x00" + someBytes + "100644 a\x00" + someBytes, err: ErrUnsafeTree},
		{name: "more rows than the limit", tree: strings.Repeat("100644 a\x00"+someBytes, 11), err: ErrTooLarge},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			objects := memoryObjects{}
			entries, err := readEntries(objects, objects.add(plumbing.TreeObject, []byte(row.tree)), 10)
			if row.err != nil {
				g.Expect(err).To(MatchError(row.err))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			var got []string
			for _, e := range entries {
				got = append(got, fmt.Sprintf("%o %s", uint32(e.mode), e.name))
			}
			g.Expect(strings.Join(got, ", ")).To(Equal(row.want))
		})
	}
}

func TestMalformedObjectsAreUnsafe(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	objects := memoryObjects{}
	_, err := readEntries(objects, objects.add(plumbing.BlobObject, []byte("a blob")), 10)
	g.Expect(err).To(MatchError(ErrUnsafeTree))
	_, err = readCommit(objects, objects.add(plumbing.CommitObject, []byte("tree garbage\n")).String())
	g.Expect(err).To(HaveOccurred())
	_, err = readCommit(objects, objects.add(plumbing.TreeObject, nil).String())
	g.Expect(err).To(MatchError(ErrRefNotFound))
	_, err = readCommit(objects, someID)
	g.Expect(err).To(MatchError(errBroken))
}

func FuzzReadEntries(f *testing.F) {
	f.Add([]byte("100644 a\x00" + someBytes))
	f.Add([]byte("40000 a\x00" + someBytes + "160000 b\x00" + someBytes))
	f.Add([]byte("garbage"))
	f.Fuzz(func(t *testing.T, tree []byte) {
		objects := memoryObjects{}
		entries, err := readEntries(objects, objects.add(plumbing.TreeObject, tree), 100)
		if err != nil {
			if !errors.Is(err, ErrUnsafeTree) && !errors.Is(err, ErrTooLarge) {
				t.Fatalf("%v has no kind", err)
			}
			return
		}
		again, err := readEntries(objects, writeEntries(objects, entries), 100)
		if err != nil || len(again) != len(entries) {
			t.Fatalf("what was written is read as %v, %v", again, err)
		}
	})
}
