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


def through(value: Value, producer: Producer, ops: AbstractSet[str]) -> Value:
    """Return the value that `value` is, seen through the first operands of `ops`."""
    while (node := producer(value)) is not None and node.op in ops:
        value = node.operands[0]
    return value


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
