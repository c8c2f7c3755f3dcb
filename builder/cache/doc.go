// Package cache says what the installation of dependencies depends on.
//
// In goes the tree of a Function; out come the Inputs, which are the files that
// the package manager gets to see, and their Key. The two are one thing: install
// sees exactly what is in the key, so equal keys mean equal inputs, and a layer
// that was made for a key serves every build that has it. Where it cannot be told
// what a package manager would read, because scripts of the user run or paths are
// computed, the whole tree is the input. The package never runs a package manager,
// never looks for a layer and never writes a file.
//
// What flows where:
//
//	Tree ─► Select ─► Inputs ─► Key ─► "<repository>:deps-<key>": there or not
//	                    └────► what install sees
package cache
