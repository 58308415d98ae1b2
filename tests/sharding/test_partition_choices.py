"""Reductions of several values at once along sharded dims: argmax of each row."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from meshgen.ir.graph import Graph, Node, TensorType, Value
from meshgen.spec import P, Sharding
from tests.sharding.local_programs import Program, ops

F32, I32, TRUTH = (TensorType((), dtype) for dtype in ("f32", "i32", "i1"))


def _first_greatest() -> Graph:
    """Return a reduction body that selects the greater of two elements with its position, or the first of equal ones."""
    body = Graph("body", [Value(F32), Value(I32), Value(F32), Value(I32)])
    a, i, b, j = body.inputs
    greater = body.add("compare", [a, b], [TRUTH], {"direction": "GT", "compare_type": "FLOAT"}).result
    equal = body.add("compare", [a, b], [TRUTH], {"direction": "EQ", "compare_type": "FLOAT"}).result
    before = body.add("compare", [i, j], [TRUTH], {"direction": "LT", "compare_type": "SIGNED"}).result
    first = body.add("and", [equal, before], [TRUTH]).result
    wins = body.add("or", [greater, first], [TRUTH]).result
    body.outputs = [
        body.add("select", [wins, a, b], [F32]).result,
        body.add("select", [wins, i, j], [I32]).result,
    ]
    return body


def _argmax(p: Program, x: Value, dims: tuple[int, ...], spec: Sharding) -> list[Value]:
    positions = p.input(f"i32[{','.join(map(str, x.type.sizes))}]", x.sharding)
    inits = [p.constant(-np.inf, "f32"), p.constant(2**31 - 1, "i32")]
    result_shape = tuple(n for d, n in enumerate(x.type.sizes) if d not in dims)
    results = [Value(TensorType(result_shape, dtype), sharding=spec) for dtype in ("f32", "i32")]
    p.graph.nodes.append(
        Node("reduce_region", [x, positions, *inits], results, {"dims": dims}, regions=(_first_greatest(),))
    )
    return results


@pytest.mark.parametrize("devices", [1, 2, 3, 8])
def test_argmax_over_sharded_rows_returns_first_maximum(devices: int) -> None:
    """The 13 rows are uneven for 2, 3 and 8 devices, 8 devices have an empty tile, and maxima occur more than once."""
    p = Program(x=devices)
    x = p.input("f32[13,5]", P("x"))
    outputs = _argmax(p, x, (0,), Sharding(((),)))
    rows = np.random.default_rng(devices).integers(-3, 0, (13, 5)).astype(np.float32)
    positions = np.broadcast_to(np.arange(13, dtype=np.int32)[:, None], (13, 5))
    greatest, position = p.run([rows, positions], *outputs)
    assert_array_equal(greatest, rows.max(0))
    assert_array_equal(position, rows.argmax(0))


def test_argmax_over_two_sharded_dims_reduces_each() -> None:
    p = Program(x=2, y=3)
    outputs = _argmax(p, p.input("f32[5,7]", P("x", "y")), (0, 1), Sharding(()))
    rows = np.random.default_rng(0).integers(-3, 0, (5, 7)).astype(np.float32)
    greatest, position = p.run([rows, np.arange(35, dtype=np.int32).reshape(5, 7)], *outputs)
    assert (greatest, position) == (rows.max(), rows.argmax())
    assert ops(p.local(*outputs)).count("all_gather") >= 2
