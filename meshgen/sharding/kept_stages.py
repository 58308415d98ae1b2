"""The stages from a propagated program to that of one device, each done once for a program.

Propagation compares candidates by their local programs (`rewrites/compare.py`); the stages after it take up what was made of the chosen one.
"""

from __future__ import annotations

from meshgen.ir.graph import Module
from meshgen.pass_manager import Kept, PassManager
from meshgen.sharding.materialize import materialize
from meshgen.sharding.optimize import optimize, optimize_local
from meshgen.sharding.partition import partition

_MATERIALIZED, _OPTIMIZED, _LOCAL = Kept(), Kept(), Kept()


def materialized(module: Module, manager: PassManager) -> Module:
    """A propagated program with collectives."""
    return _MATERIALIZED.of(module, manager, lambda _: materialize(module))


def optimized(module: Module, manager: PassManager) -> Module:
    """A materialized program with less communication, or a local one."""
    return _OPTIMIZED.of(module, manager, lambda inner: optimize(module, inner))


def partitioned(module: Module, arguments: str, manager: PassManager) -> Module:
    """The program of one device, with less communication; `arguments` as for `partition`."""
    return _LOCAL.of(module, manager, lambda inner: optimize_local(partition(module, arguments), inner), arguments)
