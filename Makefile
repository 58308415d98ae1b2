# Each goal sets up what it needs in .venv and nothing else: the wheels that requirements*.txt name, by their hashes (Linux
# x86-64). On other machines: python3 -m venv .venv && .venv/bin/pip install -e '.[dev]'
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
PINNED := $(PIP) --require-hashes --only-binary=:all: -r
BLOCK := examples/transformer_block.mlir

.PHONY: demo test lint gpu native setup docs pins clean

# The main job: a transformer block that JAX lowered becomes a module for two GPU architectures and runs on 8 simulated ranks.
demo: .venv/core.stamp
	$(BIN)/meshgen compile $(BLOCK) --target cuda:sm_90,sm_80 -o block.mgx
	$(BIN)/meshgen run block.mgx --expect $(BLOCK)
	$(BIN)/meshgen run block.mgx --kernels --device emulate

test: .venv/dev.stamp
	$(BIN)/python -m pytest -n auto --dist worksteal

lint: .venv/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

# What needs a GPU; exits 5 where there is none.
gpu: .venv/dev.stamp
	$(BIN)/python -m bench --check-device
	$(BIN)/python -m pytest -m gpu
	$(BIN)/python -m bench

# The loader in C: build/libmeshgen.a and build/mgx-run.
native:
	$(MAKE) -C meshgen/native OUT=$(CURDIR)/build

docs: .venv/dev.stamp
	$(BIN)/python docs/generate.py

setup: .venv/dev.stamp

# The newest versions: make pins PINS=--upgrade
pins: .venv/bin/python
	$(BIN)/python .ci/pins.py $(PINS)

.venv/bin/python:
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'meshgen needs Python 3.11 or newer; set PYTHON=...')"
	$(PYTHON) -m venv .venv

.venv/core.stamp: .venv/bin/python pyproject.toml requirements.txt
	$(PINNED) requirements.txt
	$(PIP) --no-deps --no-build-isolation -e .
	touch $@

.venv/dev.stamp: .venv/core.stamp requirements-dev.txt
	$(PINNED) requirements-dev.txt
	touch $@

clean:
	rm -rf .venv build block.mgx mlp.mgx .pytest_cache .ruff_cache
