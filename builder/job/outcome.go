package job

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gitfn/gitfn/builder"
)

// order is that of the data.
var order = []builder.Stage{builder.StageFetch, builder.StageInstall, builder.StagePush}

// installMayClaim are the classes that the report of install is believed in.
// Code of users runs there and can write what it likes: these say no more than
// that its own build failed, and why.
var installMayClaim = map[builder.Class]bool{
	builder.ClassDependencyNotFound:    true,
	builder.ClassDependencyAuth:        true,
	builder.ClassDependencyUnavailable: true,
	builder.ClassInstallFailed:         true,
	builder.ClassOutOfMemory:           true,
	builder.ClassTimeout:               true,
}

// Outcome reads what a build's Pod has told: a result, a failure, or neither
// while it runs. A result is taken from push alone. Otherwise what the cluster
// did to the Pod decides; then the container that failed first, of several in one
// second the first in the order of the data; then what keeps one from starting.
// Of a Pod that is being deleted only reports count: why it is deleted, its Job
// knows.
func Outcome(pod *corev1.Pod) (*builder.Result, *builder.StepError) {
	if result := pushed(pod); result != nil {
		return result, nil
	}
	deleted := pod.DeletionTimestamp != nil
	switch failure := failureOf(firstFailure(pod, deleted)); {
	case deleted:
		return nil, failure
	case lost(pod) != nil:
		return nil, lost(pod)
	case failure != nil:
		return nil, failure
	}
	if gaveUp(terminated(pod, builder.StagePush)) || gaveUp(terminated(pod, builder.StageInstall)) {
		return nil, unexplained(pod)
	}
	if push := terminated(pod, builder.StagePush); push != nil {
		return nil, &builder.StepError{Stage: builder.StagePush, Class: builder.ClassRegistryUnavailable, Message: "push ended without saying what it pushed"}
	}
	if pod.Status.Phase == corev1.PodFailed {
		return nil, &builder.StepError{Class: builder.ClassNodeLost, Message: "the build's Pod failed" + because(pod.Status.Reason, pod.Status.Message)}
	}
	return nil, stuck(pod)
}

var digest = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// pushed is the result, if push has reported one.
func pushed(pod *corev1.Pod) *builder.Result {
	ended := terminated(pod, builder.StagePush)
	if ended == nil || ended.ExitCode != 0 {
		return nil
	}
	report, readable := builder.DecodeReport(ended.Message)
	if !readable || report.Result == nil || !digest.MatchString(report.Result.Digest) {
		return nil
	}
	return report.Result
}

// gaveUp reports whether a container ended because one before it failed.
func gaveUp(ended *corev1.ContainerStateTerminated) bool {
	return ended != nil && ended.ExitCode == builder.ExitGaveUp && ended.Reason != "OOMKilled"
}

// unexplained is for a Pod of which a stage gave up and none before it has
// failed: nil while one before it runs, whose end is then to come. If all ended
// well, what was said in install was not so.
func unexplained(pod *corev1.Pod) *builder.StepError {
	for _, stage := range order {
		ended := terminated(pod, stage)
		if gaveUp(ended) {
			break
		}
		if ended == nil {
			return nil
		}
	}
	return &builder.StepError{Stage: builder.StageInstall, Class: builder.ClassInstallFailed, Message: "install said that it failed, and ended as if it had not"}
}

// firstFailure finds the container that failed first. Those that gave up do not
// count, and if only reports do, nor those that say nothing.
func firstFailure(pod *corev1.Pod, onlyReports bool) (failed builder.Stage, first *corev1.ContainerStateTerminated) {
	for _, stage := range order {
		ended := terminated(pod, stage)
		if ended == nil || ended.ExitCode == 0 || gaveUp(ended) {
			continue
		}
		if report, readable := builder.DecodeReport(ended.Message); onlyReports && (!readable || report.Error == nil) {
			continue
		}
		if first == nil || ended.FinishedAt.Before(&first.FinishedAt) {
			failed, first = stage, ended
		}
	}
	return failed, first
}

func terminated(pod *corev1.Pod, stage builder.Stage) *corev1.ContainerStateTerminated {
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name == string(stage) {
			return status.State.Terminated
		}
	}
	return nil
}

