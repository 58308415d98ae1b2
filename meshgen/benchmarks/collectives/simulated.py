"""An engine whose times are predictions of the cost model for a machine profile. All ranks are in this process, which
also checks the results of the calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from meshgen.benchmarks.collectives.cases import (
    GROUPS,
    Case,
    Layout,
    bus_factor,
    count_wrong,
    lower_call,
    random_operand,
)
from meshgen.benchmarks.collectives.engines import Effort, Outcome
from meshgen.ccl.host import HostBuffers
from meshgen.ccl.links import seconds_along
from meshgen.ccl.local_transport import run_lowered
from meshgen.ccl.message_queues import Wires
from meshgen.ccl.steps import OPERAND, RESULT
from meshgen.errors import Diagnostic, UsageError
from meshgen.ir.graph import DTYPES
from meshgen.machine.profiles import DEFAULT_MACHINE, MACHINES, Machine

# Most bytes of all operands and results in host memory for which results are checked: 256 MiB (chosen: fits the memory
# of any machine).
MOST_CHECKED_BYTES = 1 << 28
# names of collectives in nccl-tests -> names in the cost model, where they differ
_LINK_OPS = {"reduce": "reduce_to", "sendrecv": "shift"}


class SimulatedEngine:
    """An `Engine` whose one sample per case is a prediction."""

    def __init__(self, ranks: int, machine: Machine | None) -> None:
        """Raises UsageError MG0001 if the ranks do not fill whole hosts."""
        self._machine = machine or MACHINES[DEFAULT_MACHINE]
        inside = min(self._machine.links[0].devices or ranks, ranks)
        if ranks % inside:
            text = f"{ranks} ranks do not fill hosts of {inside} devices of machine '{self._machine}'"
            raise UsageError(Diagnostic("MG0001", text, hint=f"give a multiple of {inside} with -g"))
        self.layout, self.reports = Layout(ranks, inside), True
        self._mesh = replace(self.layout.mesh, machine=self._machine)
        self.facts: Mapping[str, Any] = {"machine": self._machine.name}

    def measure(self, case: Case, in_place: bool, effort: Effort) -> Outcome:
        op, axes = _LINK_OPS.get(case.kind, case.kind), GROUPS[case.group]
        moved = round(case.size * bus_factor(case.kind, case.ranks))
        seconds = seconds_along(op, moved, self._mesh, axes, case.ranks if case.kind == "all_to_all" else 0)
        is_small = self.layout.ranks * 2 * case.size <= MOST_CHECKED_BYTES
        return Outcome((seconds,), self._wrong(case, in_place) if effort.checks and is_small else None)

    def _wrong(self, case: Case, in_place: bool) -> int:
        ranks, dtype = range(self.layout.ranks), DTYPES[case.dtype]
        members = [self._mesh.index(rank, GROUPS[case.group]) for rank in ranks]
        buffers: list[HostBuffers] = []
        results: list[np.ndarray[Any, Any]] = []
        for member in members:
            size = max(case.operand_count, case.result_count) * dtype.itemsize
            operand_memory, result_memory = (
                np.zeros(size, np.uint8),
                np.zeros(case.result_count * dtype.itemsize, np.uint8),
            )
            source, target = case.offsets(member) if in_place else (0, 0)
            operand_memory.view(dtype)[source : source + case.operand_count] = random_operand(case, member)
            buffers.append(HostBuffers({OPERAND: operand_memory, RESULT: result_memory}))
            results.append(
                (operand_memory if in_place else result_memory).view(dtype)[target : target + case.result_count]
            )
        run_lowered([lower_call(case, self._mesh, rank, in_place) for rank in ranks], buffers, self._mesh, Wires())
        return sum(count_wrong(case, result, member) for result, member in zip(results, members, strict=True))

    def close(self, error: BaseException | None = None) -> None:
        """Do nothing: the engine holds no resources."""
