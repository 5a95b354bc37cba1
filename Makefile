# Every target does all of its own set-up: a fresh machine needs Python 3.11+, git and make
# (and Go for test-cluster, which builds a real control plane once and caches it).
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: replay test lint test-cluster bench-edge bench-drain bench-storm bench-nth bench-replay bench-backtest lock clean help
.DEFAULT_GOAL := help

help: ## what can be made here
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

replay: $(VENV)/.run ## play a bad week on an embedded cluster; SCENARIO=name plays another
	@$(BIN)/groundcrew replay $(SCENARIO)

test: $(VENV)/.dev ## the tests, without a cluster
	@$(BIN)/python -m pytest -q -m "not controlplane" $(ARGS)

lint: $(VENV)/.dev ## ruff, mypy --strict of code and tests, import-linter
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache

test-cluster: $(VENV)/.dev ## the tests that need a real kube-apiserver; builds one if it is not cached
	@$(BIN)/python -m tests.controlplane.build && $(BIN)/python -m tests.controlplane.karpenter.build
	@$(BIN)/python -m pytest -q -m controlplane $(ARGS)

bench-edge: $(VENV)/.dev ## what it costs to decline an event
	@$(BIN)/python -m tests.bench.edge

bench-replay: $(VENV)/.dev ## a played day of 288 nodes and 190,000 events: seconds and memory
	@$(BIN)/python -m tests.bench.replay

bench-backtest: $(VENV)/.dev ## three such days under two policies: does memory grow with days?
	@$(BIN)/python -m tests.bench.replay backtest

bench-drain: $(VENV)/.dev ## drain with kubectl and with ours, on a real control plane, in turns
	@$(BIN)/python -m tests.controlplane.build && $(BIN)/python -m tests.bench.drain $(ARGS)

bench-storm: $(VENV)/.dev ## half of 1,500 nodes accused at once, on a real control plane
	@$(BIN)/python -m tests.controlplane.build && $(BIN)/python -m tests.bench.storm $(ARGS)

bench-nth: $(VENV)/.dev ## spot interruptions: aws-node-termination-handler and ours, in turns
	@$(BIN)/python -m tests.controlplane.build && $(BIN)/python -m tests.bench.nth.build
	@$(BIN)/python -m tests.bench.nth $(ARGS)

# Locks hold hashes and no addresses, so that any index that serves the same files will do.
lock: ## write the locks anew (needs uv)
	uv pip compile --universal --generate-hashes --no-emit-index-url --no-header --quiet \
	  --python-version 3.11 pyproject.toml --group build -o requirements.lock
	uv pip compile --universal --generate-hashes --no-emit-index-url --no-header --quiet \
	  --python-version 3.11 pyproject.toml --group build --group dev -c requirements.lock -o requirements-dev.lock

$(VENV)/.run: requirements.lock pyproject.toml
	@test -x $(BIN)/python || { echo "setting up $(VENV) (once)"; $(PYTHON) -m venv $(VENV); }
	@$(PIP) install --require-hashes -r requirements.lock
	@$(PIP) install --no-build-isolation --no-deps --editable .
	@touch $@

$(VENV)/.dev: requirements-dev.lock $(VENV)/.run
	@echo "setting up what tests and lint need (once)"
	@$(PIP) install --require-hashes -r requirements-dev.lock
	@touch $@

clean: ## remove what the other targets made here
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis
