// Package controllers holds the reconcilers: the thin layer between the cluster
// and the packages that decide.
//
// What flows where: a Function comes in by a watch event, a poll that is due or
// a hint. reconcileSource reads the Secret that it names and asks gitsource for
// the Revision, the commit and the tree below its base directory. reconcileBuild
// makes a builder.Plan of it and looks for the plan's key in the Function's
// history, then for its pin in the registry; only if neither knows it, it writes
// a suspended Job. The QueueReconciler un-suspends Jobs. The Job's Pod pushes an
// image and sends a hint, upon which reconcileBuild finds the pin's digest,
// writes it to the history, and reconcileRollout applies Deployment and Service
// by that digest. What the Deployment and its Pods say comes back as the
// condition Running.
//
// Out go Jobs, ConfigMaps, Deployments, Services, what a namespace needs to
// build and pull, Events, and the status of Functions. The package never writes
// a Function's spec, never keeps the content of a Secret, and holds no state
// that a restart would lose: hints and places in the queue are only reasons to
// look again.
package controllers
