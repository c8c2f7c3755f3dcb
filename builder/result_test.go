package builder

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

func TestReport(t *testing.T) {
	rows := []struct {
		name   string
		report Report
	}{
		{name: "a result comes back", report: Report{Result: &Result{Digest: "sha256:1", Cached: true, Seconds: map[Stage]float64{StageFetch: 0.1}}}},
		{name: "a failure comes back", report: Report{Error: &StepError{Stage: StageInstall, Class: ClassInstallFailed, Message: "no", Output: "a\nb"}}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			g := NewWithT(t)
			back, readable := DecodeReport(string(row.report.Encode()))
			g.Expect(readable).To(BeTrue())
			g.Expect(back).To(Equal(row.report))
		})
	}
}

func TestReportFitsATerminationMessage(t *testing.T) {
	rows := []struct{ name, message, output string }{
		{name: "a long output keeps its end", message: "short", output: strings.Repeat("x\n", 5000) + "the end"},
		{name: "an output that doubles in JSON fits too", message: "short", output: strings.Repeat("\x01\"ü", 3000) + "the end"},
		{name: "a long message is cut", message: strings.Repeat("ü", 9000)},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			g := NewWithT(t)
			text := Report{Error: &StepError{Class: ClassInstallFailed, Message: row.message, Output: row.output}}.Encode()
			g.Expect(len(text)).To(BeNumerically("<=", MessageBytes))
			back, readable := DecodeReport(string(text))
			g.Expect(readable).To(BeTrue())
			g.Expect(back.Error.Class).To(Equal(ClassInstallFailed))
			g.Expect(row.output == "" || strings.HasSuffix(back.Error.Output, "the end")).To(BeTrue())
		})
	}
}

func TestNoReport(t *testing.T) {
	for name, message := range map[string]string{
		"an empty message is no report":           "",
		"a log line is no report":                 "npm error code E404",
		"JSON of something else is no report":     `{"level":"info"}`,
		"half a report is no report":              `{"result":{"digest":"sha`,
		"a report of a stage that says nothing":   `{}`,
		"a list is no report, whatever is in it":  `[{"result":{}}]`,
		"a number is no report":                   "7",
		"a forged report in a string is a string": `"{\"result\":{\"digest\":\"x\"}}"`,
	} {
		t.Run(name, func(t *testing.T) {
			_, readable := DecodeReport(message)
			NewWithT(t).Expect(readable).To(BeFalse())
		})
	}
}
