# Tonnage. Needs Python 3.11 or later with its venv module, and make; everything else comes from the locks, into .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
GENERATE := $(BIN)/python protos/generate.py
REFERENCE := $(BIN)/python protos/reference.py
# Small matrices: threads would only wait for each other.
SOLVE := OPENBLAS_NUM_THREADS=1
# What tests/integration and tests/page drive; a test whose program is missing is skipped, on a build machine (CI=true) it fails.
TOOLS := chromium prometheus promtool haproxy soffice
TOOL_PACKAGES := chromium fonts-dejavu-core haproxy libreoffice-calc-nogui prometheus
UV_VERSION := 0.13.9
COMPILE := $(BIN)/uv pip compile pyproject.toml --group build --universal --generate-hashes --no-emit-index-url \
	--no-emit-find-links --custom-compile-command "make lock" --quiet

FUZZED := compat configs requests rest

.DEFAULT_GOAL := help
.PHONY: help serve tools test check lint types walls protos gen golden bench models calibrate accuracy fuzz $(FUZZED:%=fuzz-%) soak lock audit sbom clean

help: ## Show what there is to make
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

serve: $(VENV)/.runtime ## Start the service in the foreground; it prints its addresses and a curl to try
	@exec $(BIN)/tonnage-service

tools: ## Install the programs that tests drive beside Python's own, on Debian and Ubuntu as root: browser, Prometheus, proxy, office
	@for program in $(TOOLS); do command -v $$program >/dev/null || missing=1; done; [ -z "$$missing" ] || \
		{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(TOOL_PACKAGES) >/dev/null; }

test: $(VENV)/.development ## Run all tests and the doctests
	$(SOLVE) $(BIN)/python -m pytest --numprocesses auto --dist loadfile $(PYTEST_ARGS)

check: lint types walls protos ## Check style, types, import walls, the schema and the generated code

lint: $(VENV)/.development
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(VENV)/.development
	$(BIN)/mypy

walls: $(VENV)/.development
	$(BIN)/lint-imports --no-logo

protos: $(VENV)/.development
	$(GENERATE) --check
	$(GENERATE) --lint
	$(GENERATE) --breaking
	$(REFERENCE) --check

gen: $(VENV)/.development ## Write the generated code and reference pages anew from protos/
	$(GENERATE)
	$(REFERENCE)

golden: $(VENV)/.development ## Write the golden answers anew (commit them by themselves)
	$(BIN)/python -m pytest tests/golden --rewrite-golden

bench: $(VENV)/.development ## Run what is measured rather than asserted: tests/benchmarks/
	@set -e; for name in derived_figures doors cost engine_memory serving sweep fleets autoscalers expander placement overload redis_faults; do echo "== $$name"; $(BIN)/python -m "tests.benchmarks.$$name"; done

models: $(VENV)/.development ## Show every published configuration as it is read, beside an independent count
	@$(BIN)/python -m tests.benchmarks.models

calibrate: $(VENV)/.development ## Write specs/calibrations/ anew from the measured runs (some minutes)
	$(SOLVE) $(BIN)/python -m tests.calibration.calibrate

accuracy: $(VENV)/.development ## Show how far estimates lie from runs; DATA=file.csv for runs of your own
	@$(SOLVE) $(BIN)/python -m tests.calibration.accuracy $(DATA)

fuzz: $(FUZZED:%=fuzz-%) ## Look for inputs that break readers, decoders, RPCs and REST: SECONDS=900 for each of the four; -j2 is quicker

$(FUZZED:%=fuzz-%): fuzz-%: $(VENV)/.development
	@$(BIN)/python -m tests.fuzz $* --seconds $(or $(SECONDS),900)

soak: $(VENV)/.development ## Ask a running service for half an hour at 70 % load, and look at errors and memory; SECONDS=60 for less
	@$(BIN)/python -m tests.benchmarks.soak --seconds $(or $(SECONDS),1800)

lock: $(VENV)/.created ## Resolve the dependencies anew and write the locks
	$(PIP) install --quiet uv==$(UV_VERSION)
	$(COMPILE) --upgrade --extra mcp --output-file requirements.lock
	$(COMPILE) --upgrade --extra dev --constraint requirements.lock --output-file requirements-dev.lock
	$(COMPILE) --upgrade --extra auth --extra mcp --extra otel --constraint requirements.lock --output-file deploy/requirements.lock

audit: $(VENV)/.development ## Look every locked package up for known vulnerabilities; fails where nobody can be asked, too
	@$(BIN)/python -m tests.deploy.audit $(AUDIT_ARGS)

sbom: $(VENV)/.development ## Write what the image is made of to run/sbom.json (CycloneDX)
	@mkdir -p run
	$(BIN)/cyclonedx-py requirements deploy/requirements.lock --output-file run/sbom.json

clean: ## Remove the environment, caches and builds
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The environment. A stamp is older than the lock it stands for when the lock has changed since.

$(VENV)/.created:
	@command -v $(PYTHON) >/dev/null || \
		{ echo "Tonnage needs Python 3.11 or later, and there is no $(PYTHON). If it has another name: make PYTHON=…" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Tonnage needs Python 3.11 or later; $(PYTHON) is $$($(PYTHON) -V 2>&1). Name another: make PYTHON=python3.12 …" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
		{ echo "$(PYTHON) lacks its venv module. On Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.runtime: requirements.lock pyproject.toml $(VENV)/.created
	$(PIP) install --quiet --require-hashes -r requirements.lock
	$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.development: requirements-dev.lock $(VENV)/.runtime
	$(PIP) install --quiet --require-hashes -r requirements-dev.lock
	@touch $@
