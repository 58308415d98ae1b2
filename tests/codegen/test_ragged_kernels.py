"""Tests of ragged matmul kernels: results on the emulated GPU and in the interpreter, and the compiled instructions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from bodies import ONE, Body, check, emulated, launch, random_args

from meshgen.codegen.building.candidates import build_best
from meshgen.codegen.fuse import fuse
from meshgen.codegen.product_fusion import product_fusion
from meshgen.codegen.roofline.kernel_time import kernel_seconds
from meshgen.codegen.scheduling.donation import hoist_donated_reads
from meshgen.codegen.triton_source import KernelSource, kernel_source, kernel_sources
from meshgen.ir.graph import Graph, Module
from meshgen.ops.evaluate.evaluator import evaluate
from meshgen.ops.flops import graph_flops

GROUPS = {
    "none is a multiple of a tile": (3, 70, 1, 90, 36),
    "empty ones": (0, 100, 0, 0, 100),
    "one takes all": (0, 0, 200, 0, 0),
    "rows of no group": (20, 30, 0, 7, 40),
}
SOME_ROWS = GROUPS[
    "rows of no group"
]  # also interpreted: groups that share tiles, an empty group, and rows of no group


def ragged(contracts: bool, rows: int, width: int, columns: int, groups: int, dtype: str = "bf16", *,
           epilogue: bool = False, right: bool = False) -> Graph:  # fmt: skip
    """Return a ragged matmul of [rows, width] by [groups, width, columns], or by [rows, columns] if `contracts`.

    `right` transposes the matrices.
    """
    shape = (
        f"{rows},{columns}" if contracts else f"{groups},{columns},{width}" if right else f"{groups},{width},{columns}"
    )
    body = Body(f"{dtype}[{rows},{width}]", f"{dtype}[{shape}]", f"i32[{groups}]", f"i32[{groups}]", name="ragged")
    x, w, starts, ends = body.inputs
    if right:
        w = body.op("transpose", w, perm=(0, 2, 1))
    wide = "i32" if dtype == "i8" else dtype
    result = f"{wide}[{groups},{width},{columns}]" if contracts else f"{wide}[{rows},{columns}]"
    out = body.op("ragged_dot", x, w, starts, ends, to=result, contracts=contracts)
    return body.done(body.op("tanh", out) if epilogue else out)


def gated(rows: int, width: int, columns: int, groups: int, dtype: str = "bf16", *, same: bool = True) -> Graph:
    """Return tanh(x gate) (x up) by the matrices of each row's group. `up` has other groups unless `same`."""
    matrices, bounds = f"{dtype}[{groups},{width},{columns}]", f"i32[{groups}]"
    body = Body(f"{dtype}[{rows},{width}]", matrices, matrices, *[bounds] * (2 if same else 4), name="gated")
    x, gate, up, *ends = body.inputs
    sides = [
        body.op("ragged_dot", x, w, *group_ends, to=f"{dtype}[{rows},{columns}]", contracts=False)
        for w, group_ends in ((gate, ends[:2]), (up, ends[-2:]))
    ]
    return body.done(body.op("multiply", body.op("tanh", sides[0]), sides[1]))


def with_groups(body: Graph, sizes: Sequence[int]) -> list[np.ndarray[Any, Any]]:
    ends = np.cumsum(sizes).astype(np.int32)
    return [*random_args(body)[:-2], ends - np.array(sizes, np.int32), ends]


def agree(body: Graph, source: KernelSource, args: Sequence[np.ndarray[Any, Any]], *, interpreted: bool = True) -> None:
    (expected,) = evaluate(body, args)
    tolerance = 2.0**-7 if expected.dtype.itemsize == 2 else 2.0**-9  # tf32
    scale = np.abs(expected.astype(np.float64)).max()
    for run in (emulated, *([launch] if interpreted else [])):
        (result,) = run(source, body, args)
        np.testing.assert_allclose(
            result.astype(np.float64), expected.astype(np.float64), atol=tolerance * scale, rtol=0
        )


@pytest.mark.parametrize("sizes", GROUPS.values(), ids=GROUPS)
@pytest.mark.parametrize("contracts", [False, True])
def test_ragged_matmul_matches_reference_for_all_group_sizes(contracts: bool, sizes: tuple[int, ...]) -> None:
    body = ragged(contracts, 200, 40, 72, 5)
    agree(body, kernel_source("ragged", body, ONE), with_groups(body, sizes), interpreted=sizes == SOME_ROWS)


@pytest.mark.parametrize("sizes", GROUPS.values(), ids=GROUPS)
@pytest.mark.parametrize("width, right", [(520, False), (512, True)])
@pytest.mark.usefixtures("two_multiprocessors")
def test_ragged_matmul_loads_group_rows_by_tma(width: int, right: bool, sizes: tuple[int, ...]) -> None:
    """Check TMA tiles that extend past a group: rows of other groups read as zeros."""
    body = ragged(False, 200, width, 136, 5, right=right)
    source = kernel_source("ragged", body, ONE)
    assert source.text.count("make_tensor_descriptor") == 2
    agree(body, source, with_groups(body, sizes), interpreted=sizes == SOME_ROWS)


