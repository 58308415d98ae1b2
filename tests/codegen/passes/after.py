"""A pass on one graph."""

from __future__ import annotations

from collections.abc import Callable

from meshgen.ir.graph import Graph, Module
from meshgen.mesh import Mesh
from tests.codegen.bodies import ONE


def after(run: Callable[[Module], Module], graph: Graph, mesh: Mesh = ONE) -> Graph:
    """The graph of a local program after a pass: the same one where it changes nothing."""
    return run(Module(mesh, graph, "partition")).graph
