"""Tests of the revision of fusion groups (dissolve, recompute, prune): kernels read only stored values."""

from __future__ import annotations

import numpy as np
import pytest
from bodies import Body, random_args
from test_fuse import check_fused, fused, run

from meshgen.codegen.fusion import group_merging as joins
from meshgen.codegen.fusion import traffic
from meshgen.ir.graph import Graph, Module, TensorType, Value
from meshgen.ops.evaluate.evaluator import evaluate
from tests.cost_models import use


def check_reads_are_stored(module: Module) -> None:
    defined = set(module.graph.inputs)
    for node in module.graph.nodes:
        assert all(v in defined for v in node.operands), f"{node.op} reads a value that is not stored"
        defined.update(node.results)
    assert all(v in defined for v in module.graph.outputs)


def check_fused_results(graph: Graph) -> None:
    module = fused(graph)
    check_reads_are_stored(module)
    args = random_args(graph)
    for got, want in zip(run(module, args), evaluate(graph, args), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_recomputation_does_not_read_dissolved_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that a recomputed chain of ops starts from `moved`, which is stored.

    `inside` is not stored, because each of its users computes it.
    """
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
    check_fused_results(b.done(costly, total))


def random_index_map_graph(seed: int) -> Graph:
    """Return a random graph of values of three shapes, read through index maps by element-wise ops, sums and dots."""
    rng = np.random.default_rng(seed)
    b = Body("f32[6,8]", "f32[6]", "f32[8,8]", "i32[6]", "f32[6,8,4]")
    rows: list[Value] = [b.inputs[1]]
    wide: list[Value] = [b.inputs[0]]
    deep: list[Value] = [b.inputs[4]]

    def recent(values: list[Value]) -> Value:
        return values[int(rng.integers(max(0, len(values) - 5), len(values)))]

    for _ in range(int(rng.integers(8, 26))):
        x, row = recent(wide), recent(rows)
        match int(rng.integers(13)):
            case 0:
                rows.append(b.op("multiply", row, recent(rows)))
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
                wide.append(b.op("add", x, recent(wide)))
            case 6:
                wide.append(b.dot(x, b.inputs[2], ((1,), (0,))))
            case 7:
                less = b.op("compare", row, recent(rows), direction="LT", compare_type="FLOAT")
                wide.append(b.op("select", b.wide(less, x, (0,)), x, recent(wide)))
            case 8:
                deep.append(b.op("multiply", recent(deep), b.wide(x, deep[0], (0, 1))))
            case 9:
                wide.append(b.reduce("add", recent(deep), 2))
            case 11:
                end = b.op("slice", x, start=(0, 7), limit=(6, 8), stride=(1, 1))
                wide.append(b.op("add", b.op("multiply", b.wide(end, x, (0, 1)), x), b.wide(row, x, (0,))))
            case 10:
                window = b.op("slice", x, start=(2, 0), limit=(5, 8), stride=(1, 1))
                wide.append(b.op("concatenate", window, b.op("multiply", window, window), dim=0))
            case _:
                transposed = b.op("reshape", b.op("transpose", x, perm=(1, 0)), to="f32[6,8]")
                wide.append(b.op("negate", transposed))
    return b.done(wide[-1], rows[-1], deep[-1])


@pytest.mark.parametrize("small", [2, 16])
def test_random_fusion_revisions_match_reference(small: int, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, {"fusion.big_bytes": 1, "fusion.tiny_bytes": 1, "fusion.smaller": small}, traffic)
    for seed in [*range(60), 1354]:
        check_fused_results(random_index_map_graph(seed))


def looked_up(rows: int, columns: int) -> Graph:
    """Look up rows at clamped indices, and replace the rows of invalid indices by zeros.

    Both the lookup and the replacement read the indices after negative ones are wrapped.
    """
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
    gathered = b.graph.add("gather", [table, column], [TensorType((rows, columns), "f32")], attrs).result
    summed = b.graph.add("all_reduce", [gathered], [gathered.type], {"axes": ("x",), "kind": "sum"}).result
    return b.done(b.op("select", b.wide(valid, summed, (0,)), summed, b.splat(0.0, summed)))


@pytest.mark.parametrize("columns, kernels", [(512, 2), (16, 3)])
def test_small_table_is_recomputed_in_memory_bound_users(columns: int, kernels: int) -> None:
    """Check that the last kernel recomputes the wrapped index of a row if rows have 512 columns.

    If rows have only 16 columns, a separate kernel stores the indices: reading them is then faster.
    """
    module = fused(looked_up(2048, columns))
    assert sum(n.op == "kernel" for n in module.graph.nodes) == kernels


def turned() -> Graph:
    """Return a function of a value with its rows reversed, and a function of it with its columns reversed."""
    b = Body("f32[16,8]")
    (x,) = b.inputs
    return b.done(b.op("tanh", b.op("reverse", x, dims=(0,))), b.op("exponential", b.op("reverse", x, dims=(1,))))


def test_small_kernels_with_shared_operands_are_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    check_fused_results(turned())
    assert len(fused(turned()).kernels) == 1
    use(monkeypatch, {"fusion.sibling_bytes": 2 * 16 * 8 * 4 - 1}, joins)
    assert len(fused(turned()).kernels) == 2


def test_small_dependent_kernels_are_not_joined() -> None:
    b = Body("f32[8,8]", "f32[8,8]")
    x, w = b.inputs
    early = b.op("tanh", b.op("reverse", x, dims=(0,)))
    product = b.dot(early, w, ((1,), (0,)))
    total = b.reduce("add", product, 0, 1)
    late = b.op("add", b.op("exponential", b.op("reverse", x, dims=(1,))), b.wide(total, x, ()))
    check_fused_results(b.done(early, late))
    assert len(fused(b.graph).graph.nodes) >= 3


def summed_over_devices(*, narrow: int) -> Graph:
    """Return rows `a + b + c ... - m` scaled by their all-reduced sum. The `narrow` last terms have one byte per
    element.

    The rows take 2048 bytes, as does `a`. The term `b` takes half of that, each narrow term a quarter, and the row
    maximum `m` an eighth.
    """
    b = Body("f32[64,8]", "bf16[64,8]", *["i8[64,8]"] * narrow)
    a, half, *bytes_ = b.inputs
    maximum = b.reduce("maximum", a, 1)
    rows = b.op("subtract", b.op("add", a, b.op("convert", half, to="f32[64,8]")), b.wide(maximum, a, (0,)))
    for term in bytes_:
        rows = b.op("add", rows, b.op("convert", term, to="f32[64,8]"))
    total = b.reduce("add", rows, 1)
    total = b.graph.add("all_reduce", [total], [total.type], {"axes": ("x",), "kind": "sum"}).result
    return b.done(b.op("multiply", rows, b.wide(total, rows, (0,))))


@pytest.mark.parametrize(("narrow", "is_written"), [(0, False), (1, True), (2, True)])
def test_rows_are_recomputed_if_that_moves_fewer_bytes(
    narrow: int, is_written: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that rows are stored if recomputing them does not move fewer bytes.

    With one narrow term, both ways move 4096 bytes. Storing writes and reads the 2048 bytes of the rows. Recomputing
    reads 2048 + 1024 + 512 bytes of the terms, and writes and reads the 256 bytes of `m`.
    """
    use(monkeypatch, {"fusion.big_bytes": 1, "fusion.tiny_bytes": 1, "fusion.smaller": 8}, traffic)
    graph = summed_over_devices(narrow=narrow)
    module = check_fused(graph)
    first, *_ = (node for node in module.graph.nodes if node.op == "kernel")
    assert (graph.outputs[0].type in [value.type for value in first.results]) == is_written
