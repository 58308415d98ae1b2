"""Local passes on per-device programs: cases in which exactly one pass fires, and cases in which none does.

Every program runs on all ranks before and after the pass. `x` is a group of four devices, `y` of two; `%p` and `%q`
differ between devices, `%w` and `%c` are replicated.
"""

from __future__ import annotations

import numpy as np
import pytest

from meshgen.ops.types.inference import verify_node
from meshgen.runtime.simulate import simulate
from meshgen.sharding.optimizations.all_gather_sink import all_gather_sink
from meshgen.sharding.optimizations.all_reduce_fold import all_reduce_fold
from meshgen.sharding.optimizations.all_reduce_reassociate import all_reduce_reassociate
from meshgen.sharding.optimizations.all_reduce_sink import all_reduce_sink
from meshgen.sharding.optimizations.cancel_inverse_collectives import cancel_inverse_collectives
from meshgen.sharding.optimizations.gather_slice_to_all_to_all import gather_slice_to_all_to_all
from meshgen.sharding.optimizations.slice_hoist import slice_hoist
from meshgen.sharding.optimizations.walk import total_bytes
from meshgen.sharding.optimize import LOCAL_PASSES
from tests.sharding.local_text import (
    HALVES,
    ONE,
    ZERO,
    Pass,
    a2a,
    ag,
    ar,
    counts,
    cut,
    dot,
    lines,
    op,
    program,
    row_sums,
    rs,
    run,
    transpose_line,
)
from tests.sharding.spmd_programs import RandomSpmd

