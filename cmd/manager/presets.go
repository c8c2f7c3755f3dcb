package main

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// functionPresets and buildPresets are those of the Function API: requests and
// limits of CPU and memory.
var (
	functionPresets = map[string]corev1.ResourceRequirements{
		"XS": preset("50m", "64Mi", "150m", "256Mi"),
		"S":  preset("100m", "128Mi", "200m", "256Mi"),
		"M":  preset("200m", "256Mi", "400m", "512Mi"),
		"L":  preset("400m", "512Mi", "800m", "1024Mi"),
		"XL": preset("800m", "1024Mi", "1600m", "2048Mi"),
	}
	buildPresets = map[string]corev1.ResourceRequirements{
		"local-dev": preset("200m", "200Mi", "400m", "400Mi"),
		"slow":      preset("200m", "200Mi", "700m", "700Mi"),
		"normal":    preset("500m", "700Mi", "1100m", "1100Mi"),
		"fast":      preset("900m", "1100Mi", "1700m", "1100Mi"),
	}
)

func preset(cpuRequest, memoryRequest, cpuLimit, memoryLimit string) corev1.ResourceRequirements {
	amounts := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	}
	return corev1.ResourceRequirements{Requests: amounts(cpuRequest, memoryRequest), Limits: amounts(cpuLimit, memoryLimit)}
}

func withPresets(shipped, own map[string]corev1.ResourceRequirements) map[string]corev1.ResourceRequirements {
	all := maps.Clone(shipped)
	maps.Copy(all, own)
	return all
}
