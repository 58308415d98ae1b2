"""Helper for running a pass on one graph."""

from __future__ import annotations

from collections.abc import Callable

from meshgen.ir.graph import Graph, Module
from meshgen.mesh import Mesh
from tests.codegen.bodies import ONE


def after(run: Callable[[Module], Module], graph: Graph, mesh: Mesh = ONE) -> Graph:
    """Return the graph of a local program after the pass `run`: the same object if the pass changes nothing."""
    return run(Module(mesh, graph, "partition")).graph
