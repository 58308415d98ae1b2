# Each goal sets up what it needs in .venv and nothing else: the wheels that requirements*.txt name, by their hashes (Linux
# x86-64). On other machines: python3 -m venv .venv && .venv/bin/pip install -e '.[dev]'
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
PINNED := $(PIP) --require-hashes --only-binary=:all: -r
BLOCK := examples/transformer_block.mlir

.PHONY: demo test test-shard quick near lint style types workflows subjects distribution nightly gpu native setup docs site pictures \
  bench-trend changelog release pins clean

# The main job: a transformer block that JAX lowered becomes a module for two GPU architectures and runs on 8 simulated ranks.
demo: .venv/core.stamp
	$(BIN)/meshgen compile $(BLOCK) --target cuda:sm_90,sm_80 -o block.mgx --report block.html
	$(BIN)/meshgen run block.mgx --expect $(BLOCK)
	$(BIN)/meshgen run block.mgx --kernels --device emulate
	@echo "the report of this program: file://$(CURDIR)/block.html"

# pytest's workers fill the cores; OpenBLAS threads beside them wait in busy loops. Without compiled files each worker and each
# process that a test starts would compile all sources again.
test test-shard quick near: export OPENBLAS_NUM_THREADS = 1
test test-shard quick near: export PYTHONDONTWRITEBYTECODE =

test: .venv/dev.stamp
	$(BIN)/python -m pytest -n auto --dist worksteal

# One part of the suite: make test-shard SHARD=1/4
test-shard: .venv/dev.stamp
	files=$$($(BIN)/python -m tests.shards $(SHARD)) && $(BIN)/python -m pytest -n auto --dist worksteal $$files

# For the loop of edit and run: the test files of each folder that say most for the time they take, 75 s of CPU time.
QUICK := $(addprefix tests/,test_api.py test_axis_refs.py test_cost_model.py test_docs.py test_errors.py test_house.py test_layering.py test_mesh.py \
    test_notation.py test_pipeline.py test_spec.py) \
  $(addprefix tests/benchmarks/,test_bench_compare.py test_bench_records.py) \
  $(addprefix tests/calls/,test_module_calls_in_jax_trees.py) \
  $(addprefix tests/frontend/,test_jax.py test_mlir.py test_tracer.py test_tracer_refusals.py opening/test_formula_text.py pytorch/test_torch_archives.py pytorch/test_torch_ops.py) \
  $(addprefix tests/ir/,test_definitions.py test_symbols.py) \
  $(addprefix tests/mlir/,test_shard_dialect.py test_shard_import.py test_stablehlo_faults.py test_stablehlo_text.py test_stages.py) \
  $(addprefix tests/ops/,test_evaluate.py test_infer.py test_rules.py) \
  $(addprefix tests/passes/,test_pass_files.py) \
  $(addprefix tests/sizes/,test_sizes.py) \
  $(addprefix tests/testing/,test_oracle.py) \
  $(addprefix tests/sharding/,test_alternatives.py test_materialize.py test_optimize.py test_partition.py \
    test_propagate.py multi_mesh/test_meshes_numbers.py reshard/test_reshard.py) \
  $(addprefix tests/codegen/,test_bounds.py test_cache.py test_fuse.py test_memory.py test_package.py test_schedule.py test_triton_source.py) \
  $(addprefix tests/ccl/,test_cost.py test_lower.py test_simulated.py test_volume.py) \
  $(addprefix tests/simulator/,test_simulation.py) \
  $(addprefix tests/machine/,test_reading.py) \
  $(addprefix tests/runtime/,test_control_flow.py test_interpret.py test_module.py test_module_calls.py test_session.py test_simulate.py \
    cuda/test_execute.py) \
  $(addprefix tests/emulator/,test_arithmetic.py test_nccl.py test_parse.py) \
  $(addprefix tests/reports/,test_comms_tree.py test_explain.py) \
  $(addprefix tests/compiled/,test_arguments.py) \
  $(addprefix tests/native/,test_native.py) \
  $(addprefix tests/search/,test_search_solve.py test_search_words.py test_strategies.py) \
  $(addprefix tests/commands/,test_cli.py test_cli_refusals.py) \
  $(addprefix tests/acceptance/,test_mlir_programs.py test_rfc.py)

