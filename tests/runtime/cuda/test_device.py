"""A rank's GPU: what it leaves behind, and kernels that do not fit."""

from __future__ import annotations

import pytest

from meshgen.errors import MissingError
from meshgen.runtime.cuda.api import emulated
from meshgen.runtime.cuda.device import Device
from tests.emulator.rig import ADD_ONE


def test_no_context_is_current_after_a_device_is_closed() -> None:
    """The context is destroyed where nothing else uses it, and a call of CUDA's run time in this thread would fail."""
    api = emulated(1, "sm_90")
    device = Device(api, 0)
    assert int(api.cuda("cuCtxGetCurrent"))
    device.close()
    assert not int(api.cuda("cuCtxGetCurrent"))


def test_a_kernel_with_more_shared_memory_than_the_gpu_has() -> None:
    device = Device(emulated(1, "sm_80"), 0)
    assert device.function(ADD_ONE.encode(), "add_one", 166_912)
    with pytest.raises(
        MissingError, match="takes 200000 bytes of shared memory per block, but GPU 0 has 166912"
    ) as raised:
        device.function(ADD_ONE.encode(), "add_one", 200_000)
    assert raised.value.diagnostics[0].hint == "compile again with --target cuda:sm_80"
