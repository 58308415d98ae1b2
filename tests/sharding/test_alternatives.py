"""Slices of a fused projection move to its weight when that is cheaper, and only then."""

from __future__ import annotations

import numpy as np

from meshgen.ir.evaluate import evaluate
from meshgen.ir.graph import Annotation, Graph, Module, TensorType, Value
from meshgen.mesh import make_mesh
from meshgen.sharding.alternatives import alternatives
from meshgen.sharding.propagate import propagate
from meshgen.spec import P

DOT = {"lhs_batch": (), "rhs_batch": (), "lhs_contract": (1,), "rhs_contract": (0,), "precision": ()}


def fused(rows: int, spec: tuple[str | None, str | None]) -> Module:
    """Two halves of x @ w, multiplied."""
    graph = Graph("main", [Value(TensorType((rows, 16), "f32"), "x"), Value(TensorType((16, 64), "f32"), "w")])
    both = graph.add("dot_general", graph.inputs, [TensorType((rows, 64), "f32")], DOT).result
    half = TensorType((rows, 32), "f32")
    cuts = [{"start": (0, c), "limit": (rows, c + 32), "stride": (1, 1)} for c in (0, 32)]
    parts = [graph.add("slice", [both], [half], cut).result for cut in cuts]
    graph.outputs = [graph.add("multiply", parts, [half]).result]
    return Module(
        make_mesh({"x": 4}),
        graph,
        in_annotations=[Annotation(P(None, None)), Annotation(P(*spec))],
        out_annotations=[Annotation(P(None, "x"))],
    )


def test_the_moved_program_computes_the_same() -> None:
    module = fused(8, (None, "x"))
    (other,) = alternatives(module)
    rng = np.random.default_rng(0)
    args = [rng.standard_normal(v.type.sizes).astype(np.float32) for v in module.graph.inputs]
    for left, right in zip(evaluate(module.graph, args), evaluate(other.graph, args), strict=True):
        np.testing.assert_allclose(left, right, rtol=0, atol=16 * 2.0**-23 * float(np.abs(left).max()))


def test_slices_move_to_a_small_weight() -> None:
    assert [n.op for n in propagate(fused(4096, (None, "x"))).graph.nodes].count("dot_general") == 2


def test_slices_stay_where_nothing_is_saved() -> None:
    module = fused(4096, (None, None))
    module.in_annotations[0] = module.out_annotations[0] = Annotation(P("x", None))
    assert [n.op for n in propagate(module).graph.nodes].count("dot_general") == 1


def test_a_dot_with_another_user_stays() -> None:
    module = fused(8, (None, "x"))
    module.graph.outputs.append(module.graph.nodes[0].result)
    module.out_annotations.append(None)
    assert alternatives(module) == []
