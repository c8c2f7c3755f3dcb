package controllers

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/gitfn/gitfn/builder"
	"github.com/gitfn/gitfn/gitsource"
)

// sentinels are the errors of gitsource, by the names that they have there.
var sentinels = map[string]error{
	"ErrAuth":               gitsource.ErrAuth,
	"ErrRefNotFound":        gitsource.ErrRefNotFound,
	"ErrRepositoryNotFound": gitsource.ErrRepositoryNotFound,
	"ErrBaseDirNotFound":    gitsource.ErrBaseDirNotFound,
	"ErrTooLarge":           gitsource.ErrTooLarge,
	"ErrHostKey":            gitsource.ErrHostKey, "ErrUnverified": gitsource.ErrUnverified,
	"ErrUnsafeTree":     gitsource.ErrUnsafeTree,
	"ErrUnavailable":    gitsource.ErrUnavailable,
	"ErrAddressRefused": gitsource.ErrAddressRefused,
	"ErrInvalidURL":     gitsource.ErrInvalidURL,
	"ErrUnsupported":    gitsource.ErrUnsupported,
}

// TestEveryErrorHasARow reads which sentinels gitsource has, so that a new one
// cannot come without somebody deciding how it is told.
func TestEveryErrorHasARow(t *testing.T) {
	g := NewWithT(t)
	packages, err := parser.ParseDir(token.NewFileSet(), "../gitsource", nil, 0)
	g.Expect(err).NotTo(HaveOccurred())
	var found int
	for _, file := range packages["gitsource"].Files {
		for name, object := range file.Scope.Objects {
			if object.Kind != ast.Var || len(name) < 4 || name[:3] != "Err" {
				continue
			}
			found++
			g.Expect(sentinels).To(HaveKey(name), "gitsource.%s is new: give it a row in sourceFailures, and name it here", name)
		}
	}
	g.Expect(found).To(Equal(len(sentinels)), "a sentinel is gone")
	for name, sentinel := range sentinels {
		row := classifySource(fmt.Errorf("ask: %w", sentinel))
		g.Expect(row.err).To(BeIdenticalTo(sentinel), "gitsource.%s has no row", name)
		g.Expect(row.passes).To(Equal(row.class.Passing()), "gitsource.%s is treated as its class is", name)
	}
	g.Expect(sourceFailures).To(HaveLen(len(sentinels)))
}

// TestTableInOrder wants that no row hides one below it.
func TestTableInOrder(t *testing.T) {
	g := NewWithT(t)
	for _, row := range sourceFailures {
		g.Expect(classifySource(row.err).err).To(BeIdenticalTo(row.err))
	}
	for _, unknown := range []error{errors.New("what is this"), context.DeadlineExceeded} {
		row := classifySource(unknown)
		g.Expect(row.passes).To(BeTrue(), "better to ask again than to give up")
		g.Expect(row.class).To(Equal(builder.ClassSourceUnavailable))
	}
}

func TestRetryAfter(t *testing.T) {
	g := NewWithT(t)
	for attempt, want := range map[int32]time.Duration{
		0: 30 * time.Second, 1: 30 * time.Second, 2: time.Minute, 3: 2 * time.Minute, 4: 4 * time.Minute,
		5: 8 * time.Minute, 6: 15 * time.Minute, 7: 15 * time.Minute, 1 << 30: 15 * time.Minute, -1: 30 * time.Second,
	} {
		g.Expect(retryAfter(attempt)).To(Equal(want), "attempt %d", attempt)
	}
}

func TestSummaryNamesEveryCondition(t *testing.T) {
	g := NewWithT(t)
	for _, summarized := range readySummary.Summarize {
		g.Expect(readySummary.Owned).To(ContainElement(summarized))
	}
	g.Expect(readySummary.Owned).To(ConsistOf(append([]any{readySummary.Target}, anys(readySummary.Summarize)...)...))
	g.Expect(readySummary.Summarize).To(ContainElements(readySummary.NegativePolarity))
}

func anys(words []string) (all []any) {
	for _, word := range words {
		all = append(all, word)
	}
	return all
}
