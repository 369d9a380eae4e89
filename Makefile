# `make run` trains CLNR on the built-in synthetic graph (toy); `make test` checks the code in minutes, `make test-full` all
# of it; `make docs` builds the documentation into site/. All of them set up .venv first.
PYTHON ?= python3
VENV ?= .venv
CONSTRAINTS ?= constraints.txt
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest -n auto --maxprocesses 8 --dist worksteal

.PHONY: run lint test-unit test test-rest test-full pytest test-lowest paper docs wheel clean

# By sampled steps, which are as good here and take a third of the time.
run: $(VENV)/run.stamp
	@$(BIN)/clnr run --set sampled_nodes=512 --set moments=sampled

lint: $(VENV)/test.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test-unit: $(VENV)/test.stamp
	$(PYTEST)

test: lint test-unit

# What test-full adds to test.
test-rest: $(VENV)/test.stamp
	$(PYTEST) -m 'full and not slow'

test-full:
	@$(MAKE) test
	@$(MAKE) test-rest

# All tests of test-full in one go, without ruff and mypy.
pytest: $(VENV)/test.stamp
	$(PYTEST) -m 'not slow'

test-lowest:
	@$(MAKE) pytest VENV=.venv-lowest CONSTRAINTS=constraints-lowest.txt

# All of docs/paper but its README, from docs/paper/runs.csv.
paper: $(VENV)/test.stamp
	$(BIN)/python -m reproduce paper

docs: $(VENV)/docs.stamp
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "Open site/index.html, or serve it: $(BIN)/python -m http.server --directory site"

# The wheel is built from the sdist; then it is installed in a fresh environment, and run.
wheel: $(VENV)/test.stamp
	rm -rf dist
	$(BIN)/python -m build --no-isolation
	$(BIN)/python -m pytest -m '' tests/test_distribution.py

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "clnr needs Python 3.11 or newer; say which with: make run PYTHON=python3.12" >&2; exit 2; }
	@echo "Setting up $(VENV) (once; PyTorch is a large download) ..."
	$(PYTHON) -m venv $(VENV)

# pip compiles what it copies, and of an editable install it copies nothing.
$(VENV)/run.stamp: $(BIN)/python pyproject.toml $(CONSTRAINTS)
	$(BIN)/python -m pip install --quiet --constraint $(CONSTRAINTS) --editable .
	@$(BIN)/python -m compileall -q src/clnr
	@touch $@

$(VENV)/test.stamp: $(BIN)/python pyproject.toml $(CONSTRAINTS)
	$(BIN)/python -m pip install --quiet --constraint $(CONSTRAINTS) --editable '.[dev]'
	@# Else each process that a test starts compiles them anew where Python is told to write no bytecode.
	@$(BIN)/python -m compileall -q src tests
	@touch $@ $(VENV)/run.stamp

$(VENV)/docs.stamp: $(BIN)/python pyproject.toml $(CONSTRAINTS)
	$(BIN)/python -m pip install --quiet --constraint $(CONSTRAINTS) --editable '.[docs]'
	@touch $@ $(VENV)/run.stamp

clean:
	rm -rf .venv .venv-* .mypy_cache .pytest_cache .ruff_cache dist site