quick: .venv/dev.stamp
	$(BIN)/python -m pytest -n auto --dist worksteal $(QUICK)

# make near FILE=meshgen/codegen/scheduling/memory.py: the tests nearest to a module, by names and imports.
near: .venv/dev.stamp
	files=$$($(BIN)/python -m tests.near $(FILE)) && $(BIN)/python -m pytest -n auto --dist worksteal $$files

lint: style types

style: .venv/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/dev.stamp
	$(BIN)/pyright

# The files in .github/workflows: what a forge would run, and with which permissions.
workflows: .venv/release.stamp
	$(BIN)/zizmor --offline --quiet --no-progress .github

# The subjects of the commits since a branch: make subjects BASE=origin/main
BASE := main
subjects: .venv/dev.stamp
	$(BIN)/python .ci/subjects.py --since $(BASE)

# The source distribution and the wheel, each built, checked, installed in a fresh environment and tested there: a minute of CPU time.
distribution: .venv/release.stamp
	rm -rf build/distribution
	$(BIN)/python .ci/distribution.py build/distribution

# Random campaigns, with the date as seed: make nightly COUNT=100 SEED=7 SECONDS=60
nightly: .venv/dev.stamp
	$(BIN)/python -m tests.nightly $(if $(COUNT),--count $(COUNT)) $(if $(SEED),--seed $(SEED)) $(if $(SECONDS),--seconds $(SECONDS))

# The changes since the last release, from changelog.d; with VERSION=0.2.0 they go into CHANGELOG.md.
changelog: .venv/release.stamp
	$(BIN)/towncrier build $(if $(VERSION),--yes --version $(VERSION),--draft --version next)

# The files of a release in build/release: make release TAG=v0.1.0
release: distribution
	$(BIN)/python .ci/release.py $(TAG) build/distribution build/release

# Tests that run on emulated GPUs otherwise, and what is measured, on real ones; exits 5 where there is none. Writes bench/results/gpu_*.
ON_GPUS := $(addprefix tests/,runtime/cuda/test_execute.py runtime/cuda/test_real_gpus.py runtime/test_engines.py runtime/test_scans.py \
  runtime/test_session.py sharding/test_scan_prefetch.py)
GPU_RESULTS := bench/results/gpu

gpu: .venv/dev.stamp
	$(BIN)/python -m bench --check-device
	MESHGEN_TEST_GPUS=real $(BIN)/python -m pytest -v -n 0 --no-header -rs $(ON_GPUS) > $(GPU_RESULTS)_tests.txt || (cat $(GPU_RESULTS)_tests.txt; exit 1)
	$(BIN)/meshgen bench kernels --output $(GPU_RESULTS)_kernels.json
	-$(BIN)/meshgen bench collectives --output $(GPU_RESULTS)_collectives.json

# The loader in C: build/libmeshgen.a and build/mgx-run.
native:
	$(MAKE) -C meshgen/native OUT=$(CURDIR)/build

docs: .venv/dev.stamp
	$(BIN)/python docs/generate.py

# The pages as a site: build/site/index.html opens from the disk. Warnings are errors.
site: docs
	$(BIN)/mkdocs build

# A line for this commit in bench/results/trend.jsonl, which docs/performance.md plots; needs valgrind.
bench-trend: .venv/dev.stamp
	$(BIN)/python -m bench.trend

# Pictures of the report, by headless Chromium.
pictures: .venv/dev.stamp
	$(BIN)/python docs/pictures.py

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

.venv/release.stamp: .venv/dev.stamp requirements-release.txt
	$(PINNED) requirements-release.txt
	touch $@

clean:
	rm -rf .venv build block.mgx block.html mlp.mgx .pytest_cache .ruff_cache
