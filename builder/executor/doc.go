// Package executor is the program inside the build Job.
//
// What flows where: fetch gets the files, from Git or from a mounted ConfigMap,
// checks that they are the plan's tree, and writes to the volume "source": the
// source layer, the inputs of the package manager, and last its word, which says
// what there is to install and whether the registry has that layer already.
// install waits for this word. If something is to be installed it copies the
// inputs to where the Function's files will be, runs the package manager there,
// kills whatever else runs by then, and writes to the volume "layers" one tar
// and last its word. push waits for both words, checks the tar as it reads it
// once, and writes the layers on top of the base image into the registry, where
// the plan's pin says. Then it hints to the manager, and reports.
//
// Who is trusted: install runs code of users, so nothing that it can write is
// believed. Where the image goes and what it is built on come from the
// arguments; the keys and the source layer from a volume that install can only
// read; its own word says no more than "go and look"; its tar is opened without
// following links and checked entry by entry. The package never unpacks an
// image, never runs anything outside of install, and never prints a credential.
package executor
