"""Analyses of one graph, whose results the graph keeps with its def-use index."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from meshgen.ir.graph import Graph

P = ParamSpec("P")
T = TypeVar("T")


def graph_analysis(analyze: Callable[Concatenate[Graph, P], T]) -> Callable[Concatenate[Graph, P], T]:
    """Compute an analysis of a graph once for its other arguments, which are hashable.

    A result belongs to the graph: passes make new graphs, and nodes that are added to one drop its results.
    """

    @wraps(analyze)
    def kept(graph: Graph, *args: P.args, **kwargs: P.kwargs) -> T:
        results, key = graph.index.results, (analyze, args, *kwargs.items())
        if key not in results:
            results[key] = analyze(graph, *args, **kwargs)
        return results[key]

    return kept
