"""What is found out about a graph, kept as long as the graph is: passes from fusion to the schedule ask again about bodies of kernels, and passes before
fusion about a program that none between them changed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Concatenate, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from meshgen.ir.graph import Graph
from meshgen.runtime.in_place import Pairs, overwrites

P = ParamSpec("P")
T = TypeVar("T")


def once_per_graph(find: Callable[Concatenate[Graph, P], T]) -> Callable[Concatenate[Graph, P], T]:
    """The function, which looks at a graph once for each of its other arguments; passes make new graphs and change none."""
    known: WeakKeyDictionary[Graph, dict[Hashable, T]] = WeakKeyDictionary()

    def kept(graph: Graph, *args: P.args, **kwargs: P.kwargs) -> T:
        found = known.setdefault(graph, {})
        key = (args, tuple(kwargs.items())) if kwargs else args
        if key not in found:
            found[key] = find(graph, *args, **kwargs)
        return found[key]

    return kept


@once_per_graph
def pairs_of(body: Graph) -> Pairs:
    """The numbers of operands with those of results that may share their bytes."""
    return overwrites(body)
