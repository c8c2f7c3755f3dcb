package gitsource

import (
	"net"
	"net/netip"
	"time"
)

// Options is how a Client behaves. The zero value of every field but CacheDir is usable.
type Options struct {
	// CacheDir is a directory for mirrors. It must belong to one process at a time: New removes what an
	// earlier process left in it.
	CacheDir string
	// CacheBytes bounds what the mirrors take on disk; past it the least recently used go. Zero means 2 GiB.
	CacheBytes int64
	// Allow names addresses that may be connected to although they would be refused. It wins over Deny.
	Allow []netip.Prefix
	// Deny names addresses that are refused besides loopback, link-local and metadata addresses: the
	// cluster's own ranges.
	Deny []netip.Prefix
	// Proxy is the http or https URL of a proxy, which may hold a user and a password, for every HTTP connection that
	// has none of its own. It may have any address. Empty means none: the environment is not looked at. NoProxy
	// lists the hosts that are reached without it, as in the environment variable NO_PROXY.
	Proxy, NoProxy string
	// Resolver looks names up. Nil is the system's.
	Resolver *net.Resolver
	// RootCAs holds PEM certificates that are trusted for every repository besides the system's.
	RootCAs []byte
	// Timeout limits one request, from connecting to the last byte. Zero means two minutes.
	Timeout time.Duration
	// Limits bounds what a repository may cost.
	Limits Limits
	// HostInterval is the least time between two refs requests to one host. Zero means no limit.
	HostInterval time.Duration
	// Changed is told when a poll finds that a reference moved, and, with an empty reference, when a repository
	// answers again that did not: so that others who want to know need not wait for their own next look. The URL
	// is as NormalizeURL writes it. It is called from a goroutine of its own. Nil means that nobody wants to know.
	Changed func(url, reference string)
	// Now is the clock. Nil means time.Now.
	Now func() time.Time
}

// Limits bounds what one repository may cost. A zero field means its default.
type Limits struct {
	// PackBytes bounds one pack as it is sent. What the repositories of one Tree add to the disk together is
	// bounded by twice as much. Default 512 MiB.
	PackBytes int64
	// FileBytes bounds one file of a Tree. Default 64 MiB.
	FileBytes int64
	// TotalBytes bounds the files of a Tree together. Default 256 MiB.
	TotalBytes int64
	// Files bounds how many files and directories a Tree has, those of its submodules included. Default 20,000.
	Files int
	// Depth bounds how many directories are in one another. Default 64.
	Depth int
	// Submodules bounds how many submodules a Tree has, those in one another included. Default 50.
	Submodules int
	// Refs bounds how many refs one answer may have. Default 1,000,000: they are read one by one, not kept.
	Refs int

	// deltaBytes bounds what one delta makes, which is in memory. Zero is FileBytes.
	deltaBytes int64
}

// delta is how large an object may be that is made by a delta.
func (l Limits) delta() int64 {
	if l.deltaBytes > 0 {
		return min(l.deltaBytes, l.FileBytes)
	}
	return l.FileBytes
}

// withDefaults fills the zero fields.
func (l Limits) withDefaults() Limits {
	set := func(v *int64, d int64) {
		if *v <= 0 {
			*v = d
		}
	}
	setInt := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	set(&l.PackBytes, 512<<20)
	set(&l.FileBytes, 64<<20)
	set(&l.TotalBytes, 256<<20)
	setInt(&l.Files, 20_000)
	setInt(&l.Depth, 64)
	setInt(&l.Submodules, 50)
	setInt(&l.Refs, 1_000_000)
	return l
}
