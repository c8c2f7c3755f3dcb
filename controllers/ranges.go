package controllers

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// +kubebuilder:rbac:groups=networking.k8s.io,resources=servicecidrs,verbs=list
// +kubebuilder:rbac:groups="",resources=nodes,verbs=list

// ClusterRanges are the CIDRs that Kubernetes tells of itself: those of Services,
// and those of Pods on the nodes that there are now. A network that gives Pods
// addresses of its own, and nodes that come later, are not among them.
func ClusterRanges(ctx context.Context, live client.Reader) ([]string, error) {
	services, err := serviceRanges(ctx, live)
	if err != nil {
		return nil, err
	}
	nodes := &corev1.NodeList{}
	if err := live.List(ctx, nodes); err != nil {
		return nil, fmt.Errorf("list nodes for the ranges of their Pods: %w", err)
	}
	texts := services
	for _, node := range nodes.Items {
		texts = append(texts, node.Spec.PodCIDRs...)
	}
	prefixes := make([]netip.Prefix, 0, len(texts))
	for _, text := range texts {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("read ranges of the cluster: %w", err)
		}
		prefixes = append(prefixes, prefix)
	}
	var ranges []string
	for _, prefix := range merged(prefixes) {
		ranges = append(ranges, prefix.String())
	}
	return ranges, nil
}

// serviceRanges are those of Services. Before Kubernetes 1.33 nothing tells them,
// and the address of the API server's Service must do.
func serviceRanges(ctx context.Context, live client.Reader) (ranges []string, err error) {
	cidrs := &networkingv1.ServiceCIDRList{}
	err = live.List(ctx, cidrs)
	for _, cidr := range cidrs.Items {
		ranges = append(ranges, cidr.Spec.CIDRs...)
	}
	if err == nil || !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
		return ranges, err
	}
	api := &corev1.Service{}
	if err := live.Get(ctx, types.NamespacedName{Namespace: metaNamespace, Name: "kubernetes"}, api); err != nil {
		return nil, fmt.Errorf("read the API server's Service: %w", err)
	}
	for _, text := range api.Spec.ClusterIPs {
		if address, err := netip.ParseAddr(text); err == nil {
			ranges = append(ranges, netip.PrefixFrom(address, address.BitLen()).String())
		}
	}
	return ranges, nil
}

// metaNamespace is where the API server has its Service.
const metaNamespace = "default"

// merged is the same addresses in fewer prefixes: nodes have theirs side by side,
// and every build Job carries the list.
func merged(prefixes []netip.Prefix) []netip.Prefix {
	all := make([]netip.Prefix, 0, len(prefixes))
	for _, prefix := range prefixes {
		all = append(all, prefix.Masked())
	}
	slices.SortFunc(all, func(a, b netip.Prefix) int {
		if c := a.Addr().Compare(b.Addr()); c != 0 {
			return c
		}
		return a.Bits() - b.Bits()
	})
	var done []netip.Prefix
	for _, next := range all {
		if n := len(done); n > 0 && done[n-1].Overlaps(next) {
			continue // the one before began no later and is no smaller
		}
		done = append(done, next)
		for n := len(done); n > 1; n = len(done) {
			last, before := done[n-1], done[n-2]
			whole := netip.PrefixFrom(before.Addr(), before.Bits()-1).Masked()
			if last.Bits() != before.Bits() || !whole.IsValid() || whole.Addr() != before.Addr() || !whole.Contains(last.Addr()) {
				break
			}
			done = append(done[:n-2], whole)
		}
	}
	return done
}
