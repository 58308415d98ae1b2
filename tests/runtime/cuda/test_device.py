"""A rank's GPU: what it leaves behind, and kernels that do not fit."""

from __future__ import annotations

import pytest

from meshgen.errors import MissingError, RuntimeFailure
from meshgen.runtime.cuda import device as devices
from meshgen.runtime.cuda.api import NOT_READY, emulated
from meshgen.runtime.cuda.device import Device
from tests.emulator.rig import ADD_ONE


def test_no_context_is_current_after_a_device_is_closed() -> None:
    """The context is destroyed where nothing else uses it, and a call of CUDA's run time in this thread would fail."""
    api = emulated(1, "sm_90")
    device = Device(api, 0)
    assert int(api.cuda("cuCtxGetCurrent"))
    device.close()
    assert not int(api.cuda("cuCtxGetCurrent"))


def test_an_abandoned_device_has_no_memory() -> None:
    api = emulated(1, "sm_90")
    device = Device(api, 0)
    device.allocate(64, "some")
    device.event("one")
    device.abandon()
    assert api.machine and api.machine.memory.live == () and not int(api.cuda("cuCtxGetCurrent"))


def test_a_device_that_does_not_come_to_an_end_keeps_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """To free it would wait for ever."""
    api = emulated(1, "sm_90")
    device = Device(api, 0)
    device.allocate(64, "some")
    monkeypatch.setattr(devices, "GRACE_SECONDS", 0.01)
    monkeypatch.setattr(type(api.driver), "cuStreamQuery", lambda *_: (NOT_READY,))
    monkeypatch.setattr(type(api), "is_stuck", False)  # as real devices, of which that is not known
    device.abandon()
    assert api.machine and len(api.machine.memory.live) == 1


def test_a_device_that_has_failed_is_abandoned() -> None:
    """Every call fails then, and none of them is told."""
    api = emulated(1, "sm_90")
    device = Device(api, 0)
    device.allocate(64, "some")
    with pytest.raises(RuntimeFailure, match="MG0608"):
        device.copy(1 << 50, 1 << 51, 8, device.streams[0])
        api.cuda("cuStreamSynchronize", device.streams[0])
    device.abandon()


def test_a_kernel_with_more_shared_memory_than_the_gpu_has() -> None:
    device = Device(emulated(1, "sm_80"), 0)
    assert device.function(ADD_ONE.encode(), "add_one", 166_912)
    with pytest.raises(MissingError, match="takes 200 kB of shared memory per block, but GPU 0 has 167 kB") as raised:
        device.function(ADD_ONE.encode(), "add_one", 200_000)
    assert raised.value.diagnostics[0].hint == "compile again with --target cuda:sm_80"
