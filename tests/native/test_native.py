"""Tests of modules that the C loader runs on the emulated GPU: bitwise equal to `--device emulate`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import meshgen as mg
from meshgen.runtime.loading import load
from meshgen.runtime.native.export import write_native
from meshgen.runtime.random_arrays import random_array
from tests.native import loader
from tests.native.loader import Array
from tests.native.programs import PROGRAMS, after_steps, of, of_text
from tests.programs import mlp

pytestmark = pytest.mark.skipif(not loader.COMPILER, reason="there is no C compiler")


@pytest.fixture(scope="session")
def program() -> Path:
    return loader.sanitized()


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return loader.build_libraries(tmp_path_factory.mktemp("libraries"), "emulated_gpu.c")


def written_module(name: str, folder: Path) -> Path:
    path = folder / "m.mgx"
    PROGRAMS[name](path)
    write_native(path, path)
    return path


def arguments(path: Path) -> dict[str, Array]:
    """Return random arguments; integer scalars, which are counts or choices, are 2."""
    inputs = load(path, runs=False).inputs
    arrays = {b.name: random_array(b.type, [1, i]) for i, b in enumerate(inputs)}
    return {n: np.full_like(a, 2) if a.dtype == np.int32 and not a.ndim else a for n, a in arrays.items()}


def check(path: Path, outcome: loader.Outcome, args: dict[str, Array], arch: str, steps: int = 1) -> None:
    assert outcome.code == 0, outcome.errors
    module = load(path, runs=False)
    expected = after_steps(module, args, arch, steps)
    for binding, array in zip(module.outputs, expected, strict=True):
        result = outcome.results[binding.name]
        assert result.shape == array.shape and result.tobytes() == np.ascontiguousarray(array).tobytes(), binding.name


@pytest.mark.parametrize("name", PROGRAMS)
def test_native_results_match_python_executor_bitwise(
    name: str, tmp_path: Path, program: Path, libraries: Path
) -> None:
    """The loader issues the first of three steps launch by launch, and the others as CUDA graphs."""
    path = written_module(name, tmp_path)
    args = arguments(path)
    outcome = loader.run(program, libraries, path, args, arch="sm_80", options=["--steps", "3"])
    check(path, outcome, args, "sm_80", steps=3)
    assert outcome.server and outcome.server.calls["cuGraphLaunch"] >= 2


def test_kernel_with_tma_descriptors_gets_scratch_memory(tmp_path: Path, program: Path, libraries: Path) -> None:
    """Thread blocks write TMA descriptors to scratch memory, which steps run as CUDA graphs reuse."""
    path = tmp_path / "m.mgx"
    options = {"args": ["bf16[128,1024]", "bf16[1024,64]"], "in_specs": {"x": mg.P(None, "a"), "w": mg.P("a")}}
    of(lambda x, w: x @ w, {"a": 2}, target="cuda:sm_90", **options)(path)
    write_native(path, path)
    module = load(path, runs=False)
    (binary,) = [binary for kernel in module.manifest.kernels.values() for binary in kernel.binaries.values()]
    assert binary.metadata["global_scratch_size"] and binary.instructions["UTMALDG"]
    args = arguments(path)
    check(path, loader.run(program, libraries, path, args, arch="sm_90", options=["--steps", "3"]), args, "sm_90")


@pytest.mark.parametrize("target", ["cuda:sm_80,sm_90", "cuda:sm_90,sm_80"])
def test_kernel_launch_uses_grid_for_device_architecture(
    target: str, tmp_path: Path, program: Path, libraries: Path
) -> None:
    path = tmp_path / "m.mgx"
    options = {"args": ["bf16[128,1024]", "bf16[1024,192]"], "in_specs": {"x": mg.P("a", None), "w": mg.P()}}
    of(lambda x, w: mg.tanh(x @ w), {"a": 2}, target=target, **options)(path)
    write_native(path, path)
    (kernel,) = load(path, runs=False).manifest.kernels.values()
    assert kernel.on("sm_80").grid != kernel.on("sm_90").grid
    args = arguments(path)
    for arch in ("sm_80", "sm_90"):
        check(path, loader.run(program, libraries, path, args, arch=arch, options=["--steps", "2"]), args, arch)


@pytest.mark.parametrize("name", ["mlp", "two meshes", "loop with collectives"])
def test_one_process_per_rank_matches_python_executor(
    name: str, tmp_path: Path, program: Path, libraries: Path
) -> None:
    """A process writes only its own shards. The test helper combines them."""
    path = written_module(name, tmp_path)
    args = arguments(path)
    outcome = loader.run(program, libraries, path, args, arch="sm_80", ranks=range(load(path, runs=False).ranks))
    check(path, outcome, args, "sm_80")


def test_device_without_cubin_compiles_ptx(tmp_path: Path, program: Path, libraries: Path) -> None:
    """The module only has code for sm_80, and the device is sm_90."""
    path = written_module("mlp", tmp_path)
    args = arguments(path)
    check(path, loader.run(program, libraries, path, args, arch="sm_90"), args, "sm_90")


def test_module_for_newer_devices_is_rejected(tmp_path: Path, program: Path, libraries: Path) -> None:
    path = tmp_path / "m.mgx"
    of_text(mlp(), target="cuda:sm_90")(path)
    write_native(path, path)
    outcome = loader.run(program, libraries, path, arguments(path), arch="sm_80")
    assert outcome.code == 5 and "MG0602: kernel '" in outcome.errors and "which is sm_80" in outcome.errors


def test_step_beyond_time_limit_is_ended(tmp_path: Path, program: Path, libraries: Path) -> None:
    path = written_module("loop", tmp_path)
    args = {
        name: np.full_like(array, 1 << 30) if array.dtype == np.int32 else array
        for name, array in arguments(path).items()
    }
    outcome = loader.run(program, libraries, path, args, arch="sm_80", options=["--time-limit", "0.5"])
    assert outcome.code == 4 and "MG0604: the step has taken longer than 0.5 seconds" in outcome.errors


def test_donated_argument_is_updated_in_place(tmp_path: Path, program: Path, libraries: Path) -> None:
    """The result overwrites the argument, so each step continues from the previous one."""
    path = tmp_path / "m.mgx"
    of(lambda x: x + x, {"a": 2}, args=["f32[8,4]"], in_specs={"x": mg.P("a")}, donate=["x"])(path)
    write_native(path, path)
    x = random_array(load(path, runs=False).inputs[0].type, [1])
    outcome = loader.run(program, libraries, path, {"x": x}, arch="sm_80", options=["--steps", "3"])
    assert outcome.code == 0, outcome.errors
    np.testing.assert_array_equal(next(iter(outcome.results.values())), 8 * x)
