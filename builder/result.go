package builder

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Stage is one container of the build Job.
type Stage string

// The stages in the order of the data.
const (
	StageFetch   Stage = "fetch"
	StageInstall Stage = "install"
	StagePush    Stage = "push"
)

// Class is the kind of a failure: the first word of a condition's message.
type Class string

// Classes of failures. Those for which Passing is true can go away by
// themselves; the others wait for a change of the key or of a Secret.
const (
	ClassGitAuth            Class = "GitAuth"
	ClassGitHostKey         Class = "GitHostKey"
	ClassGitUnverified      Class = "GitUnverified"
	ClassRefNotFound        Class = "RefNotFound"
	ClassSourceUnavailable  Class = "SourceUnavailable"
	ClassSourceTooLarge     Class = "SourceTooLarge"
	ClassSourceInvalid      Class = "SourceInvalid"
	ClassDependencyNotFound Class = "DependencyNotFound"
	ClassDependencyAuth     Class = "DependencyAuth"
	ClassInstallFailed      Class = "InstallFailed"
	// ClassDependencyUnavailable means that a registry of packages did not answer.
	ClassDependencyUnavailable Class = "DependencyUnavailable"
	ClassOutOfMemory           Class = "OutOfMemory"
	ClassPodRefused            Class = "PodRefused"
	ClassTimeout               Class = "Timeout"
	ClassRegistryAuth          Class = "RegistryAuth"
	ClassRegistryUnavailable   Class = "RegistryUnavailable"
	ClassNodeLost              Class = "NodeLost"
)

// Passing reports whether a failure of this class may go away without any change.
func (c Class) Passing() bool {
	switch c {
	case ClassSourceUnavailable, ClassDependencyUnavailable, ClassRegistryUnavailable, ClassNodeLost, ClassPodRefused:
		return true
	}
	return false
}

// Result is what a finished build says of itself.
type Result struct {
	// Digest of the pushed image, "sha256:…".
	Digest string `json:"digest"`
	// DependencyKey is the hash of what the package manager saw; empty without dependencies.
	DependencyKey string `json:"dependencyKey,omitempty"`
	// Cached is true if the dependency layer was found and no package manager ran.
	Cached bool `json:"cached,omitempty"`
	// Floating is true if dependencies are not locked, so that the same key may
	// give other files tomorrow.
	Floating bool `json:"floating,omitempty"`
	// SourceBytes and DependencyBytes are sizes of the compressed layers.
	SourceBytes     int64 `json:"sourceBytes,omitempty"`
	DependencyBytes int64 `json:"dependencyBytes,omitempty"`
	// Seconds that each stage worked, without its waiting.
	Seconds map[Stage]float64 `json:"seconds,omitempty"`
}

// StepError is a build that failed: which stage, what kind, one sentence, and
// the end of the output.
type StepError struct {
	Stage   Stage  `json:"stage"`
	Class   Class  `json:"class"`
	Message string `json:"message"`
	// Output is the end of what the package manager printed, at most 2 KiB,
	// without control characters, known secrets masked.
	Output string `json:"output,omitempty"`
}

// Error is one sentence that begins with the class.
func (e *StepError) Error() string { return fmt.Sprintf("%s: %s", e.Class, e.Message) }

// MessageBytes is what Kubernetes keeps of a container's termination message.
const MessageBytes = 4096

// ExitGaveUp is the exit code of a stage that ends because one before it failed.
// It leaves no report: the other has it, although its own end may be seen later.
const ExitGaveUp = 3

// Report is the termination message of a stage: one of its fields is set, or
// none if the stage succeeded and has nothing to tell.
type Report struct {
	Result *Result    `json:"result,omitempty"`
	Error  *StepError `json:"error,omitempty"`
}

// Encode returns the report as JSON of at most MessageBytes; if need be it
// drops the beginning of the output and then the end of the message.
func (r Report) Encode() []byte {
	text, err := json.Marshal(r)
	if err != nil {
		panic(err) // strings, numbers and bools always marshal
	}
	for len(text) > MessageBytes && r.Error != nil && (r.Error.Output != "" || r.Error.Message != "") {
		cut := *r.Error
		// A byte takes up to six in JSON, so this never cuts more than needed.
		excess := (len(text)-MessageBytes)/6 + 1
		if cut.Output != "" {
			cut.Output = strings.ToValidUTF8(cut.Output[min(excess, len(cut.Output)):], "")
		} else {
			cut.Message = strings.ToValidUTF8(cut.Message[:max(0, len(cut.Message)-excess)], "")
		}
		r.Error = &cut
		text, _ = json.Marshal(r)
	}
	return text
}

// DecodeReport reads a termination message. Text that is no report gives false:
// a container that was killed leaves whatever it had printed.
func DecodeReport(message string) (Report, bool) {
	var report Report
	if err := json.Unmarshal([]byte(message), &report); err != nil {
		return Report{}, false
	}
	return report, report.Result != nil || report.Error != nil
}
