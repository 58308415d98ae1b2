"""Recognition of the log-sum-exp of each row of scores, which becomes a result of the attention op.

before   %m = reduce maximum %s    %t = reduce add %e    %l = add %m, (log %t)    ...    return %o, %l
after    %o, %l = attention ...
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from meshgen.codegen.attention.layouts import Layouts
from meshgen.codegen.attention.recognition import Attention, upstream
from meshgen.codegen.attention.scalar_regions import Elements, Region, UnformedError
from meshgen.codegen.attention.users import Uses
from meshgen.codegen.fusion.layout_indices import Index, forward
from meshgen.ir.graph import Value
from meshgen.ops.classes import POINTWISE
from meshgen.ops.evaluate.evaluator import evaluate

_ARRANGING = ("transpose", "reshape")
_MOST_VALUES = 16  # most values between the reductions and the log-sum-exp. Chosen: bounds the search
# (maximum, sum) pairs of a row, with which the candidate function is tested
_TRIED = ((0.5, 1.0), (-3.0, 1.5), (7.0, 40.0), (-0.25, 1e4))
_NEAR = 1e-5  # relative tolerance in f32. Chosen: ten times the rounding error of a logarithm and a sum


def log_sums(attention: Attention, placed: Mapping[Value, Index], uses: Uses) -> dict[Value, Index] | None:
    """Return the values that users outside the attention compute as the log-sum-exp of each row, with their indices.

    Returns:
        None if an outside node uses any other value of the attention.
    """
    indices: dict[Value, Index] = {}
    inside = [value for node in attention.members - {attention.product} for value in node.results]
    seen, stack = set(inside), [(value, placed[value]) for value in inside if value in placed]
    while stack:
        value, index = stack.pop()
        if value in uses.outputs or len(seen) > len(inside) + _MOST_VALUES:
            return None
        for node in uses.of(value):
            if node in attention.members or seen.issuperset(node.results):
                continue
            place = index if node.op in POINTWISE else forward(node, index, ()) if node.op in _ARRANGING else None
            if place is None or node.option is not None:
                return None
            seen.add(node.result)
            if _is_log_sum(node.result, place, attention, placed, uses):
                indices[node.result] = place
            else:
                stack.append((node.result, place))
    place = uses.graph.index.positions
    last = place[attention.product.result]
    readers = (node for value in indices for node in uses.of(value))
    return indices if all(place[node.results[0]] > last for node in readers) else None


def _is_log_sum(value: Value, index: Index, attention: Attention, placed: Mapping[Value, Index], uses: Uses) -> bool:
    """Whether `value` at `index` is the logarithm of the row's sum of exponentials, plus the row's maximum."""
    rows = [attention.maximum.result, attention.total.result]
    between, _ = upstream(value, lambda node: node in (attention.maximum, attention.total), uses.producer)
    inside = attention.members.union(between)
    region = Region(Elements(Layouts(uses.producer)), {v: placed[v] for v in rows}, inside)
    try:
        graph = region.close(region.element(value, index))
    except UnformedError:
        return False
    if len(graph.inputs) != len(rows) or value.type.dtype != "f32":
        return False
    dtypes = [argument.type.numpy_dtype for argument in graph.inputs]
    computed = [float(evaluate(graph, [np.array(x, dtype) for x, dtype in zip(pair, dtypes, strict=True)])[0]) for pair in _TRIED]  # fmt: skip
    return np.allclose(computed, [high + np.log(total) for high, total in _TRIED], rtol=_NEAR, atol=_NEAR)
