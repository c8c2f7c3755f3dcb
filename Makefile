# make help lists the targets. Real work is in hack/ and localcluster/.
NAME ?= dev
export CLUSTER IMAGES CI

.DEFAULT_GOAL := help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-14s %s\n", $$1, $$2}'

run: ## start a local Kubernetes, install gitfn, push a Function, call, change and revert it
	@hack/packages.sh
	@go run ./hack/dev run --name $(NAME)

test: ## unit, API and end-to-end tests
	@hack/packages.sh
	@hack/test.sh

test-unit: ## tests that need neither network nor cluster
	@hack/test.sh unit

test-api: ## controllers against a real kube-apiserver and etcd
	@hack/test.sh api

test-e2e: ## what a user would do, on a local cluster of its own
	@hack/test.sh e2e

bench: ## how long a push takes, beside what the cluster itself takes; what a large repository costs
	@hack/packages.sh
	@go run ./test/bench/sources --rows refs,repository
	@go run ./test/bench --cluster bench $(if $(BENCH_JSON),--json $(BENCH_JSON)); \
		status=$$?; go run ./hack/dev down --name bench; exit $$status

bench-sources: ## requests, processor and memory of many Git sources; takes half an hour
	@KUBEBUILDER_ASSETS="$$(cd localcluster && go run . build --assets)" \
		go run ./test/bench/sources $(if $(BENCH_ROWS),--rows $(BENCH_ROWS)) $(if $(BENCH_JSON),--json $(BENCH_JSON))

bench-runtimes: ## what the runtime servers keep of their language's own HTTP server
	@hack/packages.sh wrk
	@go run ./test/bench/runtimes $(if $(BENCH_PRESETS),--presets $(BENCH_PRESETS)) $(if $(BENCH_JSON),--json $(BENCH_JSON))

build: ## compile the programs into bin/
	CGO_ENABLED=0 go build -trimpath -o bin/ ./cmd/...

image: ## assemble the images without Docker into dist/
	@mkdir -p dist
	go run ./hack/image dist manager builder registry-gateway runtime-nodejs22 runtime-python313 registry \
		--registry-binary "$$(cd localcluster && go run . build --assets)/registry"

runtime-images: ## the runtime images with Docker; without it into dist/, from Debian and npm packages
	@if command -v docker >/dev/null; then set -e; for v in 20 22 24 26; do \
		docker build --build-arg NODE_IMAGE=node:$$v-alpine -t gitfn.local/gitfn/runtime-nodejs$$v:dev runtimes/nodejs; \
		docker image inspect -f '{{index .RepoTags 0}} {{.Size}} bytes' gitfn.local/gitfn/runtime-nodejs$$v:dev; done; \
	else mkdir -p dist; go run ./hack/image dist $(foreach v,20 22 24 26,runtime-nodejs$(v)); ls -sh dist/runtime-*.tar; fi

cluster-up: ## start the local cluster and install gitfn; prints its facts as JSON
	@hack/packages.sh
	@go run ./hack/dev up --name $(NAME)

cluster-info: ## facts of the running cluster as JSON
	@go run ./hack/dev info --name $(NAME)

cluster-down: ## remove the local cluster and all that it made on this machine
	@go run ./hack/dev down --name $(NAME)

install: ## install the resource definitions into the current kubectl context
	kubectl apply --server-side -k config/crd

deploy: ## install gitfn into the current kubectl context
	kubectl apply --server-side -k config/default

undeploy: ## remove gitfn, and all Functions with it, from the current kubectl context
	kubectl delete --ignore-not-found -k config/default

generate: ## deep copies of the API types
	go tool controller-gen object paths=./api/...

manifests: ## resource definitions and roles
	go tool controller-gen crd:generateEmbeddedObjectMeta=true,maxDescLen=300 paths=./api/... output:crd:dir=config/crd
	go tool controller-gen rbac:roleName=gitfn-manager paths=./controllers/... paths=./cmd/manager/... output:rbac:dir=config/rbac

fmt: ## format the code
	gofmt -w $$(git ls-files '*.go')

vet: ## look for mistakes
	go vet ./...
	cd localcluster && go vet ./...

lint: vet ## vet, and formatting
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); exit 1; }

verify: generate manifests lint ## everything generated is fresh, everything is tidy
	go mod tidy
	cd localcluster && go mod tidy
	git diff --exit-code

.PHONY: $(shell grep -hoE '^[a-z-]+:' Makefile | tr -d :)
