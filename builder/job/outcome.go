package job

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gitfn/gitfn/builder"
)

// installMayClaim are the classes that the report of install is believed in.
// Code of users runs there and can write what it likes.
var installMayClaim = map[builder.Class]bool{
	builder.ClassDependencyNotFound: true,
	builder.ClassDependencyAuth:     true,
	builder.ClassInstallFailed:      true,
	builder.ClassOutOfMemory:        true,
	builder.ClassTimeout:            true,
}

// Outcome reads what a build's Pod has told: a result, a failure, or neither
// while it runs. The container that failed first decides; of several at one
// time the first in the order of the data. A result is taken from push alone.
func Outcome(pod *corev1.Pod) (*builder.Result, *builder.StepError) {
	if failure := firstFailure(pod); failure != nil {
		return nil, failure
	}
	if ended := terminated(pod, builder.StagePush); ended != nil {
		if report, readable := builder.DecodeReport(ended.Message); readable && report.Result != nil {
			return report.Result, nil
		}
		return nil, &builder.StepError{Stage: builder.StagePush, Class: builder.ClassRegistryUnavailable, Message: "push ended without saying what it pushed"}
	}
	switch {
	case pod.Status.Reason == "Evicted":
		return nil, &builder.StepError{Class: builder.ClassOutOfMemory, Message: "the node evicted the build: " + pod.Status.Message}
	case pod.Status.Phase == corev1.PodFailed:
		return nil, &builder.StepError{Class: builder.ClassNodeLost, Message: "the build's Pod failed: " + pod.Status.Reason + " " + pod.Status.Message}
	}
	return nil, nil
}

func firstFailure(pod *corev1.Pod) *builder.StepError {
	var first *corev1.ContainerStateTerminated
	var failed builder.Stage
	for _, s := range []builder.Stage{builder.StageFetch, builder.StageInstall, builder.StagePush} {
		ended := terminated(pod, s)
		if ended == nil || ended.ExitCode == 0 {
			continue
		}
		if first == nil || ended.FinishedAt.Before(&first.FinishedAt) {
			first, failed = ended, s
		}
	}
	if first == nil {
		return nil
	}
	return failureOf(failed, first)
}

func terminated(pod *corev1.Pod, s builder.Stage) *corev1.ContainerStateTerminated {
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name == string(s) {
			return status.State.Terminated
		}
	}
	return nil
}

func failureOf(s builder.Stage, ended *corev1.ContainerStateTerminated) *builder.StepError {
	if ended.Reason == "OOMKilled" {
		return &builder.StepError{Stage: s, Class: builder.ClassOutOfMemory,
			Message: fmt.Sprintf("%s used more memory than its limit; give spec.resourceConfiguration.build more", s)}
	}
	report, readable := builder.DecodeReport(ended.Message)
	if !readable || report.Error == nil {
		return &builder.StepError{Stage: s, Class: silent(s), Message: fmt.Sprintf("%s ended with code %d and said nothing", s, ended.ExitCode)}
	}
	failure := *report.Error
	failure.Stage = s
	failure.Message, failure.Output = printable(failure.Message), printable(failure.Output)
	if s == builder.StageInstall && !installMayClaim[failure.Class] {
		failure.Class = builder.ClassInstallFailed
	}
	return &failure
}

// silent is the class of a stage that was killed before it could report.
func silent(s builder.Stage) builder.Class {
	if s == builder.StageInstall {
		return builder.ClassInstallFailed
	}
	return builder.ClassNodeLost
}

// printable drops control characters, so that no output moves a terminal's
// cursor or forges a line.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || r >= ' ' && r != 0x7f && (r < 0x80 || r > 0x9f) && (r < 0x202a || r > 0x202e) && (r < 0x2066 || r > 0x2069) {
			return r
		}
		return -1
	}, strings.ToValidUTF8(text, ""))
}