FIRES: dict[str, tuple[Pass, str, str, dict[str, int]]] = {
    "folder": (all_reduce_fold, lines(ar("%p"), ar("%a", axes="[1]")), "8x12xf32", {"all_reduce": 1}),
    "folder: all of two axes, one of which is sliced": (
        all_reduce_fold, lines(ar("%p", "1024x1024", "[0, 1]"), cut("%a", "1024x1024", "256x1024", 0)), "256x1024xf32", {"reduce_scatter": 1, "all_reduce": 1}),
    "folder: scattered and gathered": (all_reduce_fold, lines(rs("%p", "8x12", "2x12", 0), ag("%a", "2x12", "8x12", 0)), "8x12xf32", {"all_reduce": 1}),
    "folder: a value that all have": (all_reduce_fold, lines(ar("%c"), op("add", "%a", "%p")), "8x12xf32", {}),
    "folder: a maximum of what is reduced": (all_reduce_fold, lines(ar("%p"), op("negate", "%a"), ar("%b", kind="max")), "8x12xf32", {"all_reduce": 1}),
    "reassociate": (all_reduce_reassociate, lines(ar("%p"), ar("%q"), op("add", "%a", "%b")), "8x12xf32", {"all_reduce": 1}),
    "reassociate: axes in another order": (all_reduce_reassociate, lines(ar("%p", axes="[0, 1]"), ar("%q", axes="[1, 0]"), op("add", "%a", "%b")), "8x12xf32", {"all_reduce": 1}),
    "reassociate: through a transpose and a sign": (
        all_reduce_reassociate, lines(ar("%p"), transpose_line("%a", "8x12", "12x8"), op("negate", "%b", size="12x8"), ar("%q", "12x8"), op("subtract", "%d", "%e", size="12x8")), "12x8xf32", {"all_reduce": 1}),
    "reassociate: through a scale": (
        all_reduce_reassociate, HALVES + lines(ar("%p"), op("multiply", "%h", "%a"), ar("%q"), op("add", "%b", "%d")), "8x12xf32", {"all_reduce": 1}),
    "reassociate: a factor that all have": (
        all_reduce_reassociate, lines(ar("%p"), op("multiply", "%a", "%c"), ar("%q"), op("add", "%b", "%d")), "8x12xf32", {"all_reduce": 1}),
    "reassociate: scattered": (
        all_reduce_reassociate, lines(rs("%p", "8x12", "2x12", 0), op("negate", "%a", size="2x12"), rs("%q", "8x12", "2x12", 0), op("add", "%b", "%d", size="2x12")), "2x12xf32", {"reduce_scatter": 1}),
    "reassociate: a choice that all make": (
        all_reduce_reassociate, "  %t = stablehlo.compare GT, %c, %c : (tensor<8x12xf32>, tensor<8x12xf32>) -> tensor<8x12xi1>\n"
        + lines(ar("%p"), ar("%q"), "stablehlo.select %t, %a, %b : tensor<8x12xi1>, tensor<8x12xf32>"), "8x12xf32", {"all_reduce": 1}),
    "sink a reduction below a sum": (all_reduce_sink, ZERO + lines(ar("%p"), row_sums("%a", "8x12", "8")), "8xf32", {"all_reduce": 1}),
    "sink a reduction below a slice": (all_reduce_sink, lines(ar("%p"), "stablehlo.slice %a [0:2, 0:12] : (tensor<8x12xf32>) -> tensor<2x12xf32>"), "2x12xf32", {"all_reduce": 1}),
    "sink a reduction below a dot with what all have": (all_reduce_sink, lines(ar("%p"), dot("%a", "%w", "8x12", "12x4", "8x4")), "8x4xf32", {"all_reduce": 1}),
    "gather below an element-wise op": (all_gather_sink, lines(ag("%p", "8x12", "32x12", 0), ag("%q", "8x12", "32x12", 0), op("add", "%a", "%b", size="32x12")), "32x12xf32", {"all_gather": 1}),
    "gather below what all have": (all_gather_sink, lines(ag("%p", "8x12", "32x12", 0), op("add", "%a", "%c", size="32x12")), "32x12xf32", {"all_gather": 1, "all_slice": 1}),
    "gather below a sum": (all_gather_sink, ZERO + lines(ag("%p", "8x12", "32x12", 0), row_sums("%a", "32x12", "32")), "32xf32", {"all_gather": 1}),
    "gather below a transpose and a sum": (all_gather_sink, ZERO + lines(ag("%p", "8x12", "8x48", 1), transpose_line("%a", "8x48", "48x8"), row_sums("%b", "48x8", "48")), "48xf32", {"all_gather": 1}),
    "gather below a reshape and a slice": (
        all_gather_sink, lines(ag("%p", "8x12", "32x12", 0), "stablehlo.reshape %a : (tensor<32x12xf32>) -> tensor<16x2x12xf32>",
                          "stablehlo.slice %b [0:16, 0:1, 0:12] : (tensor<16x2x12xf32>) -> tensor<16x1x12xf32>"), "16x1x12xf32", {"all_gather": 1}),
    "gather below a dot": (all_gather_sink, lines(ag("%p", "8x12", "32x12", 0), dot("%a", "%w", "32x12", "12x4", "32x4")), "32x4xf32", {"all_gather": 1}),
    "gather of rows that an op takes twice": (
        all_gather_sink, lines(ag("%p", "8x12", "32x12", 0), "stablehlo.concatenate %a, %a, dim = 1 : (tensor<32x12xf32>, tensor<32x12xf32>) -> tensor<32x24xf32>", row_sums("%b", "32x24", "32")).replace("  %a", ZERO + "  %a", 1), "32xf32", {"all_gather": 1}),
    "two gathers joined": (
        all_gather_sink, lines(ag("%p", "8x12", "32x12", 0), ag("%q", "8x12", "32x12", 0), "stablehlo.concatenate %a, %b, dim = 1 : (tensor<32x12xf32>, tensor<32x12xf32>) -> tensor<32x24xf32>"),
        "32x24xf32", {"all_gather": 1}),
    "gather below a reduction over other axes": (all_gather_sink, lines(ag("%p", "8x12", "32x12", 0), ar("%a", "32x12", "[1]")), "32x12xf32", {"all_gather": 1, "all_reduce": 1}),
    "slice above a transpose": (slice_hoist, lines(ar("%p"), transpose_line("%a", "8x12", "12x8"), cut("%b", "12x8", "12x2", 1)), "12x2xf32", {"all_reduce": 1, "all_slice": 1}),
    "slice above a dot": (slice_hoist, lines(dot("%p", "%w", "8x12", "12x4", "8x4"), cut("%a", "8x4", "2x4", 0)), "2x4xf32", {"all_slice": 1}),
    "slice above a reduction over other axes": (slice_hoist, lines(ar("%p", axes="[1]"), cut("%a", "8x12", "2x12", 0)), "2x12xf32", {"all_reduce": 1, "all_slice": 1}),
    "slice above a gather of another dim": (slice_hoist, lines(ag("%p", "8x12", "8x24", 1, "[1]"), cut("%a", "8x24", "2x24", 0)), "2x24xf32", {"all_gather": 1, "all_slice": 1}),
    "gathered and sliced elsewhere": (gather_slice_to_all_to_all, lines(ag("%p", "8x12", "32x12", 0), cut("%a", "32x12", "32x3", 1)), "32x3xf32", {"all_to_all": 1}),
    "canceled": (cancel_inverse_collectives, lines(ag("%p", "8x12", "32x12", 0), cut("%a", "32x12", "8x12", 0)), "8x12xf32", {}),
    "canceled: sliced from what all have": (cancel_inverse_collectives, lines(cut("%c", "8x12", "2x12", 0), ag("%a", "2x12", "8x12", 0)), "8x12xf32", {}),
}  # fmt: skip
SIZES = {"folder: all of two axes, one of which is sliced": {"p": "1024x1024"}, "gather below what all have": {"c": "32x12"},
         "reassociate: through a transpose and a sign": {"q": "12x8"}}  # fmt: skip
