package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func seconds(all ...float64) []time.Duration {
	var durations []time.Duration
	for _, s := range all {
		durations = append(durations, time.Duration(s*float64(time.Second)))
	}
	return durations
}

// measured has every row: a Job takes 3 s, a rollout 2.
func measured() map[string][]time.Duration {
	return map[string][]time.Duration{
		rowJob: seconds(3.2, 3, 2.9), rowRollout: seconds(2, 2, 2.5),
		rowInline: seconds(6), rowPush: seconds(5.1, 4, 5), rowRevert: seconds(2.7),
		rowNoDeps: seconds(1.5), rowDepsCold: seconds(9), rowDepsWarm: seconds(3),
	}
}

func TestSummarize(t *testing.T) {
	for _, row := range []struct {
		name    string
		samples []time.Duration
		want    summary
	}{
		{"one sample is all of it", seconds(2), summary{2, 2, 2, 1}},
		{"an odd number: the middle one", seconds(9, 1, 2), summary{2, 1, 9, 3}},
		{"an even number: halfway between the middle two", seconds(4, 1, 9, 2), summary{3, 1, 9, 4}},
	} {
		t.Run(row.name, func(t *testing.T) {
			g := NewWithT(t)
			given := append([]time.Duration{}, row.samples...)
			g.Expect(summarize(row.samples)).To(Equal(row.want))
			g.Expect(row.samples).To(Equal(given), "the samples stay in the order of their taking")
		})
	}
}

func TestReport(t *testing.T) {
	g := NewWithT(t)
	rows, err := report(measured())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(rows).To(Equal([]row{
		{Name: "empty-job", Unit: "s", Median: 3, Min: 2.9, Max: 3.2, N: 3, Floor: 3, Ratio: 1},
		{Name: "empty-rollout", Unit: "s", Median: 2, Min: 2, Max: 2.5, N: 3, Floor: 2, Ratio: 1},
		{Name: "inline-to-answer", Unit: "s", Median: 6, Min: 6, Max: 6, N: 1, Floor: 5, Ratio: 1.2},
		{Name: "push-to-answer", Unit: "s", Median: 5, Min: 4, Max: 5.1, N: 3, Floor: 5, Ratio: 1, wanted: 1},
		{Name: "revert-to-answer", Unit: "s", Median: 2.7, Min: 2.7, Max: 2.7, N: 1, Floor: 2, Ratio: 1.35, wanted: 1.3},
		{Name: "build-nodeps", Unit: "s", Median: 1.5, Min: 1.5, Max: 1.5, N: 1, Floor: 3, Ratio: 0.5, wanted: 1},
		{Name: "build-deps-cold", Unit: "s", Median: 9, Min: 9, Max: 9, N: 1, Floor: 3, Ratio: 3},
		{Name: "build-deps-cached", Unit: "s", Median: 3, Min: 3, Max: 3, N: 1, Floor: 3, Ratio: 1, wanted: 1},
	}))
	g.Expect(over(rows)).To(BeTrue())
	g.Expect(rows[3].verdict()).To(Equal("ok"), "at most means that as much is good")
	g.Expect(rows[4].verdict()).To(Equal("over"))
	g.Expect(rows[6].verdict()).To(BeEmpty(), "nothing is wanted of it")
}

func TestReportMissesNoRow(t *testing.T) {
	g := NewWithT(t)
	samples := measured()
	delete(samples, rowDepsCold)
	_, err := report(samples)
	g.Expect(err).To(MatchError(ContainSubstring("no sample of build-deps-cold")))
}

func TestTable(t *testing.T) {
	g := NewWithT(t)
	rows, err := report(measured())
	g.Expect(err).NotTo(HaveOccurred())
	var out bytes.Buffer
	printRows(&out, rows[:5])
	g.Expect(out.String()).To(Equal(`ROW               SECONDS, MEDIAN (MIN–MAX)  N  FLOOR  RATIO  WANTED  
empty-job         3.00 (2.90–3.20)           3  3.00   1.00   -       
empty-rollout     2.00 (2.00–2.50)           3  2.00   1.00   -       
inline-to-answer  6.00 (6.00–6.00)           1  5.00   1.20   -       
push-to-answer    5.00 (4.00–5.10)           3  5.00   1.00   ≤ 1.0   ok
revert-to-answer  2.70 (2.70–2.70)           1  2.00   1.35   ≤ 1.3   over
`))
}

func TestJSON(t *testing.T) {
	g := NewWithT(t)
	rows, err := report(measured())
	g.Expect(err).NotTo(HaveOccurred())
	file := filepath.Join(t.TempDir(), "bench.json")
	g.Expect(writeJSON(file, rows)).To(Succeed())
	text, err := os.ReadFile(file)
	g.Expect(err).NotTo(HaveOccurred())
	var objects []map[string]any
	g.Expect(json.Unmarshal(text, &objects)).To(Succeed())
	var names []any
	for _, object := range objects {
		names = append(names, object["name"])
		g.Expect(object).To(HaveLen(8))
	}
	g.Expect(names).To(Equal([]any{
		"empty-job", "empty-rollout", "inline-to-answer", "push-to-answer", "revert-to-answer",
		"build-nodeps", "build-deps-cold", "build-deps-cached",
	}))
	g.Expect(objects[4]).To(Equal(map[string]any{
		"name": "revert-to-answer", "unit": "s", "median": 2.7, "min": 2.7, "max": 2.7, "n": 1.0, "floor": 2.0, "ratio": 1.35,
	}))
	g.Expect(writeJSON(filepath.Join(file, "below"), rows)).To(MatchError(ContainSubstring("write rows as JSON")))
}

func TestFailures(t *testing.T) {
	g := NewWithT(t)
	var out bytes.Buffer
	printFailures(&out, 9, nil)
	g.Expect(out.String()).To(Equal("\nOf 9 requests during pushes and reverts none failed.\n"))
	out.Reset()
	printFailures(&out, 9, map[string]int{"EOF": 2, "503": 1})
	g.Expect(out.String()).To(Equal("\nOf 9 requests during pushes and reverts some failed; wanted are none:\n  1: 503\n  2: EOF\n"))
}

func TestMoments(t *testing.T) {
	g := NewWithT(t)
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	lines := medianMoments([][]moment{
		{{"created", ms(10)}, {"ready", ms(900)}, {"answered", ms(1000)}},
		{{"created", ms(30)}, {"answered", ms(1400)}},
		{{"created", ms(20)}, {"ready", ms(1100)}, {"answered", ms(1200)}},
	})
	g.Expect(lines).To(Equal([]medianMoment{
		{"created", ms(20), ms(20)}, {"ready", ms(1000), ms(980)}, {"answered", ms(1200), ms(200)},
	}))
}

func TestParse(t *testing.T) {
	g := NewWithT(t)
	o, err := parse(nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(o).To(Equal(options{cluster: "bench", samples: 5}))
	_, err = parse([]string{"--samples", "0"})
	g.Expect(err).To(MatchError("--samples is 0: it must be at least 1"))
	_, err = parse([]string{"dev"})
	g.Expect(err).To(MatchError(ContainSubstring(`no argument "dev"`)))
}
