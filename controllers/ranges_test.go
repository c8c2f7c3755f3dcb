package controllers

import (
	"net/netip"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

func TestMergedIsTheSameInFewer(t *testing.T) {
	for _, row := range []struct{ name, ranges, want string }{
		{"none", "", ""},
		{"one", "10.96.0.0/12", "10.96.0.0/12"},
		{"nodes side by side", "10.244.0.0/24 10.244.1.0/24 10.244.2.0/24 10.244.3.0/24", "10.244.0.0/22"},
		{"nodes that leave a gap", "10.244.3.0/24 10.244.0.0/24 10.244.1.0/24", "10.244.0.0/23 10.244.3.0/24"},
		{"neighbours of two halves stay two", "10.244.1.0/24 10.244.2.0/24", "10.244.1.0/24 10.244.2.0/24"},
		{"one within another", "10.244.0.0/16 10.244.7.0/24 10.244.7.0/24", "10.244.0.0/16"},
		{"both families", "fd00:10:244::/64 10.244.0.0/24 fd00:10:244:1::/64", "10.244.0.0/24 fd00:10:244::/63"},
		{"everything", "0.0.0.0/1 128.0.0.0/1", "0.0.0.0/0"},
		{"an address of a range stands for it", "10.244.0.7/24", "10.244.0.0/24"},
	} {
		t.Run(row.name, func(t *testing.T) {
			g := NewWithT(t)
			var prefixes []netip.Prefix
			for _, text := range strings.Fields(row.ranges) {
				prefixes = append(prefixes, netip.MustParsePrefix(text))
			}
			var got []string
			for _, prefix := range merged(prefixes) {
				got = append(got, prefix.String())
			}
			g.Expect(strings.Join(got, " ")).To(Equal(row.want))
		})
	}
}
