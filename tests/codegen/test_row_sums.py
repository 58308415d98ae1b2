"""Tests of norm gradients: one kernel computes the input gradient and partial sums of weight gradients."""

from __future__ import annotations

import numpy as np
import pytest
from bodies import ONE, candidate_tiles, check, random_args
from norms import Norm
from test_attention_gradient import args_of
from test_fuse import fused, launches, run

from meshgen.codegen.building.candidates import build_best
from meshgen.codegen.emit.row_sums import ROW_SUMS
from meshgen.codegen.emit.templates import plan_body
from meshgen.codegen.roofline.kernel_time import device_of, kernel_bytes
from meshgen.codegen.triton_source import kernel_sources
from meshgen.ir.graph import Graph, Module
from meshgen.ops.evaluate.evaluator import evaluate
from meshgen.runtime.in_place import overwrites


def summing(module: Module) -> list[Graph]:
    """Return the kernels that both reduce rows and sum over rows."""
    bodies = [module.kernels[name] for name in launches(module)]
    return [body for body in bodies if plan_body(body, device_of("sm_90")).template is ROW_SUMS]


@pytest.mark.parametrize(
    "sizes, dtype, is_centered",
    [((512, 128), "f32", True), ((2, 512, 128), "bf16", True), ((3, 192, 120), "f32", False), ((1, 1024, 1, 129), "bf16", False)],
)  # fmt: skip
def test_norm_gradient_reads_the_rows_once(
    sizes: tuple[int, ...], dtype: str, is_centered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MESHGEN_BOTH", "1")
    graph = Norm(sizes, dtype).gradients(is_centered)
    module, args = fused(graph), random_args(graph)
    rows = int(np.prod(sizes[:-1]))
    unit = {"bf16": 2.0**-8, "f32": 2.0**-24}[dtype] + rows * 2.0**-24
    for got, want in zip(run(module, args), evaluate(graph, args), strict=True):
        wide = np.asarray(want, np.float64)
        np.testing.assert_allclose(np.asarray(got, np.float64), wide, rtol=0, atol=4 * unit * np.abs(wide).max())
    (body,) = summing(module)
    assert len(launches(module)) == (3 if is_centered else 2), launches(module)
    source = check(body, args=args_of(module, body, args), ulps=16, length=rows if dtype == "f32" else 2**16)
    assert source.text.count("tl.load(") == 4, "each operand is loaded once"
    partial = [v for v in body.outputs if v.type.size < graph.inputs[0].type.size]
    assert [v.type.dtype for v in partial] == ["f32"] * (1 + is_centered)
    assert sum(v.type.nbytes for v in partial) < graph.inputs[0].type.nbytes
    assert kernel_bytes(body) == sum(v.type.nbytes for v in (*body.inputs, *body.outputs))
    (residual_index,) = (index for index, value in enumerate(body.inputs) if value.name == "x3")
    assert [body.outputs[n].type for n in overwrites(body)[residual_index]] == [graph.inputs[3].type]


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
@pytest.mark.parametrize("size, dtype", [(8192, "f32"), (4096, "bf16")])
def test_norm_gradient_keeps_long_rows_in_registers(size: int, dtype: str, arch: str) -> None:
    (body,) = summing(fused(Norm((4, 2048, size), dtype).gradients(True)))
    _, built = build_best({"k": body}, lambda name: kernel_sources(name, body, ONE, f"cuda:{arch}"), [arch])
    assert built["k", arch].spill_bytes == 0


def test_user_of_a_row_sum_is_in_another_kernel() -> None:
    b = Norm((512, 256), "f32")
    graph = b.gradients(False)
    dw = graph.outputs[1]
    graph.outputs = [*graph.outputs, b.op("add", graph.inputs[0], b.wide(dw, graph.inputs[0], (1,)))]
    module, args = fused(graph), random_args(graph)
    assert len(summing(module)) == 1
    for got, want in zip(run(module, args), evaluate(graph, args), strict=True):
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-3)


def test_norm_gradient_candidates_have_distinct_tiles() -> None:
    (body,) = summing(fused(Norm((2, 512, 128), "bf16").gradients(True)))
    assert len(candidate_tiles(body)) > 1
