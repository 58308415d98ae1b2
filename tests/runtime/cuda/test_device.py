"""Tests of a rank's GPU: cleanup after use, failure and abandonment, and kernels that exceed its shared memory."""

from __future__ import annotations

import pytest

from meshgen.errors import MissingError, RuntimeFailure
from meshgen.runtime.cuda import device as devices
from meshgen.runtime.cuda.api import NOT_READY, emulated
from meshgen.runtime.cuda.device import Device
from tests.emulator.rig import ADD_ONE


def test_device_close_leaves_no_current_context() -> None:
    """`close` destroys the context. If it stayed current, later calls of the CUDA runtime in this thread would fail."""
    api = emulated(1, "sm_90")
    device = Device(api, 0)
    assert int(api.cuda("cuCtxGetCurrent"))
    device.close()
    assert not int(api.cuda("cuCtxGetCurrent"))


def test_abandoned_device_frees_its_memory() -> None:
    api = emulated(1, "sm_90")
    device = Device(api, 0)
    device.allocate(64, "some")
    device.event("one")
    device.abandon()
    assert api.machine and api.machine.memory.live == () and not int(api.cuda("cuCtxGetCurrent"))


def test_abandoned_hung_device_keeps_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Freeing would block until the hung kernel ends."""
    api = emulated(1, "sm_90")
    device = Device(api, 0)
    device.allocate(64, "some")
    monkeypatch.setattr(devices, "GRACE_SECONDS", 0.01)
    monkeypatch.setattr(type(api.driver), "cuStreamQuery", lambda *_: (NOT_READY,))
    monkeypatch.setattr(type(api), "is_stuck", False)  # real devices cannot tell whether they are stuck
    device.abandon()
    assert api.machine and len(api.machine.memory.live) == 1


def test_failed_device_can_be_abandoned() -> None:
    """Every driver call on a failed device fails, but `abandon` raises no error."""
    api = emulated(1, "sm_90")
    device = Device(api, 0)
    device.allocate(64, "some")
    with pytest.raises(RuntimeFailure, match="MG0608"):
        device.copy(1 << 50, 1 << 51, 8, device.streams[0])
        api.cuda("cuStreamSynchronize", device.streams[0])
    device.abandon()


def test_kernel_with_too_much_shared_memory_is_rejected() -> None:
    device = Device(emulated(1, "sm_80"), 0)
    assert device.function(ADD_ONE.encode(), "add_one", 166_912)
    with pytest.raises(MissingError, match="takes 200 kB of shared memory per block, but GPU 0 has 167 kB") as raised:
        device.function(ADD_ONE.encode(), "add_one", 200_000)
    assert raised.value.diagnostics[0].hint == "compile again with --target cuda:sm_80"
