"""Stages from a propagated program to the program of one device; each stage runs once per program.

Propagation compares candidates by their local programs (`rewrites/program_cost.py`). The later stages reuse the local
program of the chosen candidate.
"""

from __future__ import annotations

from meshgen.compilation import Compilation
from meshgen.ir.graph import Module
from meshgen.sharding.materialize import materialize
from meshgen.sharding.optimize import optimize, optimize_local
from meshgen.sharding.partition import partition


def materialized(module: Module, context: Compilation) -> Module:
    """Return a propagated program after inserting its collectives (stage `materialize`)."""
    return context.made("materialize", module, lambda _: materialize(module))


def optimized(module: Module, context: Compilation) -> Module:
    """Return a materialized or local program after the passes that reduce communication."""
    return context.made("optimize", module, lambda inner: optimize(module, inner))


def partitioned(module: Module, arguments: str, context: Compilation) -> Module:
    """Return the program of one device, after the passes that reduce communication.

    `arguments` is that of `partition`.
    """
    return context.made(
        "partition", module, lambda inner: optimize_local(partition(module, arguments), inner), arguments
    )
