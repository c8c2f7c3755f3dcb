package rollout

import (
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Scale bounds the replicas of a Function that scales with its load.
type Scale struct {
	Min, Max int32
	// TargetCPU is in percent of the requested CPU.
	TargetCPU int32
}

// Autoscaler is the HorizontalPodAutoscaler of a Function. Its target is the
// Function, whose spec.replicas the Deployment follows. It is nil where the
// bounds are equal: there is nothing to decide.
func Autoscaler(s Settings, scale Scale) *autoscalingv1.HorizontalPodAutoscaler {
	if scale.Min == scale.Max {
		return nil
	}
	return &autoscalingv1.HorizontalPodAutoscaler{
		TypeMeta:   metav1.TypeMeta{APIVersion: "autoscaling/v1", Kind: "HorizontalPodAutoscaler"},
		ObjectMeta: objectMeta(s, nil),
		Spec: autoscalingv1.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv1.CrossVersionObjectReference{
				APIVersion: s.Owner.APIVersion, Kind: s.Owner.Kind, Name: s.Name,
			},
			MinReplicas:                    &scale.Min,
			MaxReplicas:                    scale.Max,
			TargetCPUUtilizationPercentage: &scale.TargetCPU,
		},
	}
}