FEWER_BYTES = (
    "sink",
    "gather below a",
    "slice above a reduction",
    "slice above a gather",
    "folder: all of",
    "folder: a",
    "canceled",
    "reassociate",
    "gathered",
)


@pytest.mark.parametrize("name", FIRES)
def test_local_pass_rewrites_matching_program(name: str) -> None:
    pass_, body, result, expected_counts = FIRES[name]
    before = program(body, result, **SIZES.get(name, {}))
    after = run(before, pass_, rtol=2**-8 if "bf16" in result else 0.0)
    assert counts(after.graph) == expected_counts
    if name.startswith(FEWER_BYTES) and name != "gather below an element-wise op":
        assert total_bytes(after.graph, after.mesh) < total_bytes(before.graph, before.mesh)
    other_firing_passes = [
        other_pass
        for other_pass in LOCAL_PASSES
        if other_pass is not pass_ and counts(other_pass(before).graph) == expected_counts != counts(before.graph)
    ]
    overlapping_passes = ("collective-combine", "all-gather-sink", "all-reduce-sink")
    assert all(other_pass.name in overlapping_passes for other_pass in other_firing_passes), other_firing_passes


KEPT: dict[str, tuple[Pass, str, str]] = {
    "folder: two kinds": (all_reduce_fold, lines(ar("%p"), ar("%a", axes="[1]", kind="max")), "8x12xf32"),
    "folder: a sum of what is used too": (all_reduce_fold, lines(ar("%p"), ar("%a", axes="[1]"), op("add", "%a", "%b")), "8x12xf32"),
    "folder: devices' own values": (all_reduce_fold, lines(ar("%p", kind="max"), op("add", "%a", "%q"), ar("%b", kind="max")), "8x12xf32"),
    "folder: scattered and gathered along other dims": (all_reduce_fold, lines(rs("%p", "8x12", "2x12", 0), ag("%a", "2x12", "2x48", 1)), "2x48xf32"),
    "folder: two latencies cost more than the bytes": (all_reduce_fold, lines(ar("%p", axes="[0, 1]"), cut("%a", "8x12", "2x12", 0)), "2x12xf32"),
    "reassociate: other axes": (all_reduce_reassociate, lines(ar("%p"), ar("%q", axes="[1]"), op("add", "%a", "%b")), "8x12xf32"),
    "reassociate: another kind": (all_reduce_reassociate, lines(ar("%p", kind="max"), ar("%q", kind="max"), op("add", "%a", "%b")), "8x12xf32"),
    "reassociate: devices' own factors": (all_reduce_reassociate, lines(ar("%p"), op("multiply", "%a", "%q"), ar("%q"), op("add", "%b", "%d")), "8x12xf32"),
    "reassociate: a transpose that is used too": (
        all_reduce_reassociate, lines(ar("%p", "8x8"), transpose_line("%a", "8x8", "8x8"), ar("%q", "8x8"), op("add", "%b", "%d", size="8x8"), op("add", "%b", "%e", size="8x8")), "8x8xf32"),
    "reassociate: devices' own choices": (
        all_reduce_reassociate, "  %t = stablehlo.compare GT, %q, %c : (tensor<8x12xf32>, tensor<8x12xf32>) -> tensor<8x12xi1>\n"
        + lines(ar("%p"), ar("%q"), "stablehlo.select %t, %a, %b : tensor<8x12xi1>, tensor<8x12xf32>"), "8x12xf32"),
    "sink: a sum that starts at 1": (all_reduce_sink, ONE + lines(ar("%p"), row_sums("%a", "8x12", "8")), "8xf32"),
    "sink: a maximum of sums": (all_reduce_sink, ZERO + lines(ar("%p"), row_sums("%a", "8x12", "8", "maximum")), "8xf32"),
    "sink: a dot with devices' own values": (all_reduce_sink, lines(transpose_line("%q", "8x12", "12x8"), ar("%p"), dot("%b", "%a", "8x12", "12x8", "8x8")), "8x8xf32"),
    "sink: a slice of what is used too": (
        all_reduce_sink, lines(ar("%p"), "stablehlo.slice %a [0:4, 0:12] : (tensor<8x12xf32>) -> tensor<4x12xf32>",
                               "stablehlo.concatenate %a, %b, dim = 0 : (tensor<8x12xf32>, tensor<4x12xf32>) -> tensor<12x12xf32>"), "12x12xf32"),
    "sink: into a narrower type": (all_reduce_sink, lines(ar("%p"), "stablehlo.convert %a : (tensor<8x12xf32>) -> tensor<8x12xbf16>"), "8x12xbf16"),
    "gather below devices' own values": (all_gather_sink, ag("%p", "8x12", "32x12", 0).join(["  %a = ", "\n"]) + lines(op("add", "%a", "%q", size="32x12")), "32x12xf32"),
    "gather below devices' own bounds": (
        all_gather_sink, ZERO + lines("stablehlo.reduce(%p init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x12xf32>, tensor<f32>) -> tensor<f32>",
                                 ag("%q", "8x12", "32x12", 0), "stablehlo.clamp %z, %b, %a : (tensor<f32>, tensor<32x12xf32>, tensor<f32>) -> tensor<32x12xf32>"), "32x12xf32"),
    "exchange below devices' own choice": (
        all_gather_sink, ZERO + lines("stablehlo.reduce(%p init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x12xf32>, tensor<f32>) -> tensor<f32>",
                                 "stablehlo.compare GT, %a, %z : (tensor<f32>, tensor<f32>) -> tensor<i1>", a2a("%p"), a2a("%q"),
                                 "stablehlo.select %b, %d, %e : tensor<i1>, tensor<2x48xf32>"), "2x48xf32"),
    "gather below a sum of the gathered rows": (all_gather_sink, ZERO + lines(ag("%p", "8x12", "8x48", 1), row_sums("%a", "8x48", "8")), "8xf32"),
    "gather below a dot with devices' own values": (all_gather_sink, transpose_line("%q", "8x12", "12x8").join(["  %t = ", "\n"]) + lines(ag("%p", "8x12", "32x12", 0), dot("%a", "%t", "32x12", "12x8", "32x8")), "32x8xf32"),
    "gather below a dot that makes more": (all_gather_sink, lines(ag("%p", "8x12", "32x12", 0), dot("%a", "%w", "32x12", "12x24", "32x24")), "32x24xf32"),
    "gather below a dot of the value with itself": (all_gather_sink, lines(ag("%p", "2x12", "8x12", 0), "stablehlo.dot_general %a, %a, contracting_dims = [1] x [1] : (tensor<8x12xf32>, tensor<8x12xf32>) -> tensor<8x8xf32>"), "8x8xf32"),
    "gather of minor rows below a reshape": (all_gather_sink, lines(ag("%p", "8x12", "8x48", 1), "stablehlo.reshape %a : (tensor<8x48xf32>) -> tensor<384xf32>"), "384xf32"),
    "slice above a sum of its rows": (slice_hoist, ZERO + lines(transpose_line("%p", "8x12", "12x8"), "stablehlo.concatenate %a, %a, dim = 0 : (tensor<12x8xf32>, tensor<12x8xf32>) -> tensor<24x8xf32>", cut("%b", "24x8", "6x8", 0)), "6x8xf32"),
    "slice above a reduction over its axes": (slice_hoist, lines(ar("%p"), cut("%a", "8x12", "2x12", 0)), "2x12xf32"),
    "gathered and sliced over other axes": (gather_slice_to_all_to_all, lines(ag("%p", "8x12", "32x12", 0), cut("%a", "32x12", "32x6", 1, "[1]")), "32x6xf32"),
    "gathered, sliced elsewhere and used": (gather_slice_to_all_to_all, lines(ag("%p", "8x12", "32x12", 0), cut("%a", "32x12", "32x3", 1), "stablehlo.concatenate %a, %b, dim = 1 : (tensor<32x12xf32>, tensor<32x3xf32>) -> tensor<32x15xf32>"), "32x15xf32"),
    "sliced from devices' own values and gathered": (cancel_inverse_collectives, lines(cut("%p", "8x12", "2x12", 0), ag("%a", "2x12", "8x12", 0)), "8x12xf32"),
}  # fmt: skip
UNCHANGED_SIZES = {"gather below devices' own values": {"q": "32x12"}, "gather below a dot that makes more": {"w": "12x24"}, "gather below a dot of the value with itself": {"p": "2x12"},
              "reassociate: a transpose that is used too": {"p": "8x8", "q": "8x8"}}  # fmt: skip


