"""Every engine by its name: the same module and arguments on each, and what becomes of devices after failures."""

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
from meshgen.runtime.emulation import Emulation
from meshgen.runtime.module import DEVICES, LoadedModule
from tests.programs import mlp
from tests.runtime.cuda.steps import REAL, arguments, require_gpus


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> LoadedModule:
    """With code for two architectures, whose products are those of the CPU."""
    folder = tmp_path_factory.mktemp("engines")
    (folder / "mlp.mlir").write_text(mlp(y=("x", "y")))
    mg.compile(folder / "mlp.mlir", target="cuda:sm_80,sm_90", precision="highest").save(folder / "mlp.mgx")
    return mg.load(folder / "mlp.mgx")


class Gpus:
    """Emulated GPUs in the place of real ones; notes how often they were made ready."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: list[api.Api] = []
        monkeypatch.setattr(api, "real", self.real)

    def real(self, devices: int) -> api.Api:
        self.made.append(api.emulated(devices, "sm_90", races=True))
        return self.made[-1]


def assert_close(found: list[Any], want: list[Any]) -> None:
    for own, other in zip(found, want, strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-5, atol=1e-6)


def test_all_engines_agree(module: LoadedModule, monkeypatch: pytest.MonkeyPatch) -> None:
    """GPUs are real ones for `make gpu`."""
    if REAL:
        require_gpus(module.ranks)
    else:
        Gpus(monkeypatch)
    given = arguments(module)
    want = module.run(given)
    assert tuple(engines.ENGINES) == DEVICES == ("reference", "interpret", "emulate", "cuda")
    for name in DEVICES:
        assert_close(module.run(given, name), want)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_emulated_gpus_give_the_same_bits_in_every_order(module: LoadedModule, arch: str) -> None:
    given = arguments(module)
    first, *others = [module.run(given, Emulation(arch, races=True, order=order)) for order in range(3)]
    assert all(own.tobytes() == other.tobytes() for each in others for own, other in zip(first, each, strict=True))
    assert_close(first, module.run(given))


def test_a_later_gpu_compiles_the_ptx_of_an_earlier_one(module: LoadedModule) -> None:
    """There are no cubins for it, and the PTX for sm_90 is for 9.0 alone: that for sm_80 remains."""
    given = arguments(module)
    assert_close(module.run(given, Emulation("sm_100")), module.run(given))


@pytest.mark.usefixtures("few_objects")
def test_gpus_are_made_ready_once_and_given_back_with_the_module(
    module: LoadedModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpus = Gpus(monkeypatch)
    own, given = mg.load(module.members.path), arguments(module)
    for _ in range(3):
        own.run(given, "cuda")
    (made,) = gpus.made
    assert made.machine and made.machine.memory.live
    del own
    gc.collect()
    assert not made.machine.memory.live


def test_after_a_failure_gpus_are_made_ready_again(module: LoadedModule, monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = Gpus(monkeypatch)
    own, given = mg.load(module.members.path), arguments(module)
    want = own.run(given, "cuda")
    driver = gpus.made[0].driver
    monkeypatch.setattr(driver, "cuGraphLaunch", lambda *args: (CUresult.CUDA_ERROR_LAUNCH_FAILED,))
    with pytest.raises(RuntimeFailure, match="MG0604: cuGraphLaunch failed with 719: CUDA_ERROR_LAUNCH_FAILED"):
        own.run(given, "cuda")
    assert_close(own.run(given, "cuda"), want)
    assert len(gpus.made) == 2


def test_faults_are_told_at_the_line_of_the_kernels_source(
    module: LoadedModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Launches that may touch the first byte of their operands only."""
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


def test_a_peer_that_is_lost_is_told(module: LoadedModule, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another rank has aborted: NCCL knows it, and the host asks while it waits."""
    from meshgen.runtime.cuda import execute

    gpus = Gpus(monkeypatch)
    monkeypatch.setattr(execute, "LOOK_SECONDS", 0.0)
    own, given = mg.load(module.members.path), arguments(module)
    own.run(given, "cuda")
    made, launch = gpus.made[0], gpus.made[0].driver.cuGraphLaunch

    def lose(*args: Any) -> Any:
        outcome = launch(*args)
        executor = own._prepared.executor
        assert executor and executor.api is made
        made.comm("ncclCommAbort", executor._comms.world[1])
        return outcome

    monkeypatch.setattr(made.driver, "cuGraphLaunch", lose)
    with pytest.raises(RuntimeFailure, match="MG0609: NCCL lost a peer: remote process exited"):
        own.run(given, "cuda")


def test_unknown_devices_are_refused(module: LoadedModule) -> None:
    with pytest.raises(UsageError, match=r"(?s)MG0001: unknown device 'tpu'.*reference, interpret, emulate, cuda"):
        module.run(arguments(module), "tpu")
