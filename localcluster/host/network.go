package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"github.com/gitfn/gitfn/localcluster/cluster"
)

const ipForward = "/proc/sys/net/ipv4/ip_forward"

type route struct {
	Dst string `json:"dst"`
	Dev string `json:"dev"`
}

func routes(ctx context.Context) ([]route, error) {
	out, err := command(ctx, "ip", "-json", "-4", "route", "show", "table", "main")
	if err != nil {
		return nil, err
	}
	var rs []route
	if err := json.Unmarshal([]byte(out), &rs); err != nil {
		return nil, fmt.Errorf("read the routes: %w", err)
	}
	return rs, nil
}

// Taken returns a function that says whether the machine already routes one of the subnets of an index.
func Taken(ctx context.Context) (func(index int) bool, error) {
	rs, err := routes(ctx)
	if err != nil {
		return nil, err
	}
	return func(index int) bool {
		s := cluster.Spec{Index: index}
		return overlaps(rs, s.LinkCIDR(), s.PodCIDR(), s.ServiceCIDR())
	}, nil
}

// overlaps ignores the default route, and routes as wide as a whole private network: a narrower one of
// ours wins over them.
func overlaps(rs []route, cidrs ...string) bool {
	for _, r := range rs {
		p, err := netip.ParsePrefix(r.Dst)
		if err != nil {
			a, err := netip.ParseAddr(r.Dst)
			if err != nil {
				continue
			}
			p = netip.PrefixFrom(a, a.BitLen())
		}
		if p.Bits() <= 12 {
			continue
		}
		for _, c := range cidrs {
			if p.Overlaps(netip.MustParsePrefix(c)) {
				return true
			}
		}
	}
	return false
}

// MTU returns that of the device of the default route, or 1500 without one.
func MTU(ctx context.Context) (int, error) {
	rs, err := routes(ctx)
	if err != nil {
		return 0, err
	}
	for _, r := range rs {
		if r.Dst == "default" {
			data, err := os.ReadFile("/sys/class/net/" + r.Dev + "/mtu")
			if err != nil {
				return 0, err
			}
			return strconv.Atoi(strings.TrimSpace(string(data)))
		}
	}
	return 1500, nil
}

// Nameservers returns those of the machine that a cluster can reach: not the ones on a loopback address.
func Nameservers() []string {
	var found []string
	// The second is where systemd-resolved keeps the real ones behind its stub on 127.0.0.53.
	for _, file := range []string{"/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"} {
		data, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		if found = parseNameservers(string(data)); len(found) > 0 {
			break
		}
	}
	return found
}

func parseNameservers(conf string) []string {
	var found []string
	for line := range strings.Lines(conf) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != "nameserver" {
			continue
		}
		// The cluster has only IPv4 addresses.
		if a, err := netip.ParseAddr(fields[1]); err == nil && a.Is4() && !a.IsLoopback() {
			found = append(found, fields[1])
		}
	}
	return found
}

// Connect links the machine with the network namespace of process pid, routes Pods and Services there and
// masquerades what the cluster sends out.
func Connect(ctx context.Context, s cluster.Spec, pid int) error {
	netns, mtu := strconv.Itoa(pid), strconv.Itoa(s.MTU)
	steps := [][]string{
		{"ip", "link", "add", s.Link(), "mtu", mtu, "type", "veth", "peer", "name", "eth0", "mtu", mtu, "netns", netns},
		{"ip", "addr", "add", s.HostIP() + "/30", "dev", s.Link()},
		{"ip", "link", "set", s.Link(), "up"},
		{"ip", "route", "add", s.PodCIDR(), "via", s.NodeIP(), "dev", s.Link()},
		{"ip", "route", "add", s.ServiceCIDR(), "via", s.NodeIP(), "dev", s.Link()},
	}
	for _, step := range steps {
		if _, err := command(ctx, step[0], step[1:]...); err != nil {
			return fmt.Errorf("connect the cluster's network: %w", err)
		}
	}
	table := fmt.Sprintf(`table ip %s {
	chain postrouting {
		type nat hook postrouting priority srcnat; policy accept;
		ip saddr { %s, %s } oifname != "%s" masquerade
	}
}
`, s.Table(), s.LinkCIDR(), s.PodCIDR(), s.Link())
	if _, err := commandInput(ctx, table, "nft", "-f", "-"); err != nil {
		return fmt.Errorf("masquerade the cluster's traffic: %w", err)
	}
	return allowForwarding(ctx, s)
}

// allowForwarding matters on machines where another program, such as Docker, drops what it does not know.
func allowForwarding(ctx context.Context, s cluster.Spec) error {
	policy, err := command(ctx, "iptables-save", "-t", "filter")
	if err != nil || !strings.Contains(policy, ":FORWARD DROP") {
		return nil
	}
	for _, direction := range []string{"-i", "-o"} {
		if _, err := command(ctx, "iptables", append([]string{"-I"}, forwardRule(s, direction)...)...); err != nil {
			return fmt.Errorf("allow forwarding: %w", err)
		}
	}
	return nil
}

func forwardRule(s cluster.Spec, direction string) []string {
	return []string{"FORWARD", direction, s.Link(), "-m", "comment", "--comment", s.Table(), "-j", "ACCEPT"}
}

// Disconnect removes what Connect made, and whatever part of it there is.
func Disconnect(ctx context.Context, s cluster.Spec) error {
	var errs []error
	if _, err := os.Stat("/sys/class/net/" + s.Link()); err == nil {
		// The device goes by itself when its peer's namespace does, perhaps right now.
		if _, err := command(ctx, "ip", "link", "del", s.Link()); err != nil && deviceExists(s.Link()) {
			errs = append(errs, err)
		}
	}
	if tables, err := command(ctx, "nft", "list", "tables"); err != nil {
		errs = append(errs, err)
	} else if strings.Contains(tables, "table ip "+s.Table()+"\n") {
		_, err := command(ctx, "nft", "delete", "table", "ip", s.Table())
		errs = append(errs, err)
	}
	if rules, err := command(ctx, "iptables-save", "-t", "filter"); err == nil && strings.Contains(rules, s.Table()) {
		for _, direction := range []string{"-i", "-o"} {
			_, _ = command(ctx, "iptables", append([]string{"-D"}, forwardRule(s, direction)...)...)
		}
	}
	return errors.Join(errs...)
}

func deviceExists(name string) bool {
	_, err := os.Stat("/sys/class/net/" + name)
	return err == nil
}

// EnableForwarding switches IPv4 forwarding on and returns what it was.
func EnableForwarding() (before string, err error) {
	data, err := os.ReadFile(ipForward)
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(data)), RestoreForwarding("1")
}

// RestoreForwarding sets IPv4 forwarding to "0" or "1".
func RestoreForwarding(value string) error {
	if err := os.WriteFile(ipForward, []byte(value), 0o644); err != nil {
		return fmt.Errorf("set net.ipv4.ip_forward to %s: %w", value, err)
	}
	return nil
}
