package dialer_test

import (
	"net"
	"net/netip"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/gitfn/gitfn/gitsource/dialer"
)

func TestPolicyLooksAtAddresses(t *testing.T) {
	t.Parallel()
	cluster := []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12"), netip.MustParsePrefix("fd00:10::/64")}
	rows := []struct {
		name, address string
		allow         string
		refused       bool
	}{
		{name: "a public address is connected", address: "203.0.113.7"},
		{name: "a public IPv6 address is connected", address: "2001:db8::7"},
		{name: "a private address outside of the cluster is connected", address: "192.168.1.7"},
		{name: "loopback is refused", address: "127.0.0.1", refused: true},
		{name: "all of loopback is refused", address: "127.255.0.9", refused: true},
		{name: "loopback of IPv6 is refused", address: "::1", refused: true},
		{name: "loopback mapped into IPv6 is refused", address: "::ffff:127.0.0.1", refused: true},
		{name: "loopback through NAT64 is refused", address: "64:ff9b::7f00:1", refused: true},
		{name: "loopback through 6to4 is refused", address: "2002:7f00:1::", refused: true},
		{name: "the cluster through NAT64 is refused", address: "64:ff9b::a60:1", refused: true},
		{name: "link-local is refused", address: "169.254.1.1", refused: true},
		{name: "the metadata address is refused", address: "169.254.169.254", refused: true},
		{name: "the metadata address mapped into IPv6 is refused", address: "::ffff:169.254.169.254", refused: true},
		{name: "the metadata address of IPv6 is refused", address: "fd00:ec2::254", refused: true},
		{name: "link-local of IPv6 is refused", address: "fe80::1", refused: true},
		{name: "link-local of IPv6 with a zone is refused", address: "fe80::1%lo", refused: true},
		{name: "the unspecified address is refused", address: "0.0.0.0", refused: true},
		{name: "the unspecified address of IPv6 is refused", address: "::", refused: true},
		{name: "multicast is refused", address: "224.0.0.1", refused: true},
		{name: "broadcast is refused", address: "255.255.255.255", refused: true},
		{name: "the cluster is refused", address: "10.96.0.1", refused: true},
		{name: "the cluster's IPv6 is refused", address: "fd00:10::1", refused: true},
		{name: "what is allowed wins over loopback", address: "127.0.0.1", allow: "127.0.0.0/8"},
		{name: "what is allowed wins over the cluster", address: "10.96.0.9", allow: "10.96.0.9/32"},
		{name: "what is allowed allows nothing else", address: "10.96.0.8", allow: "10.96.0.9/32", refused: true},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			policy := dialer.Policy{Deny: cluster}
			if row.allow != "" {
				policy.Allow = []netip.Prefix{netip.MustParsePrefix(row.allow)}
			}
			err := policy.Check(netip.MustParseAddr(row.address))
			if row.refused {
				g.Expect(err).To(MatchError(dialer.ErrRefused))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
		})
	}
}

func TestDialerLooksBehindTheName(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = listener.Close() })
	_, port, err := net.SplitHostPort(listener.Addr().String())
	g.Expect(err).NotTo(HaveOccurred())

	_, err = dialer.New(dialer.Policy{}, time.Second).DialContext(t.Context(), "tcp", "localhost:"+port)
	g.Expect(err).To(MatchError(dialer.ErrRefused))

	allow := dialer.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	connection, err := dialer.New(allow, time.Second).DialContext(t.Context(), "tcp4", "localhost:"+port)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(connection.Close()).To(Succeed())
}
