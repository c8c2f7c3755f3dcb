package rollout

import (
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Service is the Service of a Function. It has the Function's name, and
// answers on port 80.
func Service(s Settings) *corev1.Service {
	selector := Selector(s)
	if s.Only != "" {
		selector[appsv1.DefaultDeploymentUniqueLabelKey] = s.Only
	}
	return &corev1.Service{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: objectMeta(s, map[string]string{
			"prometheus.io/scrape": "true",
			"prometheus.io/port":   strconv.Itoa(serverPort),
			"prometheus.io/path":   "/metrics",
		}),
		Spec: corev1.ServiceSpec{
			Selector: selector,
			Ports: []corev1.ServicePort{{
				Name: "http", Port: 80, TargetPort: intstr.FromInt32(serverPort), Protocol: corev1.ProtocolTCP,
			}},
		},
	}
}
