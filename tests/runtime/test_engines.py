"""Tests of all engines: the same module and arguments on each, and the state of devices after failures."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import meshgen as mg
from meshgen.emulator.cuda.types import CUresult
from meshgen.errors import RuntimeFailure, UsageError
from meshgen.runtime import engines
from meshgen.runtime.cuda import api
from meshgen.runtime.emulation_options import Emulation
from meshgen.runtime.module import DEVICES, LoadedModule
from tests.programs import mlp
from tests.runtime.cuda.steps import REAL, arguments, require_gpus


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> LoadedModule:
    """A module with code for two architectures. Its GEMMs have f32 precision, as on the CPU."""
    folder = tmp_path_factory.mktemp("engines")
    (folder / "mlp.mlir").write_text(mlp(y=("x", "y")))
    mg.compile(folder / "mlp.mlir", target="cuda:sm_80,sm_90", precision="highest").save(folder / "mlp.mgx")
    return mg.load(folder / "mlp.mgx")


class Gpus:
    """Emulated GPUs that replace real ones, and a count of their initializations."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: list[api.Api] = []
        monkeypatch.setattr(api, "real", self.real)

    def real(self, devices: int) -> api.Api:
        self.made.append(api.emulated(devices, "sm_90", races=True))
        return self.made[-1]


def assert_close(results: list[Any], expected: list[Any]) -> None:
    for result, other in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, other, rtol=1e-5, atol=1e-6)


def test_engines_give_close_results(module: LoadedModule, monkeypatch: pytest.MonkeyPatch) -> None:
    """`make gpu` uses real GPUs here."""
    if REAL:
        require_gpus(module.ranks)
    else:
        Gpus(monkeypatch)
    inputs = arguments(module)
    expected = module.run(inputs)
    assert tuple(engines.ENGINES) == DEVICES == ("reference", "interpret", "emulate", "cuda")
    for name in DEVICES:
        assert_close(module.run(inputs, name), expected)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_emulated_gpu_results_are_bitwise_equal_in_every_order(module: LoadedModule, arch: str) -> None:
    inputs = arguments(module)
    first, *others = [module.run(inputs, Emulation(arch, races=True, order=order)) for order in range(3)]
    assert all(
        array.tobytes() == other.tobytes() for results in others for array, other in zip(first, results, strict=True)
    )
    assert_close(first, module.run(inputs))


def test_newer_gpu_compiles_ptx_of_older_architecture(module: LoadedModule) -> None:
    """The module has no cubin for sm_100, and PTX for sm_90a only runs on 9.0, so the driver compiles PTX for sm_80."""
    inputs = arguments(module)
    assert_close(module.run(inputs, Emulation("sm_100")), module.run(inputs))


@pytest.mark.usefixtures("few_objects")
def test_gpus_are_initialized_once_and_released_with_module(
    module: LoadedModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpus = Gpus(monkeypatch)
    loaded, inputs = mg.load(module.members.path), arguments(module)
    for _ in range(3):
        loaded.run(inputs, "cuda")
    (gpu_api,) = gpus.made
    assert gpu_api.machine and gpu_api.machine.memory.live
    del loaded
    gc.collect()
    assert not gpu_api.machine.memory.live


def test_gpus_are_initialized_again_after_failure(module: LoadedModule, monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = Gpus(monkeypatch)
    loaded, inputs = mg.load(module.members.path), arguments(module)
    expected = loaded.run(inputs, "cuda")
    driver = gpus.made[0].driver
    monkeypatch.setattr(driver, "cuGraphLaunch", lambda *args: (CUresult.CUDA_ERROR_LAUNCH_FAILED,))
    with pytest.raises(RuntimeFailure, match="MG0604: cuGraphLaunch failed with 719: CUDA_ERROR_LAUNCH_FAILED"):
        loaded.run(inputs, "cuda")
    assert_close(loaded.run(inputs, "cuda"), expected)
    assert len(gpus.made) == 2


def test_emulator_fault_is_located_in_kernel_source(module: LoadedModule, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test allows kernels to access only the first byte of each operand."""
    limit = api.Api.limit_launch

    def narrowed(self: api.Api, parameters: int, ranges: Any) -> None:
        limit(self, parameters, [(address, 1, writable) for address, _, writable in ranges])

    monkeypatch.setattr(api.Api, "limit_launch", narrowed)
    with pytest.raises(RuntimeFailure) as caught:
        module.run(arguments(module), Emulation("sm_80"))
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "MG0608" and diagnostic.loc
    assert diagnostic.loc.file in {kernel.source for kernel in module.manifest.kernels.values()}
    assert "(sm_80)" in diagnostic.message and "tl.load" in str(caught.value)


def test_lost_nccl_peer_is_reported(module: LoadedModule, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another rank has aborted. NCCL detects this, and the host asks NCCL while it waits."""
    from meshgen.runtime.cuda import execute

    gpus = Gpus(monkeypatch)
    monkeypatch.setattr(execute, "LOOK_SECONDS", 0.0)
    loaded, inputs = mg.load(module.members.path), arguments(module)
    loaded.run(inputs, "cuda")
    gpu_api, launch = gpus.made[0], gpus.made[0].driver.cuGraphLaunch

    def lose(*args: Any) -> Any:
        outcome = launch(*args)
        executor = loaded._prepared.executor
        assert executor and executor.api is gpu_api
        gpu_api.comm("ncclCommAbort", executor._comms.world[1])
        return outcome

    monkeypatch.setattr(gpu_api.driver, "cuGraphLaunch", lose)
    with pytest.raises(RuntimeFailure, match="MG0609: NCCL lost a peer: remote process exited"):
        loaded.run(inputs, "cuda")


def test_unknown_device_is_rejected(module: LoadedModule) -> None:
    with pytest.raises(UsageError, match=r"(?s)MG0001: unknown device 'tpu'.*reference, interpret, emulate, cuda"):
        module.run(arguments(module), "tpu")
