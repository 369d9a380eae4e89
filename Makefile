# Two commands: `make run` trains CLNR on the embedded graph; `make test` checks everything. Both set up .venv first.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: run test clean

run: .venv/run.stamp
	@$(BIN)/clnr run

test: .venv/test.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "clnr needs Python 3.11 or newer; say which with: make run PYTHON=python3.12" >&2; exit 2; }
	@echo "Setting up .venv (once; PyTorch is a large download) ..."
	$(PYTHON) -m venv .venv

.venv/run.stamp: .venv/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	@touch $@

.venv/test.stamp: .venv/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@ .venv/run.stamp

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache dist
