// Package executor is the program inside the build Job.
//
// In goes a stage with its flags; out come an exit code and, as the container's
// termination message, a builder.Report. The three stages are containers that
// start together and hand on by files:
//
//	fetch    Git or a mounted ConfigMap ─► volume source: source.tar.gz, inputs/, and last its word
//	install  inputs/ ─► npm or pip in the runtime's directory ─► volume layers: deps.tar, and last its word
//	push     source.tar.gz, deps.tar ─► layers on the base image ─► registry ─► Report, hint
//
// A word is written last and at once, so whoever sees it may go on. fetch's word
// says what there is to install and whether the registry has that layer already:
// it is believed, because only fetch can write there. In install, code of users
// runs: what it leaves is hostile. So its word says no more than "go and look",
// and push opens nothing there but deps.tar, without following a link, reads it
// once, and checks it entry by entry. References and keys come from the plan or
// from fetch, never from install. Where there is nothing to install, or the layer
// is there, push does not wait for install at all; and what push needs of the
// registry it asks for while the others work.
//
// The package never unpacks an image, never runs anything outside of install,
// never listens, and never prints a credential.
package executor
