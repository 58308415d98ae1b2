"""Memoization of graph analyses: each result is cached in the def-use index of the graph (`Graph.index`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from meshgen.ir.graph import Graph

P = ParamSpec("P")
T = TypeVar("T")


def graph_analysis(analyze: Callable[Concatenate[Graph, P], T]) -> Callable[Concatenate[Graph, P], T]:
    """Decorate an analysis of a graph so that its result is cached per graph and arguments.

    The other arguments must be hashable. The cache belongs to the graph: passes create new graphs, and adding nodes to
    a graph drops its cached results.
    """

    @wraps(analyze)
    def cached(graph: Graph, *args: P.args, **kwargs: P.kwargs) -> T:
        results, key = graph.index.results, (analyze, args, *kwargs.items())
        if key not in results:
            results[key] = analyze(graph, *args, **kwargs)
        return results[key]

    return cached
