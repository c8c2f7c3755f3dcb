package main

import (
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func volume(name string, source corev1.VolumeSource) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: source}
}

func TestFloorJobHasTheShapeOfABuild(t *testing.T) {
	g := NewWithT(t)
	limits := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("700m")}
	restricted := &corev1.SecurityContext{ReadOnlyRootFilesystem: ptr.To(true)}
	build := newJob("pushed", "7", false)
	build.OwnerReferences = []metav1.OwnerReference{{Kind: "Function", Name: "pushed"}}
	build.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"controller-uid": "1"}}
	build.Spec.Template = corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"controller-uid": "1", labelResource: "build"}},
		Spec: corev1.PodSpec{
			ServiceAccountName: "serverless-function",
			SecurityContext:    &corev1.PodSecurityContext{RunAsNonRoot: ptr.To(true)},
			Containers: []corev1.Container{
				{Name: "fetch", Image: "builder"},
				{Name: "install", Image: "runtime", Command: []string{"/builder"}, Args: []string{"--plan"}, SecurityContext: restricted,
					Resources: corev1.ResourceRequirements{Limits: limits}, VolumeMounts: []corev1.VolumeMount{{Name: "source", MountPath: "/s"}}},
			},
			Volumes: []corev1.Volume{
				volume("source", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}),
				volume("program", corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "builder"}}),
				volume("packages", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "may-be", Optional: ptr.To(true)}}),
				volume("pull", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "pull"}}),
				volume("push", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "push"}}),
			},
		},
	}
	before := build.DeepCopy()
	floor := floorJob(build, "floor-1")

	g.Expect(build).To(Equal(before), "the original stays as it is")
	g.Expect(floor.Labels).To(Equal(map[string]string{"app": "floor-1"}))
	g.Expect(floor.OwnerReferences).To(BeEmpty())
	g.Expect(floor.Spec.Selector).To(BeNil())
	g.Expect(floor.Spec.Suspend).To(HaveValue(BeTrue()))
	g.Expect(floor.Spec.Template.Labels).To(Equal(floor.Labels))
	pod := floor.Spec.Template.Spec
	g.Expect(pod.ServiceAccountName).To(Equal("serverless-function"))
	g.Expect(pod.SecurityContext).To(Equal(build.Spec.Template.Spec.SecurityContext))
	g.Expect(pod.Volumes).To(HaveLen(2))
	g.Expect(pod.Containers).To(Equal([]corev1.Container{{
		Name: "install", Image: "runtime", Command: []string{"true"}, SecurityContext: restricted,
		Resources: corev1.ResourceRequirements{Limits: limits},
		VolumeMounts: []corev1.VolumeMount{
			{Name: "program", MountPath: "/floor-program", ReadOnly: true}, {Name: "pull", MountPath: "/floor-pull", ReadOnly: true},
		},
	}}))
}

func TestFloorDeploymentIsNoFunctions(t *testing.T) {
	g := NewWithT(t)
	container := corev1.Container{Name: "function", Image: "i@sha256:1", Env: []corev1.EnvVar{{Name: "FUNC_NAME", Value: "pushed"}}}
	of := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "pushed", UID: "1", ResourceVersion: "2", Labels: map[string]string{labelFunction: "pushed"},
			OwnerReferences: []metav1.OwnerReference{{Kind: "Function", Name: "pushed"}}},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](1),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{labelFunction: "pushed"}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{labelFunction: "pushed"}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{container}},
			},
		},
	}
	before := of.DeepCopy()
	floor := floorDeployment(of)
	g.Expect(of).To(Equal(before), "the original stays as it is")
	g.Expect(floor.ObjectMeta).To(Equal(metav1.ObjectMeta{Namespace: namespace, Name: "floor", Labels: floorLabels()}))
	g.Expect(floor.Spec.Selector.MatchLabels).To(Equal(floorLabels()))
	g.Expect(floor.Spec.Template.Labels).To(Equal(floorLabels()))
	g.Expect(floorService().Spec.Selector).To(Equal(floorLabels()))

	g.Expect(floor.Spec.Template.Spec.Containers[0].StartupProbe.PeriodSeconds).To(BeEquivalentTo(1))

	setAnswer(floor, "floor 1")
	g.Expect(floor.Spec.Template.Spec.Containers[0].Env).To(Equal([]corev1.EnvVar{
		{Name: "FUNC_NAME", Value: "pushed"}, {Name: "BENCH_ANSWER", Value: "floor 1"},
	}))
}
