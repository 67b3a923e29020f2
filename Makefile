# `make help` lists the commands. Everything lands in .venv and in one cache folder; nothing is installed twice.
.DEFAULT_GOAL := help
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:

VENV ?= .venv
BIN := $(VENV)/bin
# Most tests wait for servers, JVMs and moments, so that four at once keep two cores busy; a file's tests stay together,
# and files go by name, so that the long ones of crash and end_to_end do not come last.
WORKERS ?= 4
# Many of these wait for a moment to come.
QUICK_WORKERS ?= 5
# Stops after which `make soak` compares source and target, for each pair of the two; two pairs at a time. Rounds of `make endurance`.
ROUNDS ?= 200
ROUND_SECONDS ?= 15
COMMITS ?= 100000
MINUTES ?= 120
SEED ?=
SOAK_WORKERS ?= 2
STORMS := $(wildcard tests/plugins/sources/*/test_rename_storm.py tests/plugins/sources/*/streaming/test_rename_storm.py)
# The real BigQuery is waited for, not computed with.
BIGQUERY_WORKERS ?= 8
SETUP := $(VENV)/.setup-done
SERVERS := $(VENV)/.servers-done
# Dozens of processes are started by the tests: none is to compile our modules again.
unexport PYTHONDONTWRITEBYTECODE
PACKAGES := sdk state runtime plugins
TYPED := $(PACKAGES) tests $(wildcard bench scripts/*.py scripts/*/*.py)
CODE := $(TYPED) hatch_build.py  # hatchling, which the hook extends, lives in the build environment only

# With PYTHON set, an environment made with another interpreter is not up to date.
ifdef PYTHON
ifneq ($(shell scripts/same_python.sh $(VENV) "$(PYTHON)"),yes)
.PHONY: $(SETUP)
endif
endif

.PHONY: help setup servers demo test quick test-all soak endurance test-bigquery bigquery-named lint format check bench docs lock clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'

setup: $(SETUP) ## Install Java, the Python environment and Delta's jars

$(SETUP): pyproject.toml sdk/pyproject.toml constraints.txt scripts/setup.sh scripts/install_packages.sh
	@scripts/setup.sh $(VENV)
	@touch $@

servers: $(SERVERS) ## Fetch the servers that the tests start

$(SERVERS): $(SETUP) scripts/servers.sh tests/services/artifacts.py tests/services/mysql/programs.py tests/services/bigquery/setup.py tests/services/azure/setup.py tests/services/gcs/setup.py
	@scripts/servers.sh $(VENV)
	@touch $@

demo: setup ## Replicate a small shop into Delta tables while it changes
	@$(BIN)/replicator demo

test: servers ## Run the tests; of the costly ones some cases, or none; ARGS="-k name" narrows them, WORKERS=0 runs them in one process
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(ARGS)

quick: setup ## Run the tests that start no other process: no server, no Java; [ARGS="-k name"]
	@$(BIN)/python -m pytest --quick -n $(QUICK_WORKERS) --dist worksteal -q -rfE --durations=5 $(ARGS)

test-all: servers ## Run the tests with every kill, source and server of each; hours; [ARGS="tests/crash -k heal"]
	@ALL_CASES=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(ARGS)

soak: servers ## Random histories of every source into Delta, Iceberg and BigQuery, stops and kills between; [ROUNDS=200] [SEED=n] [ARGS="-k 'mysql and delta'"]
	@ALL_CASES=1 SOAK_ROUNDS="$(ROUNDS)" SOAK_SEED="$(SEED)" $(BIN)/python -m pytest -n $(SOAK_WORKERS) -rA --tb=short tests/soak $(STORMS) $(ARGS)

endurance: servers ## A week in an hour for each source into Delta and BigQuery: changes, kills, errors; flat to the end? [ARGS="-k sqlite-delta"] [ROUND_SECONDS=15] [COMMITS=100000] [MINUTES=120]
	@ALL_CASES=1 ENDURANCE_ROUNDS="$(ROUNDS)" ENDURANCE_SECONDS="$(ROUND_SECONDS)" ENDURANCE_COMMITS="$(COMMITS)" ENDURANCE_MINUTES="$(MINUTES)" $(BIN)/python -m pytest -rA --tb=short tests/endurance $(ARGS)

test-bigquery: bigquery-named setup ## Try the BigQuery target on the real service: PROJECT=… BUCKET=… [LOCATION=US] [KEY=key.json]; costs money
	@REPLICATOR_BIGQUERY_PROJECT="$(PROJECT)" REPLICATOR_BIGQUERY_BUCKET="$(BUCKET)" REPLICATOR_BIGQUERY_LOCATION="$(LOCATION)" \
	  REPLICATOR_BIGQUERY_KEY="$(KEY)" REPLICATOR_BIGQUERY_MODE="$(MODE)" REPLICATOR_BIGQUERY_DATASET_PREFIX="$(PREFIX)" \
	  $(BIN)/python -m pytest -n $(BIGQUERY_WORKERS) -o timeout=1800 tests/plugins/targets/bigquery/real $(ARGS)

bigquery-named:
	@[ -n "$(PROJECT)" ] && [ -n "$(BUCKET)" ] || { echo "make test-bigquery needs PROJECT=… and BUCKET=…; docs/target-bigquery.md says what it costs" >&2; exit 2; }

lint: setup ## Check style, types and the import rule
	@$(BIN)/ruff check $(CODE)
	@$(BIN)/ruff format --check $(CODE)
	@$(BIN)/mypy $(TYPED)
	@$(BIN)/lint-imports
	@$(BIN)/python -m pytest -q tests/architecture/test_imports.py

format: setup ## Rewrite the code in the project's style
	@$(BIN)/ruff check --fix $(CODE)
	@$(BIN)/ruff format $(CODE)

check: lint test ## Everything a change must pass

bench: servers ## Measure against the peers and write bench/RESULTS.md
	@$(BIN)/python -m bench

docs: setup ## Rewrite the parts of docs/ that come from the code
	@$(BIN)/python scripts/reference_docs.py

lock: setup ## Write constraints.txt from what is installed now
	@scripts/lock.sh $(VENV)

clean: ## Delete caches and leavings; the environment and the downloads stay
	@rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache spark-warehouse metastore_db derby.log dist
	@find $(CODE) -name __pycache__ -prune -exec rm -rf {} +