@pytest.mark.parametrize("name", KEPT)
def test_local_pass_leaves_other_program_unchanged(name: str) -> None:
    pass_, body, result = KEPT[name]
    before = program(body, result, **UNCHANGED_SIZES.get(name, {}))
    after = run(before, pass_)
    assert [node.op for node in after.graph.nodes] == [node.op for node in before.graph.nodes]


@pytest.mark.parametrize("seed", range(60))
def test_local_passes_keep_exact_results_of_random_programs(seed: int) -> None:
    module = RandomSpmd(seed).module()
    rng = np.random.default_rng(seed)
    args = [rng.integers(-1, 2, kind.sizes).astype(np.float32) for kind in module.in_types]
    expected = simulate(module, args)
    if max(float(np.abs(w, where=np.isfinite(w), out=np.zeros_like(w)).max(initial=0)) for w in expected) > 2**22:
        return  # The numbers are too large to be exact in f32 during all reductions.
    for local_pass in LOCAL_PASSES:
        before, module = module, local_pass(module)
        if module is before:
            continue
        assert not [fault for node in module.graph.nodes for fault in verify_node(node, module.mesh)]
        for got, expected_result in zip(simulate(module, args), expected, strict=True):
            np.testing.assert_array_equal(got, expected_result, err_msg=local_pass.name)
