"""Range analysis for non-negative integers, such as the number of rows per expert, whose running totals ascend.

%n = scatter add %zeros, %experts, %ones            rows per expert: from 0 to the number of rows
%e = reduce_window add %n {window = all before}     end of each expert's rows: ascending
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from meshgen.ir.graph import Node, Value, is_float
from meshgen.ir.matchers import Producer
from meshgen.ir.predicates import is_constant
from meshgen.ops.evaluate.common import integer_range
from meshgen.ops.evaluate.window import fold_kind

_STEPS = 32  # Maximum length of a chain of producers. Chosen: a histogram takes ten.
_EXACT = {"f32": 1 << 24, "f64": 1 << 53}  # float type -> bound below which the type represents every integer
_PARTS = {"broadcast_in_dim", "reshape", "transpose", "slice", "reverse", "concatenate", "pad", "convert"}


def largest_count(value: Value, producer: Producer, steps: int = _STEPS) -> int | None:
    """Return an upper bound on the elements of an integer value that is provably non-negative. Returns None for other
    values.

    `steps` limits the length of the chain of producers that the analysis follows.
    """
    value_type, node = value.type, producer(value)
    if value_type.dtype == "i1":
        return 1
    if node is None or not steps or None in value_type.shape:
        return None
    if is_constant(node):
        array = node.attrs.value
        bound = int(array.max()) if array.size and array.min() >= 0 else None
    else:
        counts = [largest_count(operand, producer, steps - 1) for operand in _counted(node)]
        bound = _combined(node, [count for count in counts if count is not None]) if None not in counts else None
    limit = _EXACT.get(value_type.dtype, 0) if is_float(value_type.dtype) else integer_range(value_type.dtype)[1]
    return bound if bound is not None and bound <= limit else None


def _counted(node: Node) -> Sequence[Value]:
    """Return the operands that contribute elements to the result: not a predicate, and not indices."""
    if node.op == "select":
        return node.operands[1:]
    return (node.operands[0], node.operands[2]) if node.op == "scatter" else node.operands


def _combined(node: Node, counts: Sequence[int]) -> int | None:
    """Return an upper bound on the result's elements from `counts`, the bounds of the operands. None for other ops."""
    if node.op in _PARTS or node.op in ("select", "maximum"):
        return max(counts)
    if node.op == "add":
        return sum(counts)
    if node.op == "reduce" and node.attrs.kind == "add":
        return counts[0] * math.prod(node.operands[0].type.sizes[d] for d in node.attrs.dims) + counts[1]
    if len(counts) == 2 and node.regions and fold_kind(node.regions[0]) == "add":
        if node.op == "scatter":
            return counts[0] + counts[1] * node.operands[2].type.size
        return counts[0] * math.prod(node.attrs.window_dimensions) + counts[1] if node.op == "reduce_window" else None
    return None


def is_ascending(value: Value, producer: Producer) -> bool:
    """Whether a 1-d value is a cumulative sum of non-negative numbers, so that its elements ascend."""
    node = producer(value)
    if node is None or node.op != "reduce_window" or fold_kind(node.regions[0]) != "add" or value.type.rank != 1:
        return False
    (size,), attrs = value.type.sizes, node.attrs
    padding = tuple(attrs.low), tuple(attrs.high)
    is_total = tuple(attrs.window_dimensions) == (size,) and padding == ((size - 1,), (0,))
    return is_total and largest_count(value, producer) is not None
