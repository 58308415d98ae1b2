"""The result of a search: shardings of arguments, the plan of the program with them, and a proof of their quality."""

from __future__ import annotations

import html
from dataclasses import dataclass

from meshgen.ir.graph import Module
from meshgen.notation import format_sharding
from meshgen.reports.interface import Compiled
from meshgen.reports.tables import bytes_text, seconds_text
from meshgen.search.descriptions import sentences
from meshgen.spec import Sharding


@dataclass(frozen=True)
class Found:
    """The best program of a search, with the annotations that it was planned with and the sharding of every argument.

    Args:
        shardings: by argument, in the order of the program.
        estimated_seconds: estimate of the integer program's solution, which the search minimizes.
        gap: fraction of the estimate by which the solution may exceed the optimum; 0 if it is proven optimal.
        is_given: the original program was the best.
    """

    module: Module
    planned: Compiled
    shardings: dict[str, Sharding]
    estimated_seconds: float
    gap: float
    is_given: bool

    @property
    def specs(self) -> dict[str, str]:
        """Return the shardings in the format of `in_specs`."""
        return {name: format_sharding(sharding) for name, sharding in self.shardings.items()}

    @property
    def sentences(self) -> list[str]:
        """Return the shardings in words."""
        return sentences(self.module.graph.inputs, self.shardings)

    @property
    def step_seconds(self) -> float:
        """Return the estimated step time of the plan."""
        return self.planned.plan.step_seconds

    @property
    def verdict(self) -> str:
        """Describe the step time and memory of the plan, and how close the solution is to the optimum."""
        plan = self.planned.plan
        proof = "proven the best" if self.gap == 0 else f"at most {self.gap:.1%} above the best"
        given = ", of the program as given" if self.is_given else ""
        return (
            f"A step takes {seconds_text(plan.step_seconds)} and {bytes_text(plan.arena_bytes)} per device{given}. "
            f"The search's own estimate for its solution is {seconds_text(self.estimated_seconds)}, {proof}."
        )

    def __str__(self) -> str:
        return "\n".join([*self.sentences, "", self.verdict])

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"

    def __repr__(self) -> str:
        return f"Found({self.module.name!r}, {self.planned.place}, step {seconds_text(self.step_seconds)}, specs={self.specs})"
