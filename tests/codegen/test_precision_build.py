"""Tests of f32 GEMMs compiled for GPUs that are not present: the arithmetic units that each precision selects."""

from __future__ import annotations

import pytest
from bodies import Body
from test_attention import CAUSAL
from test_attention_build import kernel
from test_triton_source_build import built

from meshgen.codegen.building.built_kernel import BuiltKernel
from meshgen.ir.graph import Graph, Module
from meshgen.mesh import make_mesh
from meshgen.ops.precision import with_precision

UNITS = {"sm_80": "HMMA", "sm_90": "HGMMA"}
ARCHS = list(UNITS)
WORDS = {"NN": ((1,), (0,)), "NT": ((1,), (1,)), "TN": ((0,), (0,))}


def at(precision: str, graph: Graph) -> Graph:
    return with_precision(Module(make_mesh({"x": 1}), graph), precision).graph


def product(layout: str = "NN", m: int = 4096, n: int = 4096, k: int = 4096, right: str = "f32") -> Graph:
    shapes = (k, m) if layout[0] == "T" else (m, k), (n, k) if layout[1] == "T" else (k, n)
    left, right_sizes = (f"{rows},{columns}" for rows, columns in shapes)
    b = Body(f"f32[{left}]", f"{right}[{right_sizes}]", f"f32[{n}]")
    x, w, bias = b.inputs
    y = b.dot(x, w, WORDS[layout], dtype="f32")
    return b.done(b.op("add", y, b.wide(bias, y, (1,))))


def convolution(m: int = 64, features: int = 128) -> Graph:
    b = Body(f"f32[32,{m},{m},{features}]", f"f32[3,3,{features},{features}]")
    attrs = {
        "window_strides": (1, 1), "low": (1, 1), "high": (1, 1), "lhs_dilation": (1, 1), "rhs_dilation": (1, 1),
        "window_reversal": (False, False), "input_batch": 0, "input_feature": 3, "input_spatial": (1, 2),
        "kernel_input_feature": 2, "kernel_output_feature": 3, "kernel_spatial": (0, 1), "output_batch": 0,
        "output_feature": 3, "output_spatial": (1, 2), "feature_group_count": 1, "batch_group_count": 1,
    }  # fmt: skip
    return b.done(b.op("convolution", *b.inputs, to=f"f32[32,{m},{m},{features}]", **attrs))


def is_on_tensor_cores(kernel_binary: BuiltKernel, arch: str) -> bool:
    return kernel_binary.instructions.get(UNITS[arch], 0) > 0 and kernel_binary.instructions.get("FFMA", 0) == 0


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("layout", list(WORDS))
def test_default_precision_gemms_use_tf32_tensor_cores(layout: str, arch: str) -> None:
    kernel_binary = built(product(layout), arch)
    assert (
        is_on_tensor_cores(kernel_binary, arch)
        and kernel_binary.instructions["LDGSTS"]
        and kernel_binary.spill_bytes == 0
    )
    assert b".tf32.tf32" in kernel_binary.ptx


@pytest.mark.parametrize("arch", ARCHS)
def test_gemms_of_few_rows_use_tensor_cores(arch: str) -> None:
    kernel_binary = built(product(m=16), arch)
    assert (
        is_on_tensor_cores(kernel_binary, arch)
        and "FFMA" not in kernel_binary.instructions
        and kernel_binary.spill_bytes == 0
    )


@pytest.mark.parametrize("arch", ARCHS)
def test_high_precision_gemm_uses_three_tf32_mmas(arch: str) -> None:
    """Check that each operand is split into a high and a low TF32 part, so a tile takes three times the MMAs."""
    kernel_binary = built(at("high", product()), arch)
    assert is_on_tensor_cores(kernel_binary, arch) and kernel_binary.spill_bytes == 0
    assert b"cvt.rna.tf32.f32" in kernel_binary.ptx and kernel_binary.instructions[UNITS[arch]] % 3 == 0


@pytest.mark.parametrize(
    "body, arch",
    [
        (product(), "sm_80"),
        (product("TN", m=64), "sm_90"),
        (convolution(), "sm_80"),
        (product(right="bf16"), "sm_90"),
    ],
)
def test_highest_precision_gemm_uses_f32_fma(body: Graph, arch: str) -> None:
    """Check FMA instructions. Tiles are the same for all architectures."""
    kernel_binary = built(at("highest", body), arch)
    assert (
        kernel_binary.instructions["FFMA"] > 100
        and UNITS[arch] not in kernel_binary.instructions
        and b"tf32" not in kernel_binary.ptx
    )
    assert "HMMA" not in kernel_binary.instructions and kernel_binary.spill_bytes == 0


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("right", ["bf16", "f16"])
def test_mixed_dtype_gemms_use_tensor_cores(right: str, arch: str) -> None:
    kernel_binary = built(product(right=right), arch)
    assert is_on_tensor_cores(kernel_binary, arch) and kernel_binary.spill_bytes == 0


@pytest.mark.parametrize("arch", ARCHS)
def test_convolutions_use_tensor_cores(arch: str) -> None:
    kernel_binary = built(convolution(), arch)
    assert is_on_tensor_cores(kernel_binary, arch) and kernel_binary.spill_bytes == 0


@pytest.mark.parametrize("width, arch", [(64, "sm_90"), (128, "sm_80"), (256, "sm_80")])
def test_f32_attention_uses_tensor_cores(width: int, arch: str) -> None:
    kernel_binary = built(kernel((1, 1024, 16, width, 1024, 16), CAUSAL, "f32"), arch)
    assert kernel_binary.instructions[UNITS[arch]] and kernel_binary.spill_bytes == 0
    assert kernel_binary.instructions.get("FFMA", 0) < 64  # only the exponentials use FMA instructions


@pytest.mark.parametrize(
    "precision, width, arch",
    [("high", 64, "sm_80"), ("high", 64, "sm_90"), ("high", 128, "sm_90"), ("highest", 64, "sm_90"), ("highest", 128, "sm_80")],
)  # fmt: skip
def test_attention_units_follow_the_precision(precision: str, width: int, arch: str) -> None:
    kernel_binary = built(at(precision, kernel((1, 1024, 16, width, 1024, 16), CAUSAL, "f32")), arch)
    units = {"HMMA", "HGMMA"} & set(kernel_binary.instructions)
    assert bool(units) == (precision == "high") and kernel_binary.spill_bytes == 0
