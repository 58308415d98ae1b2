"""Tests of attention kernels compiled for GPUs that are not present: tensor cores, asynchronous copies, and no spills."""

from __future__ import annotations

import pytest
from test_attention import CAUSAL, WINDOW, Form, Function, attention, soft_capped
from test_attention_gradient import CAUSAL as CAUSAL_SCORES
from test_attention_gradient import gradients, training
from test_fuse import fused
from test_triton_source_build import built

from meshgen.codegen.building.candidates import build_best
from meshgen.codegen.triton_source import kernel_sources
from meshgen.ir.graph import Graph


def kernel(sizes: tuple[int, int, int, int, int, int], function: Function, dtype: str = "bf16") -> Graph:
    body, out = attention(Form(sizes, dtype=dtype), function)
    return fused(body.done(out)).kernels["attention"]


UNITS = {"sm_90": "HGMMA", "sm_80": "HMMA"}
LONG = (1, 4096, 32, 128, 4096, 8)


@pytest.mark.parametrize(
    "sizes, function, arch",
    [
        pytest.param(LONG, CAUSAL, "sm_80", id="llama, sm_80"),
        pytest.param(LONG, CAUSAL, "sm_90", id="llama, sm_90"),
        pytest.param((8, 1024, 12, 64, 1024, 12), CAUSAL, "sm_90", id="gpt2"),
        pytest.param((1, 2048, 8, 256, 2048, 8), CAUSAL, "sm_80", id="long rows, sm_80"),
        pytest.param((1, 2048, 8, 256, 2048, 8), CAUSAL, "sm_90", id="long rows, sm_90"),
        pytest.param(LONG, soft_capped, "sm_80", id="soft cap"),
    ],
)
def test_attention_uses_tensor_cores_without_spills(
    sizes: tuple[int, int, int, int, int, int], function: Function, arch: str
) -> None:
    kernel_binary = built(kernel(sizes, function), arch)
    assert kernel_binary.instructions[UNITS[arch]] and kernel_binary.instructions["LDGSTS"]
    assert kernel_binary.spill_bytes == kernel_binary.stack_bytes == 0


def test_f32_windowed_attention_uses_tensor_cores_without_spills() -> None:
    kernel_binary = built(kernel((1, 512, 8, 128, 512, 8), WINDOW, "f32"), "sm_90")
    assert kernel_binary.instructions["HGMMA"] and kernel_binary.spill_bytes == 0


def test_decoding_attention_uses_tensor_cores_without_spills() -> None:
    kernel_binary = built(kernel((8, 1, 32, 128, 8192, 8), lambda body, scores: scores), "sm_90")
    assert (
        kernel_binary.instructions["HMMA"] and kernel_binary.instructions["LDGSTS"] and kernel_binary.spill_bytes == 0
    )


@pytest.mark.parametrize("sizes, arch", [(LONG, "sm_80"), (LONG, "sm_90"), ((8, 1024, 12, 64, 1024, 12), "sm_90")])
def test_attention_gradients_use_tensor_cores_without_spills(
    sizes: tuple[int, int, int, int, int, int], arch: str
) -> None:
    module = fused(training(Form(sizes), CAUSAL_SCORES))
    bodies = {f"gradient_{i}": body for i, body in enumerate(gradients(module))}
    assert len(bodies) == 2
    _, binaries = build_best(
        bodies, lambda name: kernel_sources(name, bodies[name], module.mesh, f"cuda:{arch}"), [arch]
    )
    for binary in binaries.values():
        assert binary.instructions[UNITS[arch]] and binary.instructions["LDGSTS"]
        assert binary.spill_bytes == binary.stack_bytes == 0


def test_f32_attention_gradients_use_tensor_cores_without_spills() -> None:
    module = fused(training(Form((4, 256, 4, 64, 256, 4), dtype="f32"), CAUSAL_SCORES))
    bodies = {f"gradient_{i}": body for i, body in enumerate(gradients(module))}
    _, binaries = build_best(
        bodies, lambda name: kernel_sources(name, bodies[name], module.mesh, "cuda:sm_90"), ["sm_90"]
    )
    assert len(binaries) == 2
    assert all(binary.instructions.get("HMMA") and binary.spill_bytes == 0 for binary in binaries.values())
