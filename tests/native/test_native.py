"""Modules run by the C loader, without Python, on the emulated GPU behind libcuda and libnccl: the bits of `--device emulate`."""

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


def made(name: str, folder: Path) -> Path:
    path = folder / "m.mgx"
    PROGRAMS[name](path)
    write_native(path, path)
    return path


def arguments(path: Path) -> dict[str, Array]:
    """Random; what counts or chooses is small."""
    inputs = load(path, runs=False).inputs
    found = {b.name: random_array(b.type, [1, i]) for i, b in enumerate(inputs)}
    return {n: np.full_like(a, 2) if a.dtype == np.int32 and not a.ndim else a for n, a in found.items()}


def check(path: Path, outcome: loader.Outcome, args: dict[str, Array], arch: str, steps: int = 1) -> None:
    assert outcome.code == 0, outcome.errors
    module = load(path, runs=False)
    wanted = after_steps(module, args, arch, steps)
    for binding, array in zip(module.outputs, wanted, strict=True):
        have = outcome.results[binding.name]
        assert have.shape == array.shape and have.tobytes() == np.ascontiguousarray(array).tobytes(), binding.name


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_have_the_bits_of_the_python_executor(
    name: str, tmp_path: Path, program: Path, libraries: Path
) -> None:
    """Three steps: the first is issued launch by launch, the others are CUDA graphs."""
    path = made(name, tmp_path)
    args = arguments(path)
    outcome = loader.run(program, libraries, path, args, arch="sm_80", options=["--steps", "3"])
    check(path, outcome, args, "sm_80", steps=3)
    assert outcome.server and outcome.server.calls["cuGraphLaunch"] >= 2


def test_kernels_with_tensor_descriptors_have_scratch_memory(tmp_path: Path, program: Path, libraries: Path) -> None:
    """Each block writes its descriptors there; steps that are graphs use the same memory again."""
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
def test_a_kernel_has_the_grid_of_its_form_for_the_device(
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
def test_a_process_for_each_rank(name: str, tmp_path: Path, program: Path, libraries: Path) -> None:
    """Each process writes the shards that it has: joined they are the results."""
    path = made(name, tmp_path)
    args = arguments(path)
    outcome = loader.run(program, libraries, path, args, arch="sm_80", ranks=range(load(path, runs=False).ranks))
    check(path, outcome, args, "sm_80")


def test_a_device_without_a_cubin_compiles_ptx(tmp_path: Path, program: Path, libraries: Path) -> None:
    """The module has code for 8.0 only."""
    path = made("mlp", tmp_path)
    args = arguments(path)
    check(path, loader.run(program, libraries, path, args, arch="sm_90"), args, "sm_90")


def test_a_module_for_later_devices_only_is_refused(tmp_path: Path, program: Path, libraries: Path) -> None:
    path = tmp_path / "m.mgx"
    of_text(mlp(), target="cuda:sm_90")(path)
    write_native(path, path)
    outcome = loader.run(program, libraries, path, arguments(path), arch="sm_80")
    assert outcome.code == 5 and "MG0602: kernel '" in outcome.errors and "which is sm_80" in outcome.errors


def test_a_step_that_takes_too_long_is_ended(tmp_path: Path, program: Path, libraries: Path) -> None:
    path = made("loop", tmp_path)
    args = {
        name: np.full_like(array, 1 << 30) if array.dtype == np.int32 else array
        for name, array in arguments(path).items()
    }
    outcome = loader.run(program, libraries, path, args, arch="sm_80", options=["--time-limit", "0.5"])
    assert outcome.code == 4 and "MG0604: the step has taken longer than 0.5 seconds" in outcome.errors


def test_a_donated_argument_becomes_its_next_value(tmp_path: Path, program: Path, libraries: Path) -> None:
    """The result takes its memory, so that steps go on from each other."""
    path = tmp_path / "m.mgx"
    of(lambda x: x + x, {"a": 2}, args=["f32[8,4]"], in_specs={"x": mg.P("a")}, donate=["x"])(path)
    write_native(path, path)
    x = random_array(load(path, runs=False).inputs[0].type, [1])
    outcome = loader.run(program, libraries, path, {"x": x}, arch="sm_80", options=["--steps", "3"])
    assert outcome.code == 0, outcome.errors
    np.testing.assert_array_equal(next(iter(outcome.results.values())), 8 * x)
