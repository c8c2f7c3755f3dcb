// Command coredns is CoreDNS with the few plugins a local cluster needs.
//
// In goes a Corefile (flag -conf); out come DNS answers for Services and Pods,
// and for the rest whatever the upstream servers say. It never serves zones
// from files and never transfers them.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"

	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/forward"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
)

// init fixes the order in which plugins see a query: CoreDNS takes it from
// this list, not from the Corefile.
func init() {
	dnsserver.Directives = []string{"bind", "health", "ready", "errors", "cache", "kubernetes", "forward"}
}

func main() { coremain.Run() }
