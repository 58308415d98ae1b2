# Each goal sets up what it needs in .venv and nothing else.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
BLOCK := examples/transformer_block.mlir

.PHONY: demo test lint gpu setup docs clean

# The main job: a transformer block that JAX lowered becomes a module for two GPU architectures and runs on 8 simulated ranks.
demo: .venv/core.stamp
	$(BIN)/meshgen compile $(BLOCK) --target cuda:sm_90,sm_80 -o block.mgx
	$(BIN)/meshgen run block.mgx --expect $(BLOCK)
	$(BIN)/meshgen run block.mgx --kernels

test: .venv/dev.stamp
	$(BIN)/python -m pytest -n auto

lint: .venv/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

# What needs a GPU; exits 5 where there is none.
gpu: .venv/dev.stamp
	$(BIN)/python -m bench --check-device
	$(BIN)/python -m pytest -m gpu
	$(BIN)/python -m bench

docs: .venv/dev.stamp
	$(BIN)/python docs/generate.py

setup: .venv/dev.stamp

.venv/bin/python:
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'meshgen needs Python 3.11 or newer; set PYTHON=...')"
	$(PYTHON) -m venv .venv

.venv/core.stamp: .venv/bin/python pyproject.toml constraints.txt
	$(PIP) -e .
	touch $@

.venv/dev.stamp: .venv/core.stamp
	$(PIP) -e ".[dev]"
	touch $@

clean:
	rm -rf .venv block.mgx mlp.mgx .pytest_cache .ruff_cache
