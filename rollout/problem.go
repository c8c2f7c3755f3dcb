package rollout

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
)

const (
	// crashes is how many restarts are no accident any more.
	crashes = 2
	// lastLines of a crash, of at most maxTail bytes, stand in the message.
	lastLines, maxTail = 3, 400
)

// problem is why a Pod does not serve.
type problem struct {
	// class is one word for its kind: the first of the condition's message.
	class    string
	sentence string
	// lasting problems need somebody to change something.
	lasting bool
}

// String is the class and the sentence.
func (p *problem) String() string { return p.class + ": " + p.sentence }

// diagnose reads a Pod's status. Nil is a Pod that serves or is only young.
func diagnose(pod *corev1.Pod) *problem {
	if pod.Status.Phase == corev1.PodFailed {
		return &problem{class: "PodEnded", sentence: fmt.Sprintf("Pod %s ended: %s", pod.Name, reasoned(pod.Status.Reason, pod.Status.Message))}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
			return &problem{class: "Unschedulable", sentence: fmt.Sprintf("no node takes Pod %s: %s", pod.Name, tidy(c.Message))}
		}
	}
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for _, status := range statuses {
			if p := diagnoseContainer(pod, status); p != nil {
				return p
			}
		}
	}
	return nil
}

func diagnoseContainer(pod *corev1.Pod, status corev1.ContainerStatus) *problem {
	who := "Pod " + pod.Name
	if status.Name != ContainerName {
		who = "container " + status.Name + " of " + who
	}
	if w := status.State.Waiting; w != nil {
		switch w.Reason {
		case "ErrImagePull", "ImagePullBackOff", "RegistryUnavailable":
			return &problem{class: "ImagePull", sentence: fmt.Sprintf("%s cannot pull image %s: %s", who, status.Image, reasoned("", w.Message))}
		case "InvalidImageName", "ErrImageNeverPull":
			return &problem{class: "ImagePull", sentence: fmt.Sprintf("%s cannot use image %s: %s", who, status.Image, reasoned(w.Reason, w.Message)), lasting: true}
		case "CreateContainerConfigError", "CreateContainerError", "RunContainerError":
			return &problem{class: "PodRefused", sentence: fmt.Sprintf("%s cannot start: %s", who, reasoned(w.Reason, w.Message))}
		}
	}
	return diagnoseCrash(pod, who, status)
}

// diagnoseCrash looks at how the container ended last. A restart that serves is no problem.
func diagnoseCrash(pod *corev1.Pod, who string, status corev1.ContainerStatus) *problem {
	end := status.State.Terminated
	if end == nil {
		end = status.LastTerminationState.Terminated
	}
	started := status.Started != nil && *status.Started
	if end == nil || status.Ready || started && status.State.Running != nil || end.ExitCode == 0 && end.Reason == "Completed" && status.Name != ContainerName {
		return nil
	}
	class, sentence := "Crash", fmt.Sprintf("%s crashed with exit code %d", who, end.ExitCode)
	if end.Reason == "OOMKilled" {
		class = "OutOfMemory"
		sentence = fmt.Sprintf("%s was killed because it used more memory than its limit%s", who, memoryLimit(pod, status.Name))
	}
	switch n := status.RestartCount; {
	case n == 1:
		sentence += ", and was restarted once"
	case n > 1:
		sentence += fmt.Sprintf(", and was restarted %d times", n)
	}
	if said := tail(end.Message); said != "" {
		sentence += ": " + said
	}
	return &problem{class: class, sentence: sentence, lasting: status.RestartCount >= crashes}
}

func memoryLimit(pod *corev1.Pod, container string) string {
	for _, c := range pod.Spec.Containers {
		if limit, limited := c.Resources.Limits[corev1.ResourceMemory]; limited && c.Name == container {
			return " of " + limit.String()
		}
	}
	return ""
}

// reasoned prefers what was said to the word for it.
func reasoned(reason, message string) string {
	switch message = tidy(message); {
	case message != "":
		return message
	case reason != "":
		return reason
	}
	return "no reason given"
}

// tail is the end of an output: its last lines, in one.
func tail(output string) string {
	var lines []string
	for line := range strings.Lines(output) {
		if line = tidy(line); line != "" {
			lines = append(lines, line)
		}
	}
	text := strings.Join(lines[max(0, len(lines)-lastLines):], " | ")
	if len(text) <= maxTail {
		return text
	}
	text = text[len(text)-maxTail:]
	for len(text) > 0 && !utf8.RuneStart(text[0]) {
		text = text[1:]
	}
	return "…" + text
}

// tidy makes one line of a text, without what a terminal would obey.
func tidy(text string) string {
	printable := strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return ' '
		}
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			return -1
		}
		return r
	}, text)
	return strings.Join(strings.Fields(printable), " ")
}
