"""Collectives in loops: loop-invariant collectives, and sums that a loop accumulates."""

from __future__ import annotations

from collections import Counter

import pytest

from meshgen.ir.graph import Module
from meshgen.sharding.optimizations.collective_licm import collective_licm
from meshgen.sharding.optimizations.loop_reduce_hoist import loop_reduce_hoist
from meshgen.sharding.optimizations.walk import total_bytes
from meshgen.sharding.optimize import optimize
from tests.sharding.local_text import (
    ar,
    counts,
    lines,
    op,
    program,
    rs,
    run,
    transpose_line,
)

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
def test_loop_invariant_collective_is_hoisted(body: tuple[str, ...]) -> None:
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
    after = run(before, collective_licm)
    assert counts(after.graph) == {"all_reduce": 1} and not in_loops(after)


def test_hoisted_collectives_become_loop_operands_in_program_order() -> None:
    """Check twelve hoisted collectives: their order must not depend on the memory addresses of the values."""
    sums = [f"%a{n} = {ar('%q')}" for n in range(12)]
    added = [f"%b{n} = {op('add', f'%a{n}', f'%b{n - 1}' if n else '%s')}" for n in range(12)]
    after = collective_licm(loop(*sums, *added, f"%v = {op('add', '%b11', '%u')}", f"%o = {GROW}"))
    hoisted = [node.result for node in after.graph.nodes if node.op == "all_reduce"]
    (loop_node,) = (node for node in after.graph.nodes if node.op == "while")
    assert len(hoisted) == 12 and loop_node.operands[-12:] == hoisted


@pytest.mark.parametrize(
    ("body", "trips"),
    [((f"%v = {ar('%u')}", f"%o = {GROW}"), 3), ((f"%v = {ar('%q')}", f"%o = {GROW}"), 1), ((f"%a = {op('add', '%q', '%s')}", f"%v = {ar('%a')}", f"%o = {GROW}"), 3)],
    ids=["of what changes", "of a loop that runs once", "of a sum with what changes"],
)  # fmt: skip
def test_loop_variant_collective_is_not_hoisted(body: tuple[str, ...], trips: int) -> None:
    after = run(loop(*body, trips=trips), collective_licm)
    assert in_loops(after) == {"all_reduce": 1}


ACCUMULATED = {
    "a sum": (f"%a = {ar('%u')}", f"%v = {op('add', '%s', '%a')}", f"%o = {GROW}"),
    "the other way round": (f"%a = {ar('%u')}", f"%v = {op('add', '%a', '%s')}", f"%o = {GROW}"),
    "a difference": (f"%a = {ar('%u')}", f"%v = {op('subtract', '%s', '%a')}", f"%o = {GROW}"),
    "a maximum": (f"%a = {ar('%u', kind='max')}", f"%v = {op('maximum', '%s', '%a')}", f"%o = {GROW}"),
    "two terms": (f"%a = {ar('%u')}", f"%b = {op('add', '%s', '%a')}", f"%d = {ar('%q')}", f"%v = {op('subtract', '%b', '%d')}", f"%o = {GROW}"),
}  # fmt: skip


@pytest.mark.parametrize("name", ACCUMULATED)
def test_accumulated_sum_is_reduced_after_loop(name: str) -> None:
    before = loop(*ACCUMULATED[name])
    after = run(before, loop_reduce_hoist)
    assert not in_loops(after) and counts(after.graph) == {"all_reduce": 1}


NOT_ACCUMULATED = {
    "the sum so far is used": (f"%a = {ar('%u')}", f"%v = {op('add', '%s', '%a')}", f"%o = {op('add', '%u', '%s')}"),
    "the sum is used": (f"%a = {ar('%u')}", f"%v = {op('add', '%s', '%a')}", f"%o = {op('add', '%u', '%v')}"),
    "the term is used": (f"%a = {ar('%u')}", f"%v = {op('add', '%s', '%a')}", f"%o = {op('add', '%u', '%a')}"),
    "another kind": (f"%a = {ar('%u', kind='max')}", f"%v = {op('add', '%s', '%a')}", f"%o = {GROW}"),
    "taken off the term": (f"%a = {ar('%u')}", f"%v = {op('subtract', '%a', '%s')}", f"%o = {GROW}"),
    "a term that is not reduced": (f"%a = {ar('%u')}", f"%b = {op('add', '%s', '%a')}", f"%v = {op('add', '%b', '%q')}", f"%o = {GROW}"),
}  # fmt: skip


@pytest.mark.parametrize("name", NOT_ACCUMULATED)
def test_all_reduce_of_used_or_mixed_sum_stays_in_loop(name: str) -> None:
    before = loop(*NOT_ACCUMULATED[name])
    assert counts(run(before, loop_reduce_hoist).graph) == in_loops(before) == {"all_reduce": 1}


