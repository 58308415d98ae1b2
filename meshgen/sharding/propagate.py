"""Propagate a few annotations to a sharding for every value and an option for every operation.

Mesh axes are solved one after the other, in two rounds, so that each axis is solved given the splits over the other
axes (`propagation/axes`). Along one axis, `reach` finds the states that the annotations can reach. From these,
`choices` picks the states with the least time for communication and computation, by variable elimination. Required
annotations are kept; hints may be overridden. The result does not depend on the order of the program's ops: they are
visited in canonical order (`ir/canonical.py`), which also breaks ties between equal costs. If several axes split one
dim, `propagation/order` takes their order from the annotations.

The solver runs for the program as written and for alternatives (`candidates/table.py`): equivalent programs, axes split
into other sub-axes, other starting points. Each candidate is planned up to partitioning. The cheapest one replaces the
program as written if it is clearly cheaper.
"""

from __future__ import annotations

from dataclasses import dataclass

from meshgen.compilation import Compilation, Decisions
from meshgen.errors import ShardingError
from meshgen.ir.graph import Module
from meshgen.ops.manual_tiles import manual_faults
from meshgen.sharding.candidates.search import Search
from meshgen.sharding.candidates.table import GENERATORS
from meshgen.sharding.propagation.solve import Solved, solve_as_written
from meshgen.sharding.rewrites.passes import SIMPLIFICATIONS
from meshgen.sharding.unknown_axes import at_nominal_sizes


@at_nominal_sizes
def propagate(module: Module, context: Compilation | None = None) -> Module:
    """Return the module with a `sharding` on every node, and with shardings of its inputs and outputs.

    Required annotations and options are kept exactly, or rejected (MG0206). Of equivalent programs, the cheapest is
    returned. Raises ShardingError with all faults of the annotations, and ProgramError for an op without a sharding
    rule.
    """
    context = context or Compilation()
    search = Search(context, GENERATORS)
    solved = _solved(module, search)
    propagated = search.written(solved)
    context.decide("propagate", propagated.graph, Propagation(module, solved))
    return propagated


@dataclass(frozen=True)
class Propagation:
    """The module that propagation started from, and the decisions of propagation."""

    entered: Module
    solved: Solved


def decisions_of(propagated: Module, decisions: Decisions) -> Propagation | None:
    """Return the decisions that led to a program at stage `propagate`.

    Returns None if the program was parsed at this stage, so that no decisions are known.
    """
    return decisions.get("propagate", {}).get(propagated.graph)


def solve(module: Module, context: Compilation | None = None) -> Solved:
    """Return the cheapest program with its decisions. All sizes must be known. Raises the same errors as
    `propagate`.
    """
    return _solved(module, Search(context or Compilation(), GENERATORS))


def _solved(module: Module, search: Search) -> Solved:
    if manual_errors := list(manual_faults(module.graph, module.meshes or (module.mesh,))):
        raise ShardingError(*manual_errors)
    solved = solve_as_written(search.context.apply(module, SIMPLIFICATIONS))
    if faults := solved.faults:
        raise ShardingError(*faults)
    return search.best(solved)
