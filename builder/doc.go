// Package builder decides what to build and why. It does no I/O.
//
// In goes what the source step learned, the tree and where it came from, and
// the settings that shape an image. Out comes a Plan: its Key, which is a hash
// of content alone, its Pin, which is the reference that the image will have,
// and the Changes against the last plan. A Job executes the plan and answers
// with a Report that holds a Result or a StepError. The package never talks to
// a cluster, a registry or a Git server, and nothing in a Plan is secret.
package builder