def test_all_reduce_stays_in_loop_with_one_iteration() -> None:
    assert in_loops(run(loop(*ACCUMULATED["a sum"], trips=1), loop_reduce_hoist)) == {"all_reduce": 1}


def test_accumulated_sum_is_reduced_after_nested_loops() -> None:
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
    after = run(program(body, "8x12xf32"), loop_reduce_hoist)
    assert not in_loops(after) and counts(after.graph) == {"all_reduce": 1}


def scatter_loop(*body: str) -> Module:
    """Return a program whose loop accumulates reduce-scattered tiles. `body` are the statements of the loop body."""
    text = (
        LOOP.replace("TRIPS", "3").replace("START", "%b0").replace("BODY", "\n".join(f"      {line}" for line in body))
    )
    text = text.replace(
        "tensor<i32>, tensor<8x12xf32>, tensor<8x12xf32>", "tensor<i32>, tensor<2x12xf32>, tensor<8x12xf32>"
    )
    begin = "  %b0 = stablehlo.constant dense<2.0> : tensor<2x12xf32>\n"
    return program(begin + text.replace("%l#1, %l#2 : tensor<8x12xf32>", "%l#1, %l#1 : tensor<2x12xf32>"), "2x12xf32")


TILES = {
    "as they are": (f"%a = {rs('%u', '8x12', '2x12', 0)}",),
    "turned": (f"%h = {transpose_line('%u', '8x12', '12x8')}", f"%d = {rs('%h', '12x8', '12x2', 1)}", f"%a = {transpose_line('%d', '12x2', '2x12')}"),
}  # fmt: skip


@pytest.mark.parametrize("tiles", TILES)
def test_accumulated_tiles_are_reduce_scattered_after_loop(tiles: str) -> None:
    before = scatter_loop(*TILES[tiles], f"%v = {op('add', '%s', '%a', size='2x12')}", f"%o = {GROW}")
    after = run(before, loop_reduce_hoist)
    assert in_loops(before) == counts(after.graph) == {"reduce_scatter": 1} and not in_loops(after)


def test_reduce_scatter_stays_in_loop_to_save_memory() -> None:
    wide = "stablehlo.broadcast_in_dim %u, dims = [0, 1] : (tensor<8x12xf32>) -> tensor<8x12x99xf32>"
    sums = "stablehlo.reduce(%e init: %z0) applies stablehlo.add across dimensions = [2] : (tensor<2x12x99xf32>, tensor<f32>) -> tensor<2x12xf32>"
    body = [
        f"%a = {rs('%w0', '8x12x99', '2x12x99', 0)}",
        f"%v = {op('add', '%s', '%a', size='2x12x99')}",
        f"%o = {GROW}",
    ]
    text = (
        LOOP.replace("TRIPS", "3")
        .replace("START", "%b0")
        .replace("BODY", "\n".join(f"      {line}" for line in [f"%w0 = {wide}", *body]))
    )
    text = text.replace(
        "tensor<i32>, tensor<8x12xf32>, tensor<8x12xf32>", "tensor<i32>, tensor<2x12x99xf32>, tensor<8x12xf32>"
    )
    text = text.replace("%r = stablehlo.add %l#1, %l#2 : tensor<8x12xf32>", f"%r = {sums.replace('%e', '%l#1')}")
    begin = "  %z0 = stablehlo.constant dense<0.0> : tensor<f32>\n  %b0 = stablehlo.constant dense<2.0> : tensor<2x12x99xf32>\n"
    before = program(begin + text, "2x12xf32")
    assert in_loops(run(before, loop_reduce_hoist)) == {"reduce_scatter": 1}


def test_tied_gradients_are_reduced_once() -> None:
    """Check an embedding that is used in a lookup and, transposed, in a matmul.

    One of its two gradients is transposed before both are added; one all_reduce of the sum is enough.
    """
    by_rows = "stablehlo.dot_general %p, %q, contracting_dims = [0] x [0] : (tensor<8x12xf32>, tensor<8x12xf32>) -> tensor<12x12xf32>"
    by_columns = by_rows.replace("%p, %q", "%q, %c")
    body = lines(
        by_rows, ar("%a", "12x12"), by_columns, ar("%d", "12x12"), transpose_line("%e", "12x12", "12x12")
    ).replace("%r", "%g")
    before = program(body + f"\n  %r = {op('add', '%b', '%g', size='12x12')}", "12x12xf32")
    assert counts(before.graph) == {"all_reduce": 2}
    after = run(before, optimize)
    assert counts(after.graph) == {"all_reduce": 1}
    assert total_bytes(after.graph, after.mesh) * 2 == total_bytes(before.graph, before.mesh)