@pytest.mark.usefixtures("two_multiprocessors")
def test_contracting_ragged_matmul_loads_rows_by_tma() -> None:
    body = ragged(True, 600, 72, 136, 5)
    source = kernel_source("ragged", body, ONE)
    assert source.text.count("make_tensor_descriptor") == 2
    agree(body, source, with_groups(body, (130, 0, 3, 450, 10)))


@pytest.mark.parametrize("contracts", [False, True])
@pytest.mark.parametrize("dtype", ["f32", "i8", "f64"])
def test_ragged_matmul_matches_reference_for_other_dtypes(dtype: str, contracts: bool) -> None:
    body = ragged(contracts, 70, 24, 40, 3, dtype, epilogue=dtype != "i8")
    check(body, args=with_groups(body, (30, 0, 25)), length=30)


def test_ragged_matmul_masks_computed_left_operand() -> None:
    """Check a left operand that the kernel computes. Its rows outside of the group need masks, since no load zeroes
    them.
    """
    body = Body("bf16[90,40]", "bf16[3,40,24]", "i32[3]", "i32[3]", name="ragged")
    x, w, starts, ends = body.inputs
    rows = body.op("add", x, body.splat(1, x))
    graph = body.done(body.op("ragged_dot", rows, w, starts, ends, to="bf16[90,24]", contracts=False))
    agree(graph, kernel_source("ragged", graph, ONE), with_groups(graph, (30, 7, 25)))


def test_ragged_matmul_uses_64_bit_indices_for_large_weights() -> None:
    """Check that indices into weights of 5 x 65536 x 8192 elements are 64-bit."""
    text = kernel_source("ragged", ragged(False, 256, 65536, 8192, 5), ONE).text
    assert "make_tensor_descriptor" in text and "group = tl.minimum(tl.maximum(group, 0), 4).to(tl.int64)" in text


@pytest.mark.parametrize("arch, units", [("sm_80", {"HMMA", "LDGSTS"}), ("sm_100", {"UTCHMMA", "UTMALDG"})])
@pytest.mark.parametrize("contracts", [False, True])
def test_large_ragged_matmuls_use_tensor_cores_without_spills(arch: str, units: set[str], contracts: bool) -> None:
    """Check sm_80 and sm_100; `test_dot_instructions` covers sm_90."""
    body = ragged(contracts, 8192, 4096, 14336, 8, epilogue=True)
    _, binaries = build_best({"ragged": body}, lambda name: kernel_sources(name, body, ONE, f"cuda:{arch}"), [arch])
    (built,) = binaries.values()
    assert units <= {*built.instructions} and built.spill_bytes == built.stack_bytes == 0


@pytest.mark.parametrize("sizes", GROUPS.values(), ids=GROUPS)
@pytest.mark.parametrize("dtype, width", [("bf16", 520), ("f16", 40)])
def test_gated_experts_share_a_main_loop(dtype: str, width: int, sizes: tuple[int, ...]) -> None:
    body = gated(200, width, 136, 5, dtype)
    source = kernel_source("gated", body, ONE)
    assert source.text.count("for start in") == source.text.count("for group in") == 1
    assert source.text.count("tl.dot") == 2 and source.text.count("make_tensor_descriptor") == (
        3 if width >= 512 else 0
    )
    agree(body, source, with_groups(body, sizes), interpreted=sizes == SOME_ROWS)


def test_gated_experts_of_equal_groups_share_a_launch() -> None:
    """Check that gated experts of equal groups are joined, and that this is predicted to be faster."""
    for same in (True, False):
        module = hoist_donated_reads(fuse(Module(ONE, gated(4096, 1024, 2048, 8, same=same), "partition")))
        after = product_fusion(module)
        assert [len(module.kernels), len(after.kernels)] == [2, 1 if same else 2]
        seconds = [
            sum(kernel_seconds(body, "cuda:sm_90") for body in program.kernels.values()) for program in (module, after)
        ]
        assert seconds[1] < seconds[0] or not same


def test_large_gated_experts_have_several_candidate_tiles() -> None:
    sources = kernel_sources("gated", gated(8192, 4096, 14336, 8), ONE, "cuda:sm_90")
    assert len({(source.tile["m"], source.tile["n"]) for source in sources}) > 2


def test_ragged_matmul_cost_does_not_depend_on_group_count() -> None:
    one_group, eight_groups = (ragged(False, 8192, 4096, 14336, groups) for groups in (1, 8))
    assert graph_flops(eight_groups) == graph_flops(one_group) == 2 * 8192 * 4096 * 14336
    assert kernel_seconds(eight_groups, "cuda:sm_90") < 1.2 * kernel_seconds(one_group, "cuda:sm_90")
