package rollout

import (
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// DisruptionBudget lets a drain take the Pods of a Function one at a time. It
// is nil where there is never a second one: a budget for one Pod would either
// do nothing or block the drain. most is the number of replicas that there may be.
func DisruptionBudget(s Settings, most int32) *policyv1.PodDisruptionBudget {
	if most < 2 {
		return nil
	}
	one, always := intstr.FromInt32(1), policyv1.AlwaysAllow
	return &policyv1.PodDisruptionBudget{
		TypeMeta:   metav1.TypeMeta{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"},
		ObjectMeta: objectMeta(s, nil),
		Spec: policyv1.PodDisruptionBudgetSpec{
			Selector:       &metav1.LabelSelector{MatchLabels: Selector(s)},
			MaxUnavailable: &one,
			// A Pod that does not serve anyway must not hold up a drain.
			UnhealthyPodEvictionPolicy: &always,
		},
	}
}

// spread asks for Pods on different nodes and in different zones, where there
// are any. It is the same for one replica as for many, so that scaling changes
// no Pod template.
func spread(s Settings) []corev1.TopologySpreadConstraint {
	var constraints []corev1.TopologySpreadConstraint
	for _, key := range []string{corev1.LabelTopologyZone, corev1.LabelHostname} {
		constraints = append(constraints, corev1.TopologySpreadConstraint{
			MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.ScheduleAnyway,
			LabelSelector:  &metav1.LabelSelector{MatchLabels: Selector(s)},
			MatchLabelKeys: []string{"pod-template-hash"}, // the Pods of the old version do not count
		})
	}
	return constraints
}
