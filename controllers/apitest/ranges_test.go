package apitest

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gitfn/gitfn/controllers"
)

func TestClusterRanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, ranges := range map[string][]string{"one": {"10.244.0.0/24"}, "two": {"10.244.1.0/24"}, "none": nil} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: w.namespace + "-" + name}, Spec: corev1.NodeSpec{PodCIDRs: ranges}}
		if len(ranges) > 0 {
			node.Spec.PodCIDR = ranges[0]
		}
		w.Expect(w.client.Create(w.ctx, node)).To(Succeed())
		t.Cleanup(func() { _ = w.client.Delete(w.ctx, node) })
	}
	// The API server writes its own range down some time after its start.
	w.Eventually(func() ([]string, error) { return controllers.ClusterRanges(w.ctx, w.client) }).
		Should(ConsistOf("10.0.0.0/16", "10.244.0.0/23"))
}
