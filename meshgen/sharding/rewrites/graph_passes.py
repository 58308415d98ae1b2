"""Passes that are written as rewrites of one graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps

from meshgen.compilation import Applies, Compilation, Pass
from meshgen.ir.graph import Module
from meshgen.sharding.rewrites.bodies import Rewrite, everywhere


@dataclass(frozen=True, kw_only=True)
class GraphPass(Pass):
    """A pass that rewrites one graph at a time.

    `rewrite` can be called by itself, and returns None if nothing changes.
    """

    rewrite: Rewrite


def graph_pass(name: str, *, applies: Applies = "always", in_bodies: bool = True) -> Callable[[Rewrite], GraphPass]:
    """Declare a rewrite of graphs as a pass that runs on programs before propagation.

    Args:
        in_bodies: whether the pass applies the rewrite to the bodies of loops and branches as well. False if the
            rewrite visits the bodies itself.
    """

    def declared(rewrite: Rewrite) -> GraphPass:
        rewritten = everywhere(rewrite) if in_bodies else rewrite

        @wraps(rewrite)
        def run(module: Module, context: Compilation) -> Module:
            graph = rewritten(module.graph)
            return replace(module, graph=graph) if graph else module

        return GraphPass(name, run, ("import",), applies, rewrite=rewrite)

    return declared