// failureOf reads the failure of a container; nil of none.
func failureOf(stage builder.Stage, ended *corev1.ContainerStateTerminated) *builder.StepError {
	if ended == nil {
		return nil
	}
	if ended.Reason == "OOMKilled" {
		return &builder.StepError{Stage: stage, Class: builder.ClassOutOfMemory,
			Message: fmt.Sprintf("%s used more memory than its limit; give spec.resourceConfiguration.build more", stage)}
	}
	report, readable := builder.DecodeReport(ended.Message)
	if !readable || report.Error == nil {
		return &builder.StepError{Stage: stage, Class: silent(stage),
			Message: fmt.Sprintf("%s ended with code %d and said nothing", stage, ended.ExitCode) + because(ended.Reason, "")}
	}
	failure := *report.Error
	failure.Stage = stage
	failure.Class = cmp.Or(failure.Class, silent(stage))
	failure.Message, failure.Output = oneLine(failure.Message), builder.Printable(failure.Output)
	if stage == builder.StageInstall && !installMayClaim[failure.Class] {
		failure.Class = builder.ClassInstallFailed
	}
	return &failure
}

// silent is the class of a stage that was killed before it could report.
func silent(stage builder.Stage) builder.Class {
	if stage == builder.StageInstall {
		return builder.ClassInstallFailed
	}
	return builder.ClassNodeLost
}

// lost is what the cluster did to the Pod: then its containers say nothing that
// counts.
func lost(pod *corev1.Pod) *builder.StepError {
	switch message := oneLine(pod.Status.Message); {
	case pod.Status.Reason == "Evicted" && strings.Contains(message, "mptyDir"):
		return &builder.StepError{Class: builder.ClassInstallFailed, Message: "the build needs more disk than its volumes may have: " + message}
	case pod.Status.Reason == "Evicted":
		return &builder.StepError{Class: builder.ClassNodeLost, Message: "the node evicted the build" + because("", message)}
	case pod.Status.Reason == "DeadlineExceeded":
		return &builder.StepError{Class: builder.ClassTimeout, Message: "the build took longer than its deadline"}
	case pod.Status.Reason == "NodeLost":
		return &builder.StepError{Class: builder.ClassNodeLost, Message: "the build's node does not answer" + because("", message)}
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.DisruptionTarget && condition.Status == corev1.ConditionTrue {
			return &builder.StepError{Class: builder.ClassNodeLost, Message: "the cluster took the build's Pod away" + because(condition.Reason, condition.Message)}
		}
	}
	return nil
}

// waiting are the reasons for which a container does not start that somebody
// must see. An image that cannot be pulled may come with the registry.
var waiting = map[string]builder.Class{
	"ErrImagePull":               builder.ClassRegistryUnavailable,
	"ImagePullBackOff":           builder.ClassRegistryUnavailable,
	"RegistryUnavailable":        builder.ClassRegistryUnavailable,
	"SignatureValidationFailed":  builder.ClassPodRefused,
	"ErrImageNeverPull":          builder.ClassPodRefused,
	"ImageInspectError":          builder.ClassPodRefused,
	"InvalidImageName":           builder.ClassPodRefused,
	"CreateContainerConfigError": builder.ClassPodRefused,
	"CreateContainerError":       builder.ClassPodRefused,
	"RunContainerError":          builder.ClassPodRefused,
}

// stuck says why a container does not start, if it is for one of those reasons.
func stuck(pod *corev1.Pod) *builder.StepError {
	for _, stage := range order {
		for _, status := range pod.Status.ContainerStatuses {
			state := status.State.Waiting
			if status.Name != string(stage) || state == nil || waiting[state.Reason] == "" {
				continue
			}
			what := "does not start"
			if waiting[state.Reason] == builder.ClassRegistryUnavailable {
				what = "waits for image " + status.Image + ", which the node cannot pull"
			}
			return &builder.StepError{Stage: stage, Class: waiting[state.Reason], Message: fmt.Sprintf("%s %s", stage, what) + because(state.Reason, state.Message)}
		}
	}
	return nil
}

// because appends what was said, if anything was.
func because(reason, message string) string {
	message = oneLine(message)
	switch {
	case reason == "" && message == "":
		return ""
	case message == "":
		return ": " + reason
	case reason == "":
		return ": " + message
	}
	return ": " + reason + ": " + message
}

// oneLine is a text fit for a condition.
func oneLine(text string) string {
	return strings.Join(strings.Fields(builder.Printable(text)), " ")
}
