"""Print reshapes as `tensor.collapse_shape` and `tensor.expand_shape`."""

from __future__ import annotations

import math
from collections.abc import Sequence

from meshgen.ir.graph import Node, TensorType
from meshgen.mlir.printer import tensor_text
from meshgen.mlir.upstream.element_types import signless
from meshgen.mlir.upstream.inexpressible import OPEN_SIZES, Inexpressible
from meshgen.mlir.upstream.printer import UpstreamPrinter, Write


def reshaped(printer: UpstreamPrinter, name: str, source: TensorType, target: TensorType) -> str:
    """Add operations that reshape the tensor `name` from type `source` to `target`. Returns the name of the result."""
    for text, kind in reshape_steps(source, target):
        name = printer.temporary(text.format(name))
        source = kind
    return name


def reshape_steps(source: TensorType, target: TensorType) -> list[tuple[str, TensorType]]:
    """Return up to two operations that reshape: one that collapses dims, and one that expands dims.

    Each is a text that has `{}` in place of its operand, and its result type.
    """
    if None in source.shape or None in target.shape:
        raise Inexpressible(OPEN_SIZES)
    if source.shape == target.shape:
        return []
    before, after = _common_groups(source.sizes, target.sizes)
    middle = source.with_shape(math.prod(source.sizes[d] for d in group) for group in before)
    steps: list[tuple[str, TensorType]] = []
    if middle.shape != source.shape:
        text = f"tensor.collapse_shape {{}} {before if middle.rank else []} : {tensor_text(source)} into {tensor_text(middle)}"
        steps.append((text, middle))
    if middle.shape != target.shape:
        text = f"tensor.expand_shape {{}} {after if middle.rank else []} output_shape {list(target.sizes)} : "
        steps.append((f"{text}{tensor_text(middle)} into {tensor_text(target)}", target))
    return steps


def _common_groups(source: Sequence[int], target: Sequence[int]) -> tuple[list[list[int]], list[list[int]]]:
    """Partition the dims of two shapes into equally many groups, so that groups at the same position have the same
    size.

    Returns no groups if one shape has no dims.
    """
    if all(length == 1 for length in (*source, *target)) and not (source and target):
        return [], []
    if 0 in source:
        return [list(range(len(source)))], [list(range(len(target)))]
    before: list[list[int]] = []
    after: list[list[int]] = []
    i = j = 0
    while i < len(source) or j < len(target):
        if before and (i == len(source) or j == len(target)):  # All dims that remain have size 1.
            before[-1] += range(i, len(source))
            after[-1] += range(j, len(target))
            break
        group, target_group = [i], [j]
        size, target_size = source[i], target[j]
        i, j = i + 1, j + 1
        while size != target_size:
            if size < target_size:
                group.append(i)
                size, i = size * source[i], i + 1
            else:
                target_group.append(j)
                target_size, j = target_size * target[j], j + 1
        before.append(group)
        after.append(target_group)
    return before, after


def write_reshape(printer: UpstreamPrinter, node: Node) -> None:
    name = printer.operand(node, 0)
    steps = reshape_steps(signless(node.operands[0].type), signless(node.result.type))
    if not steps:
        printer.alias(node, name)
        return
    for text, _ in steps[:-1]:
        name = printer.temporary(text.format(name))
    printer.assign(node, steps[-1][0].format(name))


WRITERS: dict[str, Write] = {"reshape": write_reshape}
