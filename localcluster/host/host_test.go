package host

import (
	"errors"
	"io/fs"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/gitfn/gitfn/localcluster/cluster"
)

func TestParseNameservers(t *testing.T) {
	for name, row := range map[string]struct {
		conf string
		want []string
	}{
		"servers are taken in their order":   {"search a.example\nnameserver 192.0.2.1\nnameserver 192.0.2.2\n", []string{"192.0.2.1", "192.0.2.2"}},
		"a stub on the loopback is left out": {"nameserver 127.0.0.53\noptions edns0\n", nil},
		"IPv6 is left out":                   {"nameserver fd00::1\nnameserver 192.0.2.1", []string{"192.0.2.1"}},
		"comments are no servers":            {"# nameserver 192.0.2.9\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(parseNameservers(row.conf)).To(Equal(row.want))
		})
	}
}

func TestOverlaps(t *testing.T) {
	s := cluster.Spec{Index: 3}
	for name, row := range map[string]struct {
		dst  string
		want bool
	}{
		"the same subnet":                 {"10.77.3.0/24", true},
		"one address of it":               {"10.78.3.10", true},
		"a wider subnet":                  {"10.76.0.0/16", true},
		"the next cluster's":              {"10.77.4.0/24", false},
		"the default route":               {"default", false},
		"a whole private network, routed": {"10.0.0.0/8", false},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(overlaps([]route{{Dst: row.dst}}, s.LinkCIDR(), s.PodCIDR(), s.ServiceCIDR())).To(Equal(row.want))
		})
	}
}

func TestParseHierarchies(t *testing.T) {
	for name, row := range map[string]struct {
		mounts string
		want   []string
	}{
		"version 2 has one": {"cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\nproc /proc proc rw 0 0\n", []string{"/sys/fs/cgroup"}},
		"version 1 has many": {
			"tmpfs /sys/fs/cgroup tmpfs rw 0 0\ncgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\ncgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n",
			[]string{"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/memory"},
		},
		"a mount elsewhere is somebody else's": {"cgroup2 /run/other cgroup2 rw 0 0\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(parseHierarchies(row.mounts)).To(Equal(row.want))
		})
	}
}

func TestMissingPackagesNamesThePackageOfEachMissingProgram(t *testing.T) {
	g := NewWithT(t)
	g.Expect(missingPackages(func(string) bool { return true })).To(BeEmpty())
	g.Expect(missingPackages(func(p string) bool { return p != "nft" && p != "ip" })).To(Equal([]string{"nftables", "iproute2"}))
}

func TestCheckDiskBeforeTheFirstCluster(t *testing.T) {
	err := checkDisk(t.TempDir() + "/not/there/yet")
	NewWithT(t).Expect(errors.Is(err, fs.ErrNotExist)).To(BeFalse(), "its parent counts")
}
