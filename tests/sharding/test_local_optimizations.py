"""Passes on programs written per device: where exactly one fires, with counts before and after, and where it must not.

Every program is run on all ranks before and after. `x` is a group of four devices, `y` of two; `%p`, `%q` are whatever a
device has, `%w` and `%c` are given whole to all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from meshgen.ccl.cost import COMMUNICATIONS
from meshgen.ir.graph import Graph, Module
from meshgen.ir.infer.inference import verify_node
from meshgen.ir.text import parse_text
from meshgen.runtime.simulate import simulate
from meshgen.sharding.optimizations.cancel_pairs import cancel_pairs
from meshgen.sharding.optimizations.decompose_reductions import decompose_reductions
from meshgen.sharding.optimizations.exchange_dims import exchange_dims
from meshgen.sharding.optimizations.fold_reductions import fold_reductions
from meshgen.sharding.optimizations.hoist_invariants import hoist_invariants
from meshgen.sharding.optimizations.hoist_sums import hoist_sums
from meshgen.sharding.optimizations.raise_slices import raise_slices
from meshgen.sharding.optimizations.reassociate import reassociate
from meshgen.sharding.optimizations.rewrite import total_bytes
from meshgen.sharding.optimizations.sink_moves import sink_moves
from meshgen.sharding.optimizations.sink_reductions import sink_reductions
from meshgen.sharding.optimize import LOCAL_PASSES, optimize
from meshgen.spec import P, fit
from tests.sharding.spmd_programs import RandomSpmd

Pass = Callable[[Module], Module]
GIVEN = {"p": "8x12", "q": "8x12", "w": "12x4", "c": "8x12"}  # local types of the arguments; the last two are whole
LOCAL = ("all_slice",)


def program(body: str, result: str, **given: str) -> Module:
    """A program per device; its result is what each device has, one behind the other."""
    kinds = {name: f"tensor<{size}xf32>" for name, size in (GIVEN | given).items()}
    arguments = ", ".join(f"%{name}: {kind}" for name, kind in kinds.items())
    lines = body.strip().splitlines()
    text = "\n".join(["shard.grid @g(shape = 4x2) {axis_names = [\"x\", \"y\"]}", f"func.func @f({arguments}) -> tensor<{result}> {{", *lines,
                      f"  return %r : tensor<{result}>", "}"])  # fmt: skip
    module = parse_text(text)
    ends = [(("x", "y"),) if name in ("p", "q") else ((),) for name in kinds]
    shardings = [fit(P(*end), value.type.rank) for end, value in zip(ends, module.graph.inputs, strict=True)]
    types = [
        value.type.with_shape(size * module.mesh.group_size(axes) for size, axes in zip(value.type.sizes, sharding.dims, strict=True))
        for value, sharding in zip(module.graph.inputs, shardings, strict=True)
    ]  # fmt: skip
    return replace(module, in_types=types, in_shardings=shardings)


def counts(graph: Graph) -> Counter[str]:
    """Collectives, and local slices, those of loops once."""
    found = Counter(node.op for node in graph.nodes if node.op in (*COMMUNICATIONS, *LOCAL))
    return sum((counts(region) for node in graph.nodes for region in node.regions), found)


def run(module: Module, pass_: Pass, rtol: float = 0.0) -> Module:
    """After a pass: well-formed, on every rank the same numbers, no more bytes."""
    after = pass_(module)
    assert not [fault for node in after.graph.nodes for fault in verify_node(node, after.mesh)]
    assert total_bytes(after.graph, after.mesh) <= total_bytes(module.graph, module.mesh)
    args = [
        np.random.default_rng(n).integers(-2, 3, kind.sizes).astype(kind.numpy_dtype)
        for n, kind in enumerate(module.in_types)
    ]
    for left, right in zip(*(simulate(m, args) for m in (module, after)), strict=True):
        np.testing.assert_allclose(left.astype(np.float64), right.astype(np.float64), rtol=rtol, atol=0)
    return after


AR = "shard.all_reduce {} on @g grid_axes = {} : tensor<{}xf32> -> tensor<{}xf32>"


def ar(value: str, size: str = "8x12", axes: str = "[0]", kind: str = "") -> str:
    return f"shard.all_reduce {value} on @g grid_axes = {axes} {f'reduction = {kind} ' if kind else ''}: tensor<{size}xf32> -> tensor<{size}xf32>"


def ag(value: str, size: str, to: str, dim: int, axes: str = "[0]") -> str:
    return f"shard.all_gather {value} on @g grid_axes = {axes} gather_axis = {dim} : tensor<{size}xf32> -> tensor<{to}xf32>"


def cut(value: str, size: str, to: str, dim: int, axes: str = "[0]") -> str:
    return (
        f"shard.all_slice {value} on @g grid_axes = {axes} slice_axis = {dim} : tensor<{size}xf32> -> tensor<{to}xf32>"
    )


def rs(value: str, size: str, to: str, dim: int, axes: str = "[0]") -> str:
    return f"shard.reduce_scatter {value} on @g grid_axes = {axes} scatter_axis = {dim} : tensor<{size}xf32> -> tensor<{to}xf32>"


def op(name: str, *values: str, size: str = "8x12") -> str:
    return f"stablehlo.{name} {', '.join(values)} : tensor<{size}xf32>"


def turn(value: str, size: str, to: str) -> str:
    return f"stablehlo.transpose {value}, dims = [1, 0] : (tensor<{size}xf32>) -> tensor<{to}xf32>"


def row_sums(value: str, size: str, to: str, kind: str = "add", start: str = "0.0") -> str:
    return f"stablehlo.reduce({value} init: %z) applies stablehlo.{kind} across dimensions = [1] : (tensor<{size}xf32>, tensor<f32>) -> tensor<{to}xf32>"


ZERO = "  %z = stablehlo.constant dense<0.0> : tensor<f32>\n"
ONE = ZERO.replace("0.0", "1.0")
HALVES = "  %h = stablehlo.constant dense<0.5> : tensor<8x12xf32>\n"


def lines(*texts: str) -> str:
    """`%a = ...`, `%b = ...`, ..., the last one is the result."""
    names = ["a", "b", "d", "e", "f"][: len(texts) - 1] + ["r"]
    return "\n".join(f"  %{name} = {text}" for name, text in zip(names, texts, strict=True))


def dot(left: str, right: str, size: str, other: str, to: str) -> str:
    return f"stablehlo.dot_general {left}, {right}, contracting_dims = [1] x [0] : (tensor<{size}xf32>, tensor<{other}xf32>) -> tensor<{to}xf32>"


FIRES: dict[str, tuple[Pass, str, str, dict[str, int]]] = {
    "folder": (fold_reductions, lines(ar("%p"), ar("%a", axes="[1]")), "8x12xf32", {"all_reduce": 1}),
    "folder: all of two axes, one of which is sliced": (
        fold_reductions, lines(ar("%p", "1024x4096", "[0, 1]"), cut("%a", "1024x4096", "256x4096", 0)), "256x4096xf32", {"reduce_scatter": 1, "all_reduce": 1}),
    "folder: scattered and gathered": (fold_reductions, lines(rs("%p", "8x12", "2x12", 0), ag("%a", "2x12", "8x12", 0)), "8x12xf32", {"all_reduce": 1}),
    "folder: a value that all have": (fold_reductions, lines(ar("%c"), op("add", "%a", "%p")), "8x12xf32", {}),
    "folder: a maximum of what is reduced": (fold_reductions, lines(ar("%p"), op("negate", "%a"), ar("%b", kind="max")), "8x12xf32", {"all_reduce": 1}),
    "reassociate": (reassociate, lines(ar("%p"), ar("%q"), op("add", "%a", "%b")), "8x12xf32", {"all_reduce": 1}),
    "reassociate: axes in another order": (reassociate, lines(ar("%p", axes="[0, 1]"), ar("%q", axes="[1, 0]"), op("add", "%a", "%b")), "8x12xf32", {"all_reduce": 1}),
    "reassociate: through a transpose and a sign": (
        reassociate, lines(ar("%p"), turn("%a", "8x12", "12x8"), op("negate", "%b", size="12x8"), ar("%q", "12x8"), op("subtract", "%d", "%e", size="12x8")), "12x8xf32", {"all_reduce": 1}),
    "reassociate: through a scale": (
        reassociate, HALVES + lines(ar("%p"), op("multiply", "%h", "%a"), ar("%q"), op("add", "%b", "%d")), "8x12xf32", {"all_reduce": 1}),
    "reassociate: a factor that all have": (
        reassociate, lines(ar("%p"), op("multiply", "%a", "%c"), ar("%q"), op("add", "%b", "%d")), "8x12xf32", {"all_reduce": 1}),
    "reassociate: scattered": (
        reassociate, lines(rs("%p", "8x12", "2x12", 0), op("negate", "%a", size="2x12"), rs("%q", "8x12", "2x12", 0), op("add", "%b", "%d", size="2x12")), "2x12xf32", {"reduce_scatter": 1}),
    "reassociate: a choice that all make": (
        reassociate, "  %t = stablehlo.compare GT, %c, %c : (tensor<8x12xf32>, tensor<8x12xf32>) -> tensor<8x12xi1>\n"
        + lines(ar("%p"), ar("%q"), "stablehlo.select %t, %a, %b : tensor<8x12xi1>, tensor<8x12xf32>"), "8x12xf32", {"all_reduce": 1}),
    "sink a reduction below a sum": (sink_reductions, ZERO + lines(ar("%p"), row_sums("%a", "8x12", "8")), "8xf32", {"all_reduce": 1}),
    "sink a reduction below a slice": (sink_reductions, lines(ar("%p"), "stablehlo.slice %a [0:2, 0:12] : (tensor<8x12xf32>) -> tensor<2x12xf32>"), "2x12xf32", {"all_reduce": 1}),
    "sink a reduction below a dot with what all have": (sink_reductions, lines(ar("%p"), dot("%a", "%w", "8x12", "12x4", "8x4")), "8x4xf32", {"all_reduce": 1}),
    "decompose": (
        decompose_reductions, lines(ar("%p", "1024x4096", "[1]"), op("tanh", "%a", size="1024x4096"), "stablehlo.convert %b : (tensor<1024x4096xf32>) -> tensor<1024x4096xbf16>"),
        "1024x4096xbf16", {"reduce_scatter": 1, "all_gather": 1}),
    "gather below an element-wise op": (sink_moves, lines(ag("%p", "8x12", "32x12", 0), ag("%q", "8x12", "32x12", 0), op("add", "%a", "%b", size="32x12")), "32x12xf32", {"all_gather": 1}),
    "gather below what all have": (sink_moves, lines(ag("%p", "8x12", "32x12", 0), op("add", "%a", "%c", size="32x12")), "32x12xf32", {"all_gather": 1, "all_slice": 1}),
    "gather below a sum": (sink_moves, ZERO + lines(ag("%p", "8x12", "32x12", 0), row_sums("%a", "32x12", "32")), "32xf32", {"all_gather": 1}),
    "gather below a transpose and a sum": (sink_moves, ZERO + lines(ag("%p", "8x12", "8x48", 1), turn("%a", "8x48", "48x8"), row_sums("%b", "48x8", "48")), "48xf32", {"all_gather": 1}),
    "gather below a reshape and a slice": (
        sink_moves, lines(ag("%p", "8x12", "32x12", 0), "stablehlo.reshape %a : (tensor<32x12xf32>) -> tensor<16x2x12xf32>",
                          "stablehlo.slice %b [0:16, 0:1, 0:12] : (tensor<16x2x12xf32>) -> tensor<16x1x12xf32>"), "16x1x12xf32", {"all_gather": 1}),
    "gather below a dot": (sink_moves, lines(ag("%p", "8x12", "32x12", 0), dot("%a", "%w", "32x12", "12x4", "32x4")), "32x4xf32", {"all_gather": 1}),
    "two gathers joined": (
        sink_moves, lines(ag("%p", "8x12", "32x12", 0), ag("%q", "8x12", "32x12", 0), "stablehlo.concatenate %a, %b, dim = 1 : (tensor<32x12xf32>, tensor<32x12xf32>) -> tensor<32x24xf32>"),
        "32x24xf32", {"all_gather": 1}),
    "gather below a reduction over other axes": (sink_moves, lines(ag("%p", "8x12", "32x12", 0), ar("%a", "32x12", "[1]")), "32x12xf32", {"all_gather": 1, "all_reduce": 1}),
    "slice above a transpose": (raise_slices, lines(ar("%p"), turn("%a", "8x12", "12x8"), cut("%b", "12x8", "12x2", 1)), "12x2xf32", {"all_reduce": 1, "all_slice": 1}),
    "slice above a dot": (raise_slices, lines(dot("%p", "%w", "8x12", "12x4", "8x4"), cut("%a", "8x4", "2x4", 0)), "2x4xf32", {"all_slice": 1}),
    "slice above a reduction over other axes": (raise_slices, lines(ar("%p", axes="[1]"), cut("%a", "8x12", "2x12", 0)), "2x12xf32", {"all_reduce": 1, "all_slice": 1}),
    "slice above a gather of another dim": (raise_slices, lines(ag("%p", "8x12", "8x24", 1, "[1]"), cut("%a", "8x24", "2x24", 0)), "2x24xf32", {"all_gather": 1, "all_slice": 1}),
    "gathered and sliced elsewhere": (exchange_dims, lines(ag("%p", "8x12", "32x12", 0), cut("%a", "32x12", "32x3", 1)), "32x3xf32", {"all_to_all": 1}),
    "cancelled": (cancel_pairs, lines(ag("%p", "8x12", "32x12", 0), cut("%a", "32x12", "8x12", 0)), "8x12xf32", {}),
    "cancelled: sliced from what all have": (cancel_pairs, lines(cut("%c", "8x12", "2x12", 0), ag("%a", "2x12", "8x12", 0)), "8x12xf32", {}),
}  # fmt: skip
BIG = {"p": "1024x4096"}
SIZES = {"decompose": BIG, "folder: all of two axes, one of which is sliced": BIG, "gather below what all have": {"c": "32x12"},
         "reassociate: through a transpose and a sign": {"q": "12x8"}}  # fmt: skip
FEWER_BYTES = (
    "sink",
    "decompose",
    "gather below a",
    "slice above a reduction",
    "slice above a gather",
    "folder: all of",
    "folder: a",
    "cancelled",
    "reassociate",
    "gathered",
)


@pytest.mark.parametrize("name", FIRES)
def test_the_pass_fires(name: str) -> None:
    pass_, body, result, wanted = FIRES[name]
    before = program(body, result, **SIZES.get(name, {}))
    after = run(before, pass_, rtol=2**-8 if "bf16" in result else 0.0)
    assert counts(after.graph) == wanted
    if name.startswith(FEWER_BYTES) and name != "gather below an element-wise op":
        assert total_bytes(after.graph, after.mesh) < total_bytes(before.graph, before.mesh)
    others = [
        each
        for each in LOCAL_PASSES
        if each is not pass_ and counts(each(before).graph) == wanted != counts(before.graph)
    ]
    assert all(each.__name__ in ("combine", "sink_moves", "sink_reductions") for each in others), (
        others
    )  # they join as well


KEPT: dict[str, tuple[Pass, str, str]] = {
    "folder: two kinds": (fold_reductions, lines(ar("%p"), ar("%a", axes="[1]", kind="max")), "8x12xf32"),
    "folder: a sum of what is used too": (fold_reductions, lines(ar("%p"), ar("%a", axes="[1]"), op("add", "%a", "%b")), "8x12xf32"),
    "folder: devices' own values": (fold_reductions, lines(ar("%p", kind="max"), op("add", "%a", "%q"), ar("%b", kind="max")), "8x12xf32"),
    "folder: scattered and gathered along other dims": (fold_reductions, lines(rs("%p", "8x12", "2x12", 0), ag("%a", "2x12", "2x48", 1)), "2x48xf32"),
    "folder: two latencies cost more than the bytes": (fold_reductions, lines(ar("%p", axes="[0, 1]"), cut("%a", "8x12", "2x12", 0)), "2x12xf32"),
    "reassociate: other axes": (reassociate, lines(ar("%p"), ar("%q", axes="[1]"), op("add", "%a", "%b")), "8x12xf32"),
    "reassociate: another kind": (reassociate, lines(ar("%p", kind="max"), ar("%q", kind="max"), op("add", "%a", "%b")), "8x12xf32"),
    "reassociate: devices' own factors": (reassociate, lines(ar("%p"), op("multiply", "%a", "%q"), ar("%q"), op("add", "%b", "%d")), "8x12xf32"),
    "reassociate: a transpose that is used too": (
        reassociate, lines(ar("%p", "8x8"), turn("%a", "8x8", "8x8"), ar("%q", "8x8"), op("add", "%b", "%d", size="8x8"), op("add", "%b", "%e", size="8x8")), "8x8xf32"),
    "reassociate: devices' own choices": (
        reassociate, "  %t = stablehlo.compare GT, %q, %c : (tensor<8x12xf32>, tensor<8x12xf32>) -> tensor<8x12xi1>\n"
        + lines(ar("%p"), ar("%q"), "stablehlo.select %t, %a, %b : tensor<8x12xi1>, tensor<8x12xf32>"), "8x12xf32"),
    "sink: a sum that starts at 1": (sink_reductions, ONE + lines(ar("%p"), row_sums("%a", "8x12", "8")), "8xf32"),
    "sink: a maximum of sums": (sink_reductions, ZERO + lines(ar("%p"), row_sums("%a", "8x12", "8", "maximum")), "8xf32"),
    "sink: a dot with devices' own values": (sink_reductions, lines(turn("%q", "8x12", "12x8"), ar("%p"), dot("%b", "%a", "8x12", "12x8", "8x8")), "8x8xf32"),
    "sink: a slice of what is used too": (
        sink_reductions, lines(ar("%p"), "stablehlo.slice %a [0:4, 0:12] : (tensor<8x12xf32>) -> tensor<4x12xf32>",
                               "stablehlo.concatenate %a, %b, dim = 0 : (tensor<8x12xf32>, tensor<4x12xf32>) -> tensor<12x12xf32>"), "12x12xf32"),
    "sink: into a narrower type": (sink_reductions, lines(ar("%p"), "stablehlo.convert %a : (tensor<8x12xf32>) -> tensor<8x12xbf16>"), "8x12xbf16"),
    "decompose: two latencies cost more": (decompose_reductions, lines(ar("%p"), "stablehlo.convert %a : (tensor<8x12xf32>) -> tensor<8x12xbf16>"), "8x12xbf16"),
    "decompose: the wide sum is used too": (
        decompose_reductions, lines(ar("%p", "1024x4096", "[1]"), "stablehlo.convert %a : (tensor<1024x4096xf32>) -> tensor<1024x4096xbf16>",
                                    "stablehlo.convert %b : (tensor<1024x4096xbf16>) -> tensor<1024x4096xf32>", op("add", "%a", "%d", size="1024x4096")), "1024x4096xf32"),
    "gather below devices' own values": (sink_moves, ag("%p", "8x12", "32x12", 0).join(["  %a = ", "\n"]) + lines(op("add", "%a", "%q", size="32x12")), "32x12xf32"),
    "gather below a sum of the gathered rows": (sink_moves, ZERO + lines(ag("%p", "8x12", "8x48", 1), row_sums("%a", "8x48", "8")), "8xf32"),
    "gather below a dot with devices' own values": (sink_moves, turn("%q", "8x12", "12x8").join(["  %t = ", "\n"]) + lines(ag("%p", "8x12", "32x12", 0), dot("%a", "%t", "32x12", "12x8", "32x8")), "32x8xf32"),
    "gather below a dot that makes more": (sink_moves, lines(ag("%p", "8x12", "32x12", 0), dot("%a", "%w", "32x12", "12x24", "32x24")), "32x24xf32"),
    "gather of minor rows below a reshape": (sink_moves, lines(ag("%p", "8x12", "8x48", 1), "stablehlo.reshape %a : (tensor<8x48xf32>) -> tensor<384xf32>"), "384xf32"),
    "slice above a sum of its rows": (raise_slices, ZERO + lines(turn("%p", "8x12", "12x8"), "stablehlo.concatenate %a, %a, dim = 0 : (tensor<12x8xf32>, tensor<12x8xf32>) -> tensor<24x8xf32>", cut("%b", "24x8", "6x8", 0)), "6x8xf32"),
    "slice above a reduction over its axes": (raise_slices, lines(ar("%p"), cut("%a", "8x12", "2x12", 0)), "2x12xf32"),
    "gathered and sliced over other axes": (exchange_dims, lines(ag("%p", "8x12", "32x12", 0), cut("%a", "32x12", "32x6", 1, "[1]")), "32x6xf32"),
    "gathered, sliced elsewhere and used": (exchange_dims, lines(ag("%p", "8x12", "32x12", 0), cut("%a", "32x12", "32x3", 1), "stablehlo.concatenate %a, %b, dim = 1 : (tensor<32x12xf32>, tensor<32x3xf32>) -> tensor<32x15xf32>"), "32x15xf32"),
    "sliced from devices' own values and gathered": (cancel_pairs, lines(cut("%p", "8x12", "2x12", 0), ag("%a", "2x12", "8x12", 0)), "8x12xf32"),
}  # fmt: skip
KEPT_SIZES = {"decompose: the wide sum is used too": BIG, "gather below devices' own values": {"q": "32x12"}, "gather below a dot that makes more": {"w": "12x24"},
              "reassociate: a transpose that is used too": {"p": "8x8", "q": "8x8"}}  # fmt: skip


@pytest.mark.parametrize("name", KEPT)
def test_the_pass_does_not_fire(name: str) -> None:
    pass_, body, result = KEPT[name]
    before = program(body, result, **KEPT_SIZES.get(name, {}))
    after = run(before, pass_)
    assert [node.op for node in after.graph.nodes] == [node.op for node in before.graph.nodes]


LOOP = """
  %i0 = stablehlo.constant dense<0> : tensor<i32>
  %n = stablehlo.constant dense<TRIPS> : tensor<i32>
  %k = stablehlo.constant dense<1> : tensor<i32>
  %l:3 = stablehlo.while(%i = %i0, %s = START, %u = %p) : tensor<i32>, tensor<8x12xf32>, tensor<8x12xf32>
    cond {
      %t = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %t : tensor<i1>
    } do {
      %j = stablehlo.add %i, %k : tensor<i32>
BODY
      stablehlo.return %j, %v, %o : tensor<i32>, tensor<8x12xf32>, tensor<8x12xf32>
    }
  %r = stablehlo.add %l#1, %l#2 : tensor<8x12xf32>
