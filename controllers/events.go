package controllers

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	functionv1 "github.com/gitfn/gitfn/api/v1alpha2"
)

// noteBytes is how long the text of an Event may be: the API refuses longer ones.
const noteBytes = 1024

// notice is an Event to be.
type notice struct {
	kind, reason, action, format string
	args                         []any
}

func normal(reason, action, format string, args ...any) notice {
	return notice{corev1.EventTypeNormal, reason, action, format, args}
}

func warning(reason, action, format string, args ...any) notice {
	return notice{corev1.EventTypeWarning, reason, action, format, args}
}

// event tells what has changed, on the Function. Callers see to it that it is a
// change: a state that lasts is a condition.
func (r *FunctionReconciler) event(fn *functionv1.Function, n notice) {
	note := fmt.Sprintf(n.format, n.args...)
	if len(note) > noteBytes {
		note = strings.ToValidUTF8(note[:noteBytes-len("…")], "") + "…"
	}
	r.Recorder.Eventf(fn, nil, n.kind, n.reason, n.action, "%s", note)
}
