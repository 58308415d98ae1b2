"""Kernels that are built up to their PTX have the PTX of the whole build."""

from __future__ import annotations

import pytest

from meshgen.codegen.triton_source import kernel_source
from tests.codegen.bodies import ONE, Body, assembled
from tests.emulator.ptx_builds import ptx_of

pytest.importorskip("triton")


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_the_ptx_and_the_launch_are_those_of_the_whole_build(arch: str) -> None:
    b = Body("bf16[96,64]", "bf16[64,96]", name="product")
    body = b.done(b.op("tanh", b.dot(*b.inputs, ((1,), (0,)))))
    source = kernel_source("product", body, ONE, f"cuda:{arch}")
    whole, found = assembled(source, body, arch), ptx_of(source, body, arch)
    assert whole.cubin and not found.cubin
    assert (found.ptx, found.entry, found.shared, found.threads) == (
        whole.ptx,
        whole.entry,
        whole.shared,
        whole.threads,
    )
    assert found.metadata == whole.metadata
