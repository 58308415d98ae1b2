"""Questions about def-use chains: what a value is seen through some ops, and what it is computed from.

A `Producer` is `graph.index.producers.get`, or the lookup of a rewriter that has not finished its graph. Ops are passed in as classes.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from collections.abc import Set as AbstractSet

from meshgen.ir.graph import Node, Value
from meshgen.ir.regions import captured
from meshgen.ir.walks import reachable

Producer = Callable[[Value], Node | None]
Dims = tuple[int | None, ...]
"""For each dim of a value the dim of another value that it is; None: a dim of size 1 that is none of these."""


def through(value: Value, producer: Producer, ops: AbstractSet[str]) -> Value:
    """Return the value that `value` is, seen through the first operands of `ops`."""
    while (node := producer(value)) is not None and node.op in ops:
        value = node.operands[0]
    return value


def layout_source(value: Value, dims: Dims, producer: Producer, until: int | None = None) -> tuple[Value, Dims]:
    """Return the value of which another one is a layout, as far as that is known or has the dim `until`; with its dims.

    Args:
        dims: names of the dims of `value`; None: a dim of size 1.
    """
    while until is None or until in dims:
        node = producer(value)
        inner = None if node is None else operand_dims(node, dims)
        if node is None or inner is None:
            break
        value, dims = node.operands[0], inner
    return value, dims


def operand_dims(node: Node, dims: Dims) -> Dims | None:
    """Return the dims of a layout's operand from those of its result; None for other ops."""
    sizes, source = node.results[0].type.shape, node.operands[0].type.shape if node.operands else ()
    if node.op == "broadcast_in_dim":
        pairs = zip(source, node.attrs.dims, strict=True)
        return tuple(None if size != sizes[d] else dims[d] for size, d in pairs)
    if node.op == "transpose":
        return tuple(dims[node.attrs.perm.index(d)] for d in range(len(dims)))
    long = [d for d, size in enumerate(sizes) if size != 1]
    if node.op == "reshape" and [sizes[d] for d in long] == [size for size in source if size != 1]:
        numbers = iter(long)
        return tuple(None if size == 1 else dims[next(numbers)] for size in source)
    return None


def values_behind(
    values: Iterable[Value], producer: Producer, leaves: Callable[[Value], bool] = lambda value: False
) -> Iterator[Value]:
    """Yield `values` and everything that they are computed from, in regions too; what `leaves` are computed from is left out."""

    def read(value: Value) -> Iterable[Value]:
        node = None if leaves(value) else producer(value)
        if node is None:
            return ()
        return (*node.operands, *captured(node)) if node.regions else node.operands

    return reachable(values, read)


def depends_on(values: Iterable[Value], targets: Container[Value], producer: Producer) -> bool:
    """Whether one of `values` is one of `targets`, or is computed from one."""
    return any(value in targets for value in values_behind(values, producer, targets.__contains__))
