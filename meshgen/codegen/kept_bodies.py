"""What is found out about the body of a kernel, kept as long as the body is: passes from fusion to the schedule ask again."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Concatenate, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from meshgen.ir.graph import Graph
from meshgen.runtime.in_place import Pairs, overwrites

P = ParamSpec("P")
T = TypeVar("T")


def once_per_body(find: Callable[Concatenate[Graph, P], T]) -> Callable[Concatenate[Graph, P], T]:
    """The function, which looks at a body once for each of its other arguments; bodies of kernels do not change."""
    known: WeakKeyDictionary[Graph, dict[Hashable, T]] = WeakKeyDictionary()

    def kept(body: Graph, *args: P.args, **kwargs: P.kwargs) -> T:
        found = known.setdefault(body, {})
        key = (args, tuple(kwargs.items())) if kwargs else args
        if key not in found:
            found[key] = find(body, *args, **kwargs)
        return found[key]

    return kept


@once_per_body
def pairs_of(body: Graph) -> Pairs:
    """The numbers of operands with those of results that may share their bytes."""
    return overwrites(body)
