"""Queries on def-use chains: the value below a chain of layout ops, and the transitive producers of a value.

`Producer` is a function from a value to its producing node: `graph.index.producers.get`, or the lookup of a rewriter
whose graph is unfinished. Sets of op names are parameters (`ops/classes.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from collections.abc import Set as AbstractSet

from meshgen.ir.graph import Node, Value
from meshgen.ir.regions import captured
from meshgen.ir.walks import reachable

Producer = Callable[[Value], Node | None]
Dims = tuple[int | None, ...]
"""For each dim of a value the matching dim of another value; None marks a dim of size 1 without a counterpart."""


def through(value: Value, producer: Producer, ops: AbstractSet[str]) -> Value:
    """Follow first operands while the producer's op is in `ops`. Return the first value that none of `ops` produces."""
    while (node := producer(value)) is not None and node.op in ops:
        value = node.operands[0]
    return value


def layout_source(value: Value, dims: Dims, producer: Producer, until: int | None = None) -> tuple[Value, Dims]:
    """Look through layout ops (broadcast, transpose, reshape).

    Args:
        dims: a label for each dim of `value`, or None for a dim of size 1.
        until: stop at the last value that still has a dim with this label.
    Returns:
        The value below the layout ops, with the label of each of its dims.
    """
    while until is None or until in dims:
        node = producer(value)
        inner = None if node is None else operand_dims(node, dims)
        if node is None or inner is None:
            break
        value, dims = node.operands[0], inner
    return value, dims


def operand_dims(node: Node, dims: Dims) -> Dims | None:
    """Translate dim labels from the result of a layout op to its operand. Returns None for any other op.

    transpose {perm = [1, 0]}, result labels (0, 1)  ->  operand labels (1, 0)
    """
    sizes, source = node.results[0].type.shape, node.operands[0].type.shape if node.operands else ()
    if node.op == "broadcast_in_dim":
        size_dims = zip(source, node.attrs.dims, strict=True)
        return tuple(None if size != sizes[d] else dims[d] for size, d in size_dims)
    if node.op == "transpose":
        return tuple(dims[node.attrs.perm.index(d)] for d in range(len(dims)))
    non_unit = [d for d, size in enumerate(sizes) if size != 1]
    if node.op == "reshape" and [sizes[d] for d in non_unit] == [size for size in source if size != 1]:
        remaining = iter(non_unit)
        return tuple(None if size == 1 else dims[next(remaining)] for size in source)
    return None


def transitive_operands(
    values: Iterable[Value], producer: Producer, leaves: Callable[[Value], bool] = lambda value: False
) -> Iterator[Value]:
    """Yield `values` and all values that they are computed from, including values that regions capture.

    The walk does not visit the producers of values for which `leaves` is true.
    """

    def read(value: Value) -> Iterable[Value]:
        node = None if leaves(value) else producer(value)
        if node is None:
            return ()
        return (*node.operands, *captured(node)) if node.regions else node.operands

    return reachable(values, read)


def depends_on(values: Iterable[Value], targets: Container[Value], producer: Producer) -> bool:
    """Whether one of `values` is in `targets`, or is computed from a value in `targets`."""
    return any(value in targets for value in transitive_operands(values, producer, targets.__contains__))
