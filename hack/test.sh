#!/usr/bin/env bash
# Runs the tests: unit, API, end to end; or the one level that is named. What
# cannot run here is said in the last lines; with CI=true it is a failure.
set -euo pipefail
cd "$(dirname "$0")/.."
level=${1:-all}
missing=""
wants() { [ "$level" = all ] || [ "$level" = "$1" ]; }

# The local cluster needs root and some kernel features: it says so itself.
cluster=no
if wants e2e; then
	if said=$(cd localcluster && go run . check 2>&1); then
		cluster=yes
	else
		missing="the end-to-end tests did not run: $(printf '%s\n' "$said" | sed -n 's/^localcluster: //p')"
	fi
fi

if wants unit || wants api; then
	echo "== Kubernetes for the API tests (compiled once, then cached)"
	KUBEBUILDER_ASSETS=$(cd localcluster && go run . build --assets)
	export KUBEBUILDER_ASSETS
fi
if wants unit; then
	echo "== localcluster"
	(cd localcluster && go test ./...)
	echo "== runtimes/nodejs"
	(cd runtimes/nodejs && npm ci --silent && npm test)
	echo "== runtimes/python"
	# Debian's Python: it is the one that hack/packages.sh brings the packages for.
	(cd runtimes/python && /usr/bin/python3 -m unittest)
fi
if wants unit || wants api; then
	echo "== gitfn"
	packages=./...
	[ "$level" = api ] && packages="./controllers/... ./api/..."
	# shellcheck disable=SC2086
	go test $packages
fi
if wants e2e && [ "$cluster" = yes ]; then
	echo "== end to end, on a local cluster of its own"
	# Whatever happens to the tests, their cluster goes.
	trap 'go run ./hack/dev down --name test' EXIT
	go test ./test/e2e -count=1 -timeout 40m -v -e2e.cluster=test
fi

if [ -n "$missing" ]; then
	echo "$missing"
	[ "${CI:-}" != true ] || exit 1
fi
