"""Tests of generated kernels compiled for GPUs that are not present: their machine instructions and resources."""

from __future__ import annotations

import pytest
from bodies import ONE, Body
from test_triton_source_reductions import layer_norm, softmax

from meshgen.codegen.building.build import BuiltKernel, build_kernels, request_of
from meshgen.codegen.triton_source import kernel_source
from meshgen.ir.graph import Graph


def built(body: Graph, arch: str) -> BuiltKernel:
    source = kernel_source("kernel", body, ONE, f"cuda:{arch}")
    return build_kernels([request_of("kernel", source, body)], [arch], workers=1)["kernel", arch]


def product(m: int, k: int, n: int) -> Graph:
    b = Body(f"bf16[{m},{k}]", f"bf16[{k},{n}]", f"bf16[{n}]")
    x, w, bias = b.inputs
    y = b.dot(x, w, ((1,), (0,)))
    return b.done(b.op("tanh", b.op("add", y, b.wide(bias, y, (1,)))))


@pytest.mark.parametrize("m", [4096, 512])
def test_bf16_gemms_use_tensor_cores_and_tma(m: int) -> None:
    kernel = built(product(m, 1024, m), "sm_90")
    assert kernel.instructions["HGMMA"] and kernel.instructions["UTMALDG"]
    assert kernel.spill_bytes == kernel.stack_bytes == 0


def test_sm_80_gemm_uses_tensor_cores_and_cp_async() -> None:
    kernel = built(product(4096, 1024, 4096), "sm_80")
    assert kernel.instructions["HMMA"] and kernel.instructions["LDGSTS"]
    assert kernel.spill_bytes == 0


def test_row_kernels_do_not_spill() -> None:
    norm = built(layer_norm("4,256", 4096, "bf16"), "sm_90")
    assert norm.spill_bytes == 0 and norm.regs <= 64
    assert built(softmax((64, 16384), "f32", 1), "sm_90").spill_bytes == 0
