# The Makefile builds one virtual environment, .venv, from requirements.lock, and runs everything in it.
PYTHON ?= python3
BIN    := .venv/bin
T      ?= tests

# Tests and the demo start many processes; each would compile all that it imports, were nothing kept.
export PYTHONPYCACHEPREFIX := $(CURDIR)/.cache/pycache
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test journeys check fmt bench lock clean

help: ## list these targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: .venv/ready ## a GPU breaks, its issue opens, its node is repaired and proven (ONCE=1: check the end and exit)
	@ONCE=$(ONCE) BREAK=$(BREAK) $(BIN)/python -m sandbox demo

test: .venv/ready ## the tests, without the slow journeys (T=path picks)
	$(BIN)/python -m pytest -n auto -m "not slow" $(T)

journeys: .venv/ready ## the slow tests: real programs, crashes
	$(BIN)/python -m pytest -n auto --dist loadfile -m slow $(T)

check: .venv/ready ## format, lint, types, layers, docs
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q tests/project

fmt: .venv/ready ## format and mend what ruff can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: .venv/ready ## the benchmarks behind docs/performance.md (B=name picks one)
	$(BIN)/python -m bench $(B)

lock: .venv/ready ## pin requirements.lock anew from pyproject.toml (needs uv)
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--no-header --extra dev --extra gpu --extra postgres pyproject.toml -o requirements.lock

clean: ## remove the virtual environment and the caches
	rm -rf .venv .cache .mypy_cache .pytest_cache .ruff_cache .import_linter_cache *.egg-info

.venv/ready: requirements.lock pyproject.toml .ci/venv
	@PYTHON=$(PYTHON) bash .ci/venv
