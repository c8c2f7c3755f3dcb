package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// floorName is the name of the Deployment and the Service of the empty rollout.
const floorName = "floor"

// serverPort is what a Function's server listens on.
const serverPort = 8080

// envAnswer is what the floor's handler answers with, if it is set.
const envAnswer = "BENCH_ANSWER"

// emptyJob takes a Job that does nothing from un-suspend to Complete.
func (b *bench) emptyJob(ctx context.Context, sample int) error {
	job := floorJob(b.buildJob, fmt.Sprintf("floor-%d", sample))
	from := b.seen.mark()
	if err := b.client.Create(ctx, job); err != nil {
		return fmt.Errorf("create the empty Job: %w", err)
	}
	is := func(is func(*batchv1.Job) bool) match { return that(job.Labels, is) }
	if _, err := b.seen.await(ctx, "the empty Job to be suspended", from, is(jobHas(batchv1.JobSuspended))); err != nil {
		return err
	}
	before := job.DeepCopy()
	job.Spec.Suspend = ptr.To(false)
	if err := b.client.Patch(ctx, job, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("un-suspend the empty Job: %w", err)
	}
	start, err := b.seen.await(ctx, "the empty Job to be un-suspended", from, is(admitted))
	if err != nil {
		return err
	}
	end, err := b.seen.await(ctx, "the empty Job to be Complete", from, is(jobHas(batchv1.JobComplete)))
	if err != nil {
		return err
	}
	b.sample(rowJob, end.at.Sub(start.at))
	m := &moments{b: b, from: from, start: start.at}
	m.pod("Pod", job.Labels)
	m.at("Job Complete", end.at)
	m.done(rowJob)
	return b.client.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationBackground))
}

// floorJob has the shape of a build: its image, user, restrictions and
// resources, a Secret and the image volume mounted; and one container that does
// nothing.
func floorJob(build *batchv1.Job, name string) *batchv1.Job {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Namespace: build.Namespace, Name: name, Labels: map[string]string{"app": name},
	}}
	build.Spec.DeepCopyInto(&job.Spec)
	job.Spec.Suspend = ptr.To(true)
	job.Spec.Selector, job.Spec.ManualSelector = nil, nil
	job.Spec.Template.Labels = job.Labels
	pod := &job.Spec.Template.Spec
	// Of the volumes: the image, and the first of the Secrets that must be there.
	var volumes []corev1.Volume
	var secret bool
	for _, volume := range pod.Volumes {
		isSecret := volume.Secret != nil && (volume.Secret.Optional == nil || !*volume.Secret.Optional)
		if volume.Image != nil || isSecret && !secret {
			volumes, secret = append(volumes, volume), secret || isSecret
		}
	}
	pod.Volumes = volumes
	container := pod.Containers[slices.IndexFunc(pod.Containers, func(c corev1.Container) bool { return c.Name == "install" })]
	container.Command, container.Args, container.VolumeMounts = []string{"true"}, nil, nil
	for _, volume := range volumes {
		container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: volume.Name, MountPath: "/floor-" + volume.Name, ReadOnly: true})
	}
	pod.Containers = []corev1.Container{container}
	return job
}

// emptyRollout changes a variable of a Deployment and waits for the new Pod's answer.
func (b *bench) emptyRollout(ctx context.Context, sample int) error {
	want := fmt.Sprintf("floor %d", sample)
	deployment := &appsv1.Deployment{}
	if err := b.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: floorName}, deployment); err != nil {
		return fmt.Errorf("read the floor's Deployment: %w", err)
	}
	from, before := b.seen.mark(), deployment.DeepCopy()
	setAnswer(deployment, want)
	if err := b.client.Patch(ctx, deployment, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("change the floor's Deployment: %w", err)
	}
	start := time.Now()
	answered, err := poll(ctx, b.floorURL, want)
	if err != nil {
		return err
	}
	b.sample(rowRollout, answered.at.Sub(start))
	m := &moments{b: b, from: from, start: start}
	m.pod("Pod", floorLabels())
	m.at("first answer", answered.at)
	m.done(rowRollout)
	return nil
}

func floorLabels() map[string]string { return map[string]string{"app": floorName} }

// floorDeployment is the Deployment that gitfn made for a Function, without what
// would make gitfn look at it. It has a startupProbe every second, whatever gitfn
// does: a floor that moved with the figure would hide what it gains or loses.
func floorDeployment(of *appsv1.Deployment) *appsv1.Deployment {
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: of.Namespace, Name: floorName, Labels: floorLabels()}}
	of.Spec.DeepCopyInto(&deployment.Spec)
	deployment.Spec.Selector = &metav1.LabelSelector{MatchLabels: floorLabels()}
	deployment.Spec.Template.Labels = floorLabels()
	deployment.Spec.Template.Spec.Containers[0].StartupProbe = &corev1.Probe{
		PeriodSeconds: 1, FailureThreshold: 150,
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromInt32(serverPort)}},
	}
	setAnswer(deployment, "floor")
	return deployment
}

func floorService() *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: floorName},
		Spec: corev1.ServiceSpec{
			Selector: floorLabels(),
			Ports:    []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(serverPort)}},
		},
	}
}

func setAnswer(deployment *appsv1.Deployment, answer string) {
	env := &deployment.Spec.Template.Spec.Containers[0].Env
	for i := range *env {
		if (*env)[i].Name == envAnswer {
			(*env)[i].Value = answer
			return
		}
	}
	*env = append(*env, corev1.EnvVar{Name: envAnswer, Value: answer})
}
