"""Test that PTX-only builds of kernels have the same PTX and launch parameters as full builds."""

from __future__ import annotations

import pytest

from meshgen.codegen.triton_source import kernel_source
from tests.codegen.bodies import ONE, Body, assembled
from tests.emulator.ptx_builds import ptx_of

pytest.importorskip("triton")


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_ptx_only_build_matches_full_build(arch: str) -> None:
    b = Body("bf16[96,64]", "bf16[64,96]", name="product")
    body = b.done(b.op("tanh", b.dot(*b.inputs, ((1,), (0,)))))
    source = kernel_source("product", body, ONE, f"cuda:{arch}")
    full_build, ptx_build = assembled(source, body, arch), ptx_of(source, body, arch)
    assert full_build.cubin and not ptx_build.cubin
    assert (ptx_build.ptx, ptx_build.entry, ptx_build.shared, ptx_build.threads) == (
        full_build.ptx,
        full_build.entry,
        full_build.shared,
        full_build.threads,
    )
    assert ptx_build.metadata == full_build.metadata
