"""Propagate a few annotations to a sharding of every value and an option of every operation.

Mesh axes are solved one after the other, in two rounds, so that each is solved with the others' splits (`propagation/axes`). Along one
axis `reach` finds the states that annotations can reach, and `choices` picks among these, by variable elimination, those that
take the least time to move and to compute: required annotations are kept, hints may lose. The result does not
depend on the order of traversal or of the program's ops: they are taken in canonical order
(`ir/canonical.py`), which decides between equal costs. `propagation/order` takes the order of several axes
on one dim from the annotations.

This is done for the program as written, for equivalent programs, for other parts of axes and from other starts (`candidates/table.py`):
each candidate is planned up to partitioning, and the cheapest is taken if it is clearly cheaper.
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
from meshgen.sharding.unknown import at_nominal_sizes


@at_nominal_sizes
def propagate(module: Module, context: Compilation | None = None) -> Module:
    """The module with `sharding` on every node and shardings of its inputs and outputs.

    Required annotations and options are kept exactly (law 2), or refused (MG0206). The cheapest equivalent program is taken.
    Raises ShardingError with all faults of the annotations, ProgramError for an op without a rule.
    """
    context = context or Compilation()
    search = Search(context, GENERATORS)
    solved = _solved(module, search)
    found = search.written(solved)
    context.decide("propagate", found.graph, Propagation(module, solved))
    return found


@dataclass(frozen=True)
class Propagation:
    """The input of propagation, and its decisions."""

    entered: Module
    solved: Solved


def decisions_of(propagated: Module, decisions: Decisions) -> Propagation | None:
    """The decisions that made a program at stage propagate; None for one that was read at this stage."""
    return decisions.get("propagate", {}).get(propagated.graph)


def solve(module: Module, context: Compilation | None = None) -> Solved:
    """The cheapest program with its decisions; all sizes must be known. Raises as `propagate` does."""
    return _solved(module, Search(context or Compilation(), GENERATORS))


def _solved(module: Module, search: Search) -> Solved:
    if wrong := list(manual_faults(module.graph, module.meshes or (module.mesh,))):
        raise ShardingError(*wrong)
    solved = solve_as_written(search.context.apply(module, SIMPLIFICATIONS))
    if faults := solved.faults:
        raise ShardingError(*faults)
    return search.best(solved)
