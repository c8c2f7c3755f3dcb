package cluster

import (
	"errors"
	"os"
	"os/exec"
	"testing"

	. "github.com/onsi/gomega"
)

func TestCheckName(t *testing.T) {
	for name, row := range map[string]struct {
		name string
		ok   bool
	}{
		"letters, digits, inner dash: taken": {"dev-2", true},
		"one letter: taken":                  {"a", true},
		"twenty characters: taken":           {"abcdefghijklmnopqrst", true},
		"twenty-one characters: refused":     {"abcdefghijklmnopqrstu", false},
		"empty: refused":                     {"", false},
		"upper case: refused":                {"Dev", false},
		"outer dash: refused":                {"dev-", false},
		"a path: refused":                    {"../dev", false},
		"underscore: refused":                {"a_b", false},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(CheckName(row.name) == nil).To(Equal(row.ok))
		})
	}
}

func TestAllocate(t *testing.T) {
	free := func(int) bool { return false }
	for name, row := range map[string]struct {
		clusters map[string]int
		taken    func(int) bool
		want     int
	}{
		"the first cluster gets 1":                  {map[string]int{}, free, 1},
		"a known cluster keeps its index":           {map[string]int{"dev": 7}, func(int) bool { return true }, 7},
		"a gap is filled":                           {map[string]int{"a": 1, "b": 3}, free, 2},
		"subnets that the machine routes are left":  {map[string]int{"a": 1}, func(i int) bool { return i < 5 }, 5},
		"a machine that routes all of them: refuse": {map[string]int{}, func(int) bool { return true }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			r := Records{Clusters: row.clusters}
			got, err := r.Allocate("dev", row.taken)
			g.Expect(got).To(Equal(row.want))
			g.Expect(err == nil).To(Equal(row.want != 0))
			g.Expect(r.Clusters["dev"]).To(Equal(row.want))
		})
	}
}

func TestUpdateKeepsWhatWasChanged(t *testing.T) {
	g := NewWithT(t)
	home := Home(t.TempDir())
	g.Expect(home.Update(func(r *Records) error { r.Clusters["dev"], r.IPForward = 4, "0"; return nil })).To(Succeed())
	g.Expect(home.Update(func(r *Records) error { r.Clusters["dev"] = 5; return errors.New("no") })).NotTo(Succeed())
	g.Expect(home.Update(func(r *Records) error {
		g.Expect(*r).To(Equal(Records{Clusters: map[string]int{"dev": 4}, IPForward: "0"}))
		return nil
	})).To(Succeed())
}

func TestSpecIsReadAsItWasSaved(t *testing.T) {
	g := NewWithT(t)
	s := Spec{Name: "dev", Index: 3, Dir: Dir(t.TempDir()), MTU: 1400, Nameservers: []string{"192.0.2.53"}}
	g.Expect(s.Save()).To(Succeed())
	g.Expect(Load(s.Dir)).To(Equal(s))

	_, err := Load(Dir(t.TempDir()))
	g.Expect(err).To(MatchError(os.ErrNotExist))
}

func TestParseStatCountsFromTheLastParenthesis(t *testing.T) {
	g := NewWithT(t)
	start, state, err := parseStat("42 (a) b) S 1 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 98765 1000 50")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(state).To(Equal("S"))
	g.Expect(start).To(Equal("98765"))

	_, _, err = parseStat("42 (short) S 1")
	g.Expect(err).To(HaveOccurred())
}

func TestProcessIsAliveOnlyAsItself(t *testing.T) {
	g := NewWithT(t)
	cmd := exec.Command("sleep", "60")
	g.Expect(cmd.Start()).To(Succeed())
	p, err := Observe(cmd.Process.Pid)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(p.Alive()).To(BeTrue())

	other := p
	other.Start = "1"
	g.Expect(other.Alive()).To(BeFalse(), "another process with the same number")
	rebooted := p
	rebooted.Boot = "another"
	g.Expect(rebooted.Alive()).To(BeFalse(), "a process from before the machine started anew")
	g.Expect(Process{}.Alive()).To(BeFalse())

	g.Expect(p.Kill()).To(Succeed())
	_ = cmd.Wait()
	g.Expect(p.Alive()).To(BeFalse())
	g.Expect(p.Kill()).To(Succeed(), "a process that has gone")
}
