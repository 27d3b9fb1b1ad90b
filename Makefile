# Two commands do everything: `make run` and `make test`. The rest is for people who work on Kith.
SHELL := /bin/bash
.DEFAULT_GOAL := help
SWIFT ?= swift
BUILD := .build
JOBS ?= $(shell getconf _NPROCESSORS_ONLN)
RELEASE := for product in kith kith-extract kith-viewer kith-dark; do scripts/swift build -c release -j $(JOBS) --product $$product || exit; done
ARGS ?=
# Where scripts/bootstrap installs a Swift when there is none.
export PATH := $(PATH):$(or $(SWIFTLY_BIN_DIR),$(HOME)/.local/share/swiftly/bin)

.PHONY: help run build release install lib man test coverage check soak bench fuzz docs format lint sanitize clean

help: ## Lists the targets.
	@awk -F':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## Installs what is missing, builds, and starts this device (kith up). ARGS="--name laptop" passes options.
	@scripts/bootstrap
	$(RELEASE)
	@exec "$$(scripts/swift build -c release --show-bin-path)/kith" up $(ARGS)

release: ## Builds the kith command with optimisation.
	@scripts/bootstrap
	$(RELEASE)
	@echo "Built $$(scripts/swift build -c release --show-bin-path)/kith"

install: release ## Installs the command, its manual and its completions below PREFIX (default /usr/local).
	@scripts/install "$$(scripts/swift build -c release --show-bin-path)/kith" "$(DESTDIR)$(or $(PREFIX),/usr/local)"

lib: ## Builds libkith.so with CKith.h and kith.pc, below PREFIX (default .build-lib/kith).
	@scripts/bootstrap
	@scripts/lib $(PREFIX)

man: release ## Writes the manual's pages into .build/man.
	@"$$(scripts/swift build -c release --show-bin-path)/kith" manual --into $(BUILD)/man

build: ## Builds everything for debugging, tests included.
	scripts/swift build -j $(JOBS) --build-tests --explicit-target-dependency-import-check error

test: ## Installs what is missing and runs the whole suite.
	@scripts/bootstrap --test
	scripts/swift build -j $(JOBS) --build-tests --explicit-target-dependency-import-check error
	@scripts/test $(ARGS)

coverage: ## Says how many lines of each target the suite reaches, or a part of it (ARGS="--filter KithTrustTests").
	@scripts/coverage $(ARGS)

check: ## Format, package, build, types on Apple's systems, tests, C, bindings, examples, docs.
	@scripts/check

soak: ## Ten thousand simulated conversations, 500 starts and stops, a million calls from C, in release. CONVERSATIONS=100000 for a longer run.
	@CONVERSATIONS=$(CONVERSATIONS) CYCLES=$(CYCLES) SWIFT=$(SWIFT) scripts/soak

bench: ## Prints the numbers: kith cp beside scp, echo beside ssh, the transport alone.
	@scripts/bootstrap --test
	@scripts/bench $(ARGS)

fuzz: ## Runs every fuzzer, a million inputs each, fewer where each is a whole connection. ARGS="packet 5000000" for one of them.
	@scripts/fuzz $(ARGS)

docs: ## Builds the documentation; a dead link is an error.
	@scripts/docs

format: ## Formats the sources.
	$(SWIFT) format -i -r -p Sources Tests Examples Benchmarks Fuzz Package.swift

lint: ## Says what `make format` would change, what waits in a way of its own, what the package offers, and which snippets are not compiled.
	$(SWIFT) format lint --strict -r -p Sources Tests Examples Package.swift
	@scripts/waiting
	@scripts/manifest
	@scripts/snippets

sanitize: ## Runs the tests of network and engines under the thread sanitizer, then under that of addresses.
	@scripts/sanitize $(ARGS)

clean: ## Removes what was built.
	rm -rf .build .build-*
