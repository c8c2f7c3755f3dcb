// Package dialer connects to addresses that a user may name, and refuses those that a user must not reach.
//
// In go lists of prefixes to allow and to deny, and the proxy if there is one; out comes a net.Dialer, or a transport
// for HTTP. It never trusts a name and never reads the environment: the decision is made on the address, after
// resolution and right before connecting, so that a name that changes its answer gains nothing.
//
// What flows where: a URL of a user ─► net/http ─► net.Dialer, which resolves ─► Check(address) ─► connect or ErrRefused.
//
// A proxy resolves for itself, where nobody here can look. So a target that is to be asked of a proxy, a user's or the
// administrator's, is refused if it is a refused address, however written, or a name that resolves here to one. What
// cannot be checked: a name that only the proxy can resolve, and one that answers differently there. An administrator
// who sets a proxy lets it refuse its own inside, as it does for everybody else. A user's proxy has to have an
// address that the policy allows; the administrator's may have any.
package dialer

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"
)

// ErrRefused says that an address must not be connected to. It is in every error that a refusal causes.
var ErrRefused = errors.New("address refused")

// always is refused unless allowed, besides what netip has a predicate for.
var always = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),          // "this network": reaches the host itself
	netip.MustParsePrefix("100.100.100.200/32"), // metadata of Alibaba Cloud
	netip.MustParsePrefix("168.63.129.16/32"),   // the host agent of Azure
	netip.MustParsePrefix("192.0.0.192/32"),     // metadata of Oracle Cloud
	netip.MustParsePrefix("240.0.0.0/4"),        // reserved, with broadcast
	netip.MustParsePrefix("fd00:ec2::/32"),      // metadata of AWS
	netip.MustParsePrefix("fd20:ce::/32"),       // metadata of Google Cloud
	netip.MustParsePrefix("fec0::/10"),          // site-local, the link-local of old
}

// carriers hold an IPv4 address inside an IPv6 one, and at which byte: what a translator on the way would connect to.
var carriers = []struct {
	prefix netip.Prefix
	at     int
}{
	{netip.MustParsePrefix("::/96"), 12},          // IPv4-compatible
	{netip.MustParsePrefix("64:ff9b::/96"), 12},   // NAT64
	{netip.MustParsePrefix("64:ff9b:1::/48"), 12}, // local NAT64
	{netip.MustParsePrefix("2002::/16"), 2},       // 6to4
}

// Policy says which addresses may be connected to. The zero value refuses loopback, link-local, metadata,
// unspecified and multicast addresses and allows the rest.
type Policy struct {
	// Allow names addresses that are never refused. It wins over Deny and over what is always refused.
	Allow []netip.Prefix
	// Deny names addresses that are refused besides the others.
	Deny []netip.Prefix
}

// Check returns nil when address may be connected to, and an error that matches ErrRefused when not.
func (p Policy) Check(address netip.Addr) error {
	address = address.Unmap().WithZone("")
	if !address.IsValid() {
		return fmt.Errorf("connect: %w: no address", ErrRefused)
	}
	if within(p.Allow, address) {
		return nil
	}
	if refused(address) || within(p.Deny, address) {
		return fmt.Errorf("connect to %s: %w: it is of this host, its network or the cluster", address, ErrRefused)
	}
	if inner, carried := carried(address); carried {
		return p.Check(inner)
	}
	return nil
}

// refused is what no user has business with.
func refused(a netip.Addr) bool {
	return a.IsLoopback() || a.IsLinkLocalUnicast() || a.IsMulticast() || a.IsUnspecified() || within(always, a)
}

func within(prefixes []netip.Prefix, a netip.Addr) bool {
	for _, prefix := range prefixes {
		if prefix.Contains(a) {
			return true
		}
	}
	return false
}

func carried(a netip.Addr) (netip.Addr, bool) {
	for _, carrier := range carriers {
		if a.Is6() && carrier.prefix.Contains(a) {
			bytes := a.As16()
			return netip.AddrFrom4([4]byte(bytes[carrier.at : carrier.at+4])), true
		}
	}
	return netip.Addr{}, false
}

// New returns a dialer that connects to what the policy allows, and gives up on an address after timeout.
func New(policy Policy, timeout time.Duration) *net.Dialer {
	return &net.Dialer{
		Timeout: timeout,
		Control: func(network, address string, _ syscall.RawConn) error {
			resolved, err := netip.ParseAddrPort(address)
			if err != nil {
				return fmt.Errorf("connect to %s %s: %w", network, address, ErrRefused)
			}
			return policy.Check(resolved.Addr())
		},
	}
}
