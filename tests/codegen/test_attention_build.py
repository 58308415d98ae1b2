"""Attention kernels compiled for devices that are not there: matrix units, asynchronous copies, and no spills."""

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
def test_long_rows_use_matrix_units_and_spill_nothing(
    sizes: tuple[int, int, int, int, int, int], function: Function, arch: str
) -> None:
    found = built(kernel(sizes, function), arch)
    assert found.instructions[UNITS[arch]] and found.instructions["LDGSTS"]
    assert found.spill_bytes == found.stack_bytes == 0


def test_a_window_of_f32_uses_matrix_units_and_spills_nothing() -> None:
    found = built(kernel((1, 512, 8, 128, 512, 8), WINDOW, "f32"), "sm_90")
    assert found.instructions["HGMMA"] and found.spill_bytes == 0


def test_decoding_has_a_program_per_head_of_the_cache() -> None:
    found = built(kernel((8, 1, 32, 128, 8192, 8), lambda body, scores: scores), "sm_90")
    assert found.instructions["HMMA"] and found.instructions["LDGSTS"] and found.spill_bytes == 0


@pytest.mark.parametrize("sizes, arch", [(LONG, "sm_80"), (LONG, "sm_90"), ((8, 1024, 12, 64, 1024, 12), "sm_90")])
def test_gradients_use_matrix_units_and_spill_nothing(sizes: tuple[int, int, int, int, int, int], arch: str) -> None:
    module = fused(training(Form(sizes), CAUSAL_SCORES))
    bodies = {f"gradient_{i}": body for i, body in enumerate(gradients(module))}
    assert len(bodies) == 2
    _, binaries = build_best(
        bodies, lambda name: kernel_sources(name, bodies[name], module.mesh, f"cuda:{arch}"), [arch]
    )
    for found in binaries.values():
        assert found.instructions[UNITS[arch]] and found.instructions["LDGSTS"]
        assert found.spill_bytes == found.stack_bytes == 0


def test_gradients_of_f32_use_matrix_units_and_spill_nothing() -> None:
    module = fused(training(Form((4, 256, 4, 64, 256, 4), dtype="f32"), CAUSAL_SCORES))
    bodies = {f"gradient_{i}": body for i, body in enumerate(gradients(module))}
    _, binaries = build_best(
        bodies, lambda name: kernel_sources(name, bodies[name], module.mesh, "cuda:sm_90"), ["sm_90"]
    )
    assert len(binaries) == 2
    assert all(found.instructions.get("HMMA") and found.spill_bytes == 0 for found in binaries.values())
