"""Second thoughts of fusion: whatever is dissolved, computed again or pruned, every kernel reads only what is in memory."""

from __future__ import annotations

import numpy as np
import pytest
from bodies import Body, random_args
from test_fuse import agrees, fused, run

from meshgen.codegen.fusion import joins, traffic
from meshgen.ir.graph import Graph, Module, TensorType, Value
from meshgen.ops.evaluate.evaluator import evaluate
from tests.cost_models import use


def reads_only_what_is_made(module: Module) -> None:
    seen = set(module.graph.inputs)
    for node in module.graph.nodes:
        assert all(v in seen for v in node.operands), f"{node.op} reads a value that nothing makes"
        seen.update(node.results)
    assert all(v in seen for v in module.graph.outputs)


def computes_the_same(graph: Graph) -> None:
    module = fused(graph)
    reads_only_what_is_made(module)
    args = random_args(graph)
    for got, want in zip(run(module, args), evaluate(graph, args), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_a_dissolved_value_is_not_read_from_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """`inside` is computed by its readers; what is computed again from it must start from `moved` instead."""
    use(monkeypatch, {"fusion.big_bytes": 512}, traffic)
    b = Body("f32[8,32]", "f32[]", "i1[8,32]", "f32[1,32]", "f32[1,32,8]", "f32[8,8]")
    start, shift, keep, limit, x, w = b.inputs
    moved = b.op("select", keep, b.op("add", start, b.wide(shift, start, ())), start)
    costly = b.op("exponential", moved)
    rows = b.op("slice", moved, start=(2, 0), limit=(3, 32), stride=(1, 1))
    inside = b.op("compare", rows, limit, direction="LE", compare_type="FLOAT")
    chosen = b.op("select", b.wide(inside, x, (0, 1)), x, b.splat(0.0, x))
    scaled = b.op("divide", chosen, b.op("add", b.op("multiply", x, x), b.splat(1.0, x)))
    back = b.dot(b.op("tanh", b.dot(b.op("multiply", scaled, x), w, ((2,), (0,)))), w, ((2,), (1,)))
    total = b.reduce("add", b.op("add", b.op("multiply", back, scaled), x), 0, 1)
    computes_the_same(b.done(costly, total))


def random_readers(seed: int) -> Graph:
    """Values of three sizes that are read through chains of index maps by element-wise ops, sums and dots."""
    rng = np.random.default_rng(seed)
    b = Body("f32[6,8]", "f32[6]", "f32[8,8]", "i32[6]", "f32[6,8,4]")
    rows: list[Value] = [b.inputs[1]]
    wide: list[Value] = [b.inputs[0]]
    deep: list[Value] = [b.inputs[4]]

    def one(values: list[Value]) -> Value:
        return values[int(rng.integers(max(0, len(values) - 5), len(values)))]

    for _ in range(int(rng.integers(8, 26))):
        x, row = one(wide), one(rows)
        match int(rng.integers(13)):
            case 0:
                rows.append(b.op("multiply", row, one(rows)))
            case 1:
                rows.append(
                    b.op(
                        "reverse",
                        b.op("reshape", b.op("slice", x, start=(0, 1), limit=(6, 2), stride=(1, 1)), to="f32[6]"),
                        dims=(0,),
                    )
                )
            case 2:
                rows.append(b.reduce(str(rng.choice(["add", "maximum"])), x, 1))
            case 3 | 4:
                wide.append(b.op("subtract", x, b.wide(row, x, (0,))))
            case 5:
                wide.append(b.op("add", x, one(wide)))
            case 6:
                wide.append(b.dot(x, b.inputs[2], ((1,), (0,))))
            case 7:
                less = b.op("compare", row, one(rows), direction="LT", compare_type="FLOAT")
                wide.append(b.op("select", b.wide(less, x, (0,)), x, one(wide)))
            case 8:
                deep.append(b.op("multiply", one(deep), b.wide(x, deep[0], (0, 1))))
            case 9:
                wide.append(b.reduce("add", one(deep), 2))
            case 11:
                end = b.op("slice", x, start=(0, 7), limit=(6, 8), stride=(1, 1))
                wide.append(b.op("add", b.op("multiply", b.wide(end, x, (0, 1)), x), b.wide(row, x, (0,))))
            case 10:
                cut = b.op("slice", x, start=(2, 0), limit=(5, 8), stride=(1, 1))
                wide.append(b.op("concatenate", cut, b.op("multiply", cut, cut), dim=0))
            case _:
                turned = b.op("reshape", b.op("transpose", x, perm=(1, 0)), to="f32[6,8]")
                wide.append(b.op("negate", turned))
    return b.done(wide[-1], rows[-1], deep[-1])


@pytest.mark.parametrize("small", [2, 16])
def test_random_readers(small: int, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, {"fusion.big_bytes": 1, "fusion.tiny_bytes": 1, "fusion.smaller": small}, traffic)
    for seed in [*range(60), 1354]:
        computes_the_same(random_readers(seed))


def looked_up(rows: int, columns: int) -> Graph:
    """Rows of a table at indices that are made safe first, and zeros where they were not: both need the indices."""
    b = Body(f"f32[64,{columns}]", f"i32[{rows}]")
    table, index = b.inputs
    wrapped = b.op("select", b.op("compare", index, b.splat(0, index), direction="LT", compare_type="SIGNED"),
                   b.op("add", index, b.splat(64, index)), index)  # fmt: skip
    above = b.op("compare", wrapped, b.splat(0, index), direction="GE", compare_type="SIGNED")
    below = b.op("compare", wrapped, b.splat(63, index), direction="LE", compare_type="SIGNED")
    valid = b.op("and", above, below)
    safe = b.op("minimum", b.op("maximum", wrapped, b.splat(0, index)), b.splat(63, index))
    attrs = {"offset_dims": (1,), "collapsed_slice_dims": (0,), "operand_batching_dims": (),
             "start_indices_batching_dims": (), "start_index_map": (0,), "index_vector_dim": 1,
             "slice_sizes": (1, columns)}  # fmt: skip
    column = b.op("reshape", safe, to=f"i32[{rows},1]")
    found = b.graph.add("gather", [table, column], [TensorType((rows, columns), "f32")], attrs).result
    summed = b.graph.add("all_reduce", [found], [found.type], {"axes": ("x",), "kind": "sum"}).result
    return b.done(b.op("select", b.wide(valid, summed, (0,)), summed, b.splat(0.0, summed)))


@pytest.mark.parametrize("columns, kernels", [(512, 2), (16, 3)])
def test_a_small_table_is_computed_again_where_readers_wait_for_memory(columns: int, kernels: int) -> None:
    """With few columns for each row, computing the row's index for each of them would take longer than reading it."""
    module = fused(looked_up(2048, columns))
    assert sum(n.op == "kernel" for n in module.graph.nodes) == kernels


def turned() -> Graph:
    """A function of a value with its rows in reverse, and one of it with its columns in reverse."""
    b = Body("f32[16,8]")
    (x,) = b.inputs
    return b.done(b.op("tanh", b.op("reverse", x, dims=(0,))), b.op("exponential", b.op("reverse", x, dims=(1,))))


def test_small_kernels_that_read_the_same_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    computes_the_same(turned())
    assert len(fused(turned()).kernels) == 1
    use(monkeypatch, {"fusion.sibling_bytes": 2 * 16 * 8 * 4 - 1}, joins)
    assert len(fused(turned()).kernels) == 2


def test_kernels_one_of_which_needs_the_other_stay_apart() -> None:
    b = Body("f32[8,8]", "f32[8,8]")
    x, w = b.inputs
    early = b.op("tanh", b.op("reverse", x, dims=(0,)))
    product = b.dot(early, w, ((1,), (0,)))
    total = b.reduce("add", product, 0, 1)
    late = b.op("add", b.op("exponential", b.op("reverse", x, dims=(1,))), b.wide(total, x, ()))
    computes_the_same(b.done(early, late))
    assert len(fused(b.graph).graph.nodes) >= 3


def summed_over_devices(*, narrow: int) -> Graph:
    """Rows `a + b + c ... - m` whose sum is reduced over devices before they are scaled by it; `narrow` terms have a byte each.

    The rows take 2048 bytes, `a` as many, `b` half of that, each narrow one a quarter, and the maximum `m` of each row an eighth.
    """
    b = Body("f32[64,8]", "bf16[64,8]", *["i8[64,8]"] * narrow)
    a, half, *bytes_ = b.inputs
    most = b.reduce("maximum", a, 1)
    rows = b.op("subtract", b.op("add", a, b.op("convert", half, to="f32[64,8]")), b.wide(most, a, (0,)))
    for term in bytes_:
        rows = b.op("add", rows, b.op("convert", term, to="f32[64,8]"))
    total = b.reduce("add", rows, 1)
    total = b.graph.add("all_reduce", [total], [total.type], {"axes": ("x",), "kind": "sum"}).result
    return b.done(b.op("multiply", rows, b.wide(total, rows, (0,))))


@pytest.mark.parametrize(("narrow", "is_written"), [(0, False), (1, True), (2, True)])
def test_rows_are_computed_again_where_that_moves_fewer_bytes_than_to_write_and_read_them(
    narrow: int, is_written: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one narrow term 2048 + 1024 + 512 bytes are read again, and 256 of `m` written and read: as many as of the rows."""
    use(monkeypatch, {"fusion.big_bytes": 1, "fusion.tiny_bytes": 1, "fusion.smaller": 8}, traffic)
    graph = summed_over_devices(narrow=narrow)
    module = agrees(graph)
    first, *_ = (node for node in module.graph.nodes if node.op == "kernel")
    assert (graph.outputs[0].type in [value.type for value in first.results]) == is_written
