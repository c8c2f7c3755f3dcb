// Package e2e shows on a real cluster what a user would see: somebody pushes to
// Git, and the Function runs that commit.
//
// In goes the name of a local cluster, by -e2e.cluster; without it nothing runs.
// TestMain brings the cluster up with gitfn in it and leaves it up, unless
// -e2e.down is given. The tests know the cluster through kubectl, git, HTTP and
// the registry's API only. Each has a namespace that enforces Pod Security
// "restricted", and repositories of its own.
//
// What the cluster says is not asked again and again: one kubectl per kind
// watches all namespaces, and its events are kept in order. So a test can wait
// for a state cheaply, and judge afterwards what was never to be seen.
//
// Tests that stop a part of the cluster, or count what is in all of it, are
// serial: they do not call t.Parallel, so that go test runs them before the
// others, and put back what they took away.
package e2e
