# cdui: every task of the project. `make` alone lists them.

SHELL         := bash
.SHELLFLAGS   := -euo pipefail -c
.DEFAULT_GOAL := help

GO       ?= go
BIN      := bin/cdui
VERSION  := $(shell git describe --tags --match 'v*' --dirty 2>/dev/null | sed 's/^v//' | grep . || echo 0.1.0-dev)
# Functions at multiples of 16 bytes, as many compilers have them, not of 32: 1 % smaller.
LDFLAGS  := -s -w -funcalign=16 -X cdui/internal/version.Version=$(VERSION)

# One flag set for build, vet and test, since each other one (-trimpath,
# CGO_ENABLED) compiles all dependencies again. Only a release uses -trimpath.
# The NVIDIA library's functions are bound when they are called first: some
# distributions' compilers would have them all at the start, or no start.
GOBUILD  := $(GO) build -buildvcs=false -ldflags '$(LDFLAGS) -extldflags=-Wl,-z,lazy'

# Nothing here speaks HTTP/2: the server offers 1.1 alone, WebSockets need it.
# Without that part of net/http the program is 0.5 MB smaller. Here, not in
# GOBUILD, so that what is tested is built like what is shipped.
NO_HTTP2 := -tags=nethttpomithttp2
export GOFLAGS := $(strip $(filter-out $(NO_HTTP2),$(GOFLAGS)) $(NO_HTTP2))

# go-nvml calls what NVIDIA has deprecated, and gcc says so by the page.
export CGO_CFLAGS ?= -O2 -g -Wno-deprecated-declarations

# What a release may weigh: it is copied to every box over ssh.
MAX_BYTES := 25000000

GOLANGCI_VERSION := v2.15.0
# The newest one that builds with our Go and has all its modules at the Go proxy.
GORELEASER_VERSION := v2.16.0
FUZZTIME         ?= 10s
FAULTS           ?= 100
SOAK_TIMEOUT     ?= 90m

.PHONY: help
help: ## list the tasks
	@awk 'BEGIN { FS = ":.*## " } /^[a-z0-9-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

## Building

.PHONY: build
build: ## build bin/cdui
	@scripts/deps.sh build
	@mkdir -p $(dir $(BIN))
	$(GOBUILD) -o $(BIN) ./cmd/cdui

.PHONY: release
release: ## build a stripped, reproducible, static bin/cdui
	@scripts/deps.sh build
	@mkdir -p $(dir $(BIN))
	CGO_ENABLED=0 $(GO) build -buildvcs=false -ldflags '$(LDFLAGS)' -trimpath -o $(BIN) ./cmd/cdui
	@size=$$(wc -c <$(BIN)); echo "$(BIN): $$size bytes of $(MAX_BYTES)"; \
	    [ "$$size" -le $(MAX_BYTES) ] || { echo "$(BIN) is too large: docs/adr/0019 says what kept it small" >&2; exit 1; }

.PHONY: package-check
package-check: ## archives, deb and rpm of the last commit; the deb installed and tried (PACKAGE=all: for all machines)
	@PACKAGE=$(PACKAGE) scripts/deps.sh package
	@scripts/package.sh check $(GORELEASER_VERSION) $(PACKAGE)

.PHONY: demo
demo: ## from nothing to a finished training on real data
	@scripts/deps.sh demo
	@$(MAKE) --no-print-directory build
	@$(BIN) demo --python "$$(scripts/deps.sh python demo)"

## Testing

.PHONY: test
test: ## install what is missing, build, check, run all tests (what CI runs)
	@scripts/deps.sh test
	@$(MAKE) --no-print-directory build
	@scripts/test.sh check go py e2e

.PHONY: race
race: ## the Go tests with the race detector, without the end-to-end ones
	@scripts/test.sh go

.PHONY: py-test
py-test: ## the tests of the Python package
	@scripts/deps.sh test
	@scripts/test.sh py

.PHONY: e2e
e2e: ## the end-to-end tests: real binary, real Python, real faults
	@scripts/deps.sh test
	@$(MAKE) --no-print-directory build
	@scripts/test.sh e2e

.PHONY: soak
soak: ## the end-to-end tests at length: outages of minutes, FAULTS (100) kills at random points
	@scripts/deps.sh test
	@$(MAKE) --no-print-directory build
	CDUI_SOAK=1 CDUI_FAULTS=$(FAULTS) CDUI_TEST_PYTHON="$$(scripts/deps.sh python test)" \
	    $(GO) test -v -count 1 -timeout $(SOAK_TIMEOUT) ./internal/e2e/...
	CDUI_SOAK=1 $(GO) test -v -count 1 -timeout $(SOAK_TIMEOUT) -run TheWholeStorm ./internal/tui

.PHONY: fuzz-short
fuzz-short: ## run each fuzz target for FUZZTIME (10s)
	@scripts/fuzz.sh $(FUZZTIME)

.PHONY: bench
bench: ## measure, each number beside its baseline
	@scripts/deps.sh test
	@$(MAKE) --no-print-directory release BIN=.test/cdui
	@scripts/bench.sh

.PHONY: cover
cover: ## test coverage over all packages, as .test/cover.html
	@mkdir -p .test
	CDUI_TEST_PYTHON="$$(scripts/deps.sh python test)" \
	    $(GO) test -coverprofile .test/cover.out -coverpkg ./internal/... ./...
	$(GO) tool cover -html .test/cover.out -o .test/cover.html
	@$(GO) tool cover -func .test/cover.out | tail -1

## Keeping it tidy

.PHONY: fmt
fmt: ## format the Go code
	@gofmt -s -w cmd internal runtime examples
	@if [ -x .tools/bin/golangci-lint ]; then .tools/bin/golangci-lint fmt; fi

.PHONY: lint
lint: ## golangci-lint (installed into .tools on first use, 2 min)
	@scripts/lint.sh $(GOLANGCI_VERSION)

.PHONY: gen
gen: ## write completions, man pages, the node catalogue, docs/states.md, docs/json.md and docs/conformance.md anew
	@scripts/gen.sh

.PHONY: gen-check
gen-check: ## fail when a generated file is not what gen writes
	@scripts/gen.sh --check

.PHONY: pictures
pictures: ## draw the pictures of the screens in docs/images anew
	@mkdir -p docs/images
	@$(GO) test ./internal/tui -count 1 -run TestPictures -pictures "$(CURDIR)/docs/images"

.PHONY: clean
clean: ## remove what was built
	rm -rf bin dist .test