"""
GROW = op("add", "%u", "%u")


def loop(*body: str, trips: int = 3, start: str = "%c") -> Module:
    text = (
        LOOP.replace("TRIPS", str(trips))
        .replace("START", start)
        .replace("BODY", "\n".join(f"      {line}" for line in body))
    )
    return program(text, "8x12xf32")


def in_loops(module: Module) -> Counter[str]:
    return sum((counts(region) for node in module.graph.nodes for region in node.regions), Counter[str]())


INVARIANT = {
    "of what stands around": (f"%v = {ar('%q')}", f"%o = {GROW}"),
    "of what is carried unchanged": (f"%v = {ar('%u')}", f"%o = {op('add', '%u', '%z0')}"),
    "with what leads to it": (f"%a = {op('multiply', '%q', '%c')}", f"%v = {ar('%a')}", f"%o = {GROW}"),
}


@pytest.mark.parametrize("body", [INVARIANT["of what stands around"], INVARIANT["with what leads to it"],
                                  (f"%v = {ar('%u')}", "%o = OLD")], ids=["around", "with what leads to it", "carried unchanged"])  # fmt: skip
def test_a_collective_that_is_the_same_in_every_trip_runs_before_the_loop(body: tuple[str, ...]) -> None:
    if body[-1] == "%o = OLD":
        text = (
            LOOP.replace("TRIPS", "3")
            .replace("START", "%c")
            .replace("BODY", f"      {body[0]}")
            .replace("%j, %v, %o :", "%j, %v, %u :")
        )
        before = program(text, "8x12xf32")
    else:
        before = loop(*body)
    assert in_loops(before) == {"all_reduce": 1}
    after = run(before, hoist_invariants)
    assert counts(after.graph) == {"all_reduce": 1} and not in_loops(after)


@pytest.mark.parametrize(
    ("body", "trips"),
    [((f"%v = {ar('%u')}", f"%o = {GROW}"), 3), ((f"%v = {ar('%q')}", f"%o = {GROW}"), 1), ((f"%a = {op('add', '%q', '%s')}", f"%v = {ar('%a')}", f"%o = {GROW}"), 3)],
    ids=["of what changes", "of a loop that runs once", "of a sum with what changes"],
)  # fmt: skip
def test_a_collective_stays_in_the_loop(body: tuple[str, ...], trips: int) -> None:
    after = run(loop(*body, trips=trips), hoist_invariants)
    assert in_loops(after) == {"all_reduce": 1}


SUMS = {
    "a sum": (f"%a = {ar('%u')}", f"%v = {op('add', '%s', '%a')}", f"%o = {GROW}"),
    "the other way round": (f"%a = {ar('%u')}", f"%v = {op('add', '%a', '%s')}", f"%o = {GROW}"),
    "a difference": (f"%a = {ar('%u')}", f"%v = {op('subtract', '%s', '%a')}", f"%o = {GROW}"),
    "a maximum": (f"%a = {ar('%u', kind='max')}", f"%v = {op('maximum', '%s', '%a')}", f"%o = {GROW}"),
    "two terms": (f"%a = {ar('%u')}", f"%b = {op('add', '%s', '%a')}", f"%d = {ar('%q')}", f"%v = {op('subtract', '%b', '%d')}", f"%o = {GROW}"),
}  # fmt: skip


@pytest.mark.parametrize("name", SUMS)
def test_what_a_loop_adds_up_is_reduced_behind_it(name: str) -> None:
    before = loop(*SUMS[name])
    after = run(before, hoist_sums)
    assert not in_loops(after) and counts(after.graph) == {"all_reduce": 1}


NO_SUMS = {
    "the sum so far is used": (f"%a = {ar('%u')}", f"%v = {op('add', '%s', '%a')}", f"%o = {op('add', '%u', '%s')}"),
    "the sum is used": (f"%a = {ar('%u')}", f"%v = {op('add', '%s', '%a')}", f"%o = {op('add', '%u', '%v')}"),
    "the term is used": (f"%a = {ar('%u')}", f"%v = {op('add', '%s', '%a')}", f"%o = {op('add', '%u', '%a')}"),
    "another kind": (f"%a = {ar('%u', kind='max')}", f"%v = {op('add', '%s', '%a')}", f"%o = {GROW}"),
    "taken off the term": (f"%a = {ar('%u')}", f"%v = {op('subtract', '%a', '%s')}", f"%o = {GROW}"),
    "a term that is not reduced": (f"%a = {ar('%u')}", f"%b = {op('add', '%s', '%a')}", f"%v = {op('add', '%b', '%q')}", f"%o = {GROW}"),
}  # fmt: skip


@pytest.mark.parametrize("name", NO_SUMS)
def test_what_is_no_plain_sum_is_reduced_in_every_trip(name: str) -> None:
    before = loop(*NO_SUMS[name])
    assert counts(run(before, hoist_sums).graph) == in_loops(before) == {"all_reduce": 1}


def test_a_loop_that_runs_once_adds_nothing_up() -> None:
    assert in_loops(run(loop(*SUMS["a sum"], trips=1), hoist_sums)) == {"all_reduce": 1}


def test_a_sum_in_nested_loops_leaves_both() -> None:
    inner = """%y:2 = stablehlo.while(%m = %i0, %b = %s) : tensor<i32>, tensor<8x12xf32>
        cond {
          %c0 = stablehlo.compare LT, %m, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %c0 : tensor<i1>
        } do {
          %m1 = stablehlo.add %m, %k : tensor<i32>
          %a = ALL
          %b1 = stablehlo.add %b, %a : tensor<8x12xf32>
          stablehlo.return %m1, %b1 : tensor<i32>, tensor<8x12xf32>
        }""".replace("ALL", ar("%u"))
    text = LOOP.replace("%v, %o :", "%y#1, %o :")
    body = text.replace("TRIPS", "3").replace("START", "%c").replace("BODY", f"      {inner}\n      %o = {GROW}")
    after = run(program(body, "8x12xf32"), hoist_sums)
    assert not in_loops(after) and counts(after.graph) == {"all_reduce": 1}


def test_tied_gradients_are_reduced_once() -> None:
    """Of an embedding that is looked up and, transposed, multiplied: one gradient by rows, the other by columns."""
    by_rows = "stablehlo.dot_general %p, %q, contracting_dims = [0] x [0] : (tensor<8x12xf32>, tensor<8x12xf32>) -> tensor<12x12xf32>"
    by_columns = by_rows.replace("%p, %q", "%q, %c")
    body = lines(by_rows, ar("%a", "12x12"), by_columns, ar("%d", "12x12"), turn("%e", "12x12", "12x12")).replace(
        "%r", "%g"
    )
    before = program(body + f"\n  %r = {op('add', '%b', '%g', size='12x12')}", "12x12xf32")
    assert counts(before.graph) == {"all_reduce": 2}
    after = run(before, optimize)
    assert counts(after.graph) == {"all_reduce": 1}
    assert total_bytes(after.graph, after.mesh) * 2 == total_bytes(before.graph, before.mesh)


def test_the_list_of_local_passes_holds_each_file() -> None:
    assert {f.__module__.rsplit(".", 1)[1] for f in LOCAL_PASSES} == {f.__name__ for f in LOCAL_PASSES}


@pytest.mark.parametrize("seed", range(60))
def test_each_pass_keeps_random_programs_to_the_last_bit(seed: int) -> None:
    module = RandomSpmd(seed).module()
    rng = np.random.default_rng(seed)
    args = [rng.integers(-1, 2, kind.sizes).astype(np.float32) for kind in module.in_types]
    wanted = simulate(module, args)
    if max(float(np.abs(w, where=np.isfinite(w), out=np.zeros_like(w)).max(initial=0)) for w in wanted) > 2**22:
        return  # not exact in f32
    for pass_ in LOCAL_PASSES:
        module = pass_(module)
        assert not [fault for node in module.graph.nodes for fault in verify_node(node, module.mesh)]
        for got, want in zip(simulate(module, args), wanted, strict=True):
            np.testing.assert_array_equal(got, want, err_msg=pass_.__name__)
