"""Constant analysis: whether a value is a known array, or a splat (all elements equal a known number)."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

import numpy as np

from meshgen.ir.graph import Node, TensorType, Value
from meshgen.ir.matchers import Producer
from meshgen.ir.predicates import is_constant
from meshgen.ir.splats import uniform_element
from meshgen.ir.walks import operands_first
from meshgen.ops.classes import ARRANGING, ELEMENTWISE, LAYOUT, LEAVING, MADE, POINTWISE
from meshgen.ops.evaluate.common import Array
from meshgen.ops.evaluate.evaluator import evaluate_node
from meshgen.ops.registry import evaluable_ops

# Ops that depend on the rank, such as `all_slice`, cannot be evaluated on one device.
FOLDABLE = (ELEMENTWISE | POINTWISE | ARRANGING | LAYOUT | MADE) & evaluable_ops()
_REPEATING = (LAYOUT - LEAVING) & evaluable_ops()  # each result element equals some operand element
_FUNCTIONS = POINTWISE & ELEMENTWISE
# Maximum number of elements of a folded constant. Chosen: covers short index vectors, and keeps the walk cheap.
_FEW = 16


def constant_of(
    value: Value,
    producer: Producer,
    ops: AbstractSet[str] = FOLDABLE,
    most_elements: int = _FEW,
    known: dict[Value, Array] | None = None,
) -> Array | None:
    """Return the array that a value equals in every run of the program, by constant-folding the nodes that it depends
    on.

    Args:
        ops: the ops that may be folded.
        most_elements: the maximum number of elements of each folded value.
        known: the arrays of some values. The function adds each array that it computes.

    Returns:
        The array, or None if the value depends on an input or another op, or if an intermediate value is too large.
    """
    arrays = {} if known is None else known

    def folded(current: Value) -> Node | None:
        node, kind = producer(current), current.type
        is_small = None not in kind.shape and kind.size <= most_elements
        return node if node is not None and is_small and (node.op in ops or is_constant(node)) else None

    def operands(current: Value) -> Sequence[Value]:
        node = None if current in arrays else folded(current)
        return node.operands if node is not None else ()

    if value not in arrays and folded(value) is None:  # Most values are not constant, and return here without a walk.
        return None
    for current in operands_first([value], operands):
        if current in arrays:
            continue
        node = folded(current)
        if node is None:
            return None
        operand_arrays = [arrays[operand] for operand in node.operands]
        arrays[current] = node.attrs.value if is_constant(node) else evaluate_node(node, operand_arrays)[0]
    return arrays[value]


def splat_of(value: Value, producer: Producer, known: dict[Value, Array | None] | None = None) -> Array | None:
    """Return the number that all elements of a value equal, as a 0-d array. Returns None if the elements may differ.

    The analysis looks through index maps and unary element-wise functions.

    Args:
        known: the numbers of some constants. The function adds its results, so that each array is scanned only once.
    """
    numbers = {} if known is None else known
    functions = list[Node]()
    while (node := producer(value)) is not None and len(node.operands) == 1:
        if node.op not in _REPEATING:
            if node.op not in _FUNCTIONS:
                return None
            functions.append(node)
        value = node.operands[0]
    if node is None or node.op not in FOLDABLE:
        return None
    if value not in numbers:
        array = node.attrs.value if is_constant(node) else constant_of(value, producer)
        numbers[value] = None if array is None else uniform_element(array)
    if (number := numbers[value]) is None:
        return None
    for function in reversed(functions):
        number = element(function, [number])
    return number


def element(node: Node, operands: Sequence[Array]) -> Array:
    """Evaluate an element-wise node on a single element of each operand."""
    inputs = [Value(TensorType((), operand.type.dtype)) for operand in node.operands]
    scalar = Node(node.op, inputs, [Value(TensorType((), node.result.type.dtype))], node.attrs)
    return np.asarray(evaluate_node(scalar, list(operands))[0])
