"""A candidate change of a program's annotations, and the result of planning the program with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from meshgen.ir.graph import Module, Value
from meshgen.mesh import Mesh
from meshgen.notation import format_sharding
from meshgen.reports.interface import Compiled
from meshgen.reports.what_if import annotated_values
from meshgen.spec import Sharding

FIGURES = ("ring_bytes", "step_seconds", "peak_memory_bytes")


@dataclass(frozen=True)
class Change:
    """A candidate change of a program's annotations or of the stored order of a weight.

    Attributes:
        kind: `drop` a required annotation, `annotate` a value, or `reorder` a stored weight.
        text: the instruction for the user.
        value: name of the changed value; empty if it has no name.
        group: name of the group; at most one change of a group can be applied.
        seconds: upper bound of the time that the change can save per step.
        program: function that builds the changed program, or returns None if the change cannot be applied.
        then: function that returns the value's sharding in the program compiled with the change, as text and as a spec
            for --spec and --what-if.
    """

    kind: str
    text: str
    value: str
    group: str
    seconds: float
    program: Callable[[], Module | None]
    then: Callable[[Compiled], tuple[str, str]]


@dataclass(frozen=True)
class Advice:
    """A profitable change, with the resulting sharding of the changed value, and the figures of the step before and
    after it.
    """

    kind: str  # `Change.kind`: `drop`, `annotate` or `reorder`
    change: str
    value: str
    instead: str
    spec: str  # the resulting sharding as a spec for --spec and --what-if, or "" if the value has no name
    before: dict[str, float]
    after: dict[str, float]

    def record(self) -> dict[str, Any]:
        """Return the fields as a JSON-serializable dict, for `--json`."""
        return asdict(self)


def annotation(
    module: Module, values: Sequence[Value], sharding: Sharding, *, group: str, seconds: float, unnamed: str = "it"
) -> Change:
    """Return the change that annotates all `values` with `sharding`.

    Args:
        unnamed: how the instruction refers to the first value if it has no name.
    """
    name, spec = values[0].name, format_sharding(sharding)
    action = f"annotate {f'%{name}' if name else unnamed}" + (
        f" and {len(values) - 1} more alike" if values[1:] else ""
    )
    program = partial(annotated_values, module, dict.fromkeys(values, sharding))
    return Change("annotate", f"{action} as {spec}", name, group, seconds, program, lambda _: (str(sharding), spec))


def split_along(value: Value, mesh: Mesh) -> tuple[Sharding, dict[int, int]]:
    """Return the sharding of `value` without partial sums, and the local size of each dim, ordered from large to
    small.
    """
    sharding = (value.sharding or Sharding.replicated(value.type.rank)).without_partial()
    tiles = dict(enumerate(sharding.local_shape(value.type.sizes, mesh)))
    return sharding, dict(sorted(tiles.items(), key=lambda tile: -tile[1]))


def split_further(sharding: Sharding, added_axes: Mapping[int, tuple[str, ...]]) -> Sharding:
    """Return `sharding` with additional mesh axes on some dims.

    Args:
        added_axes: the additional axes of each dim.
    """
    return Sharding(tuple(axes + added_axes.get(dim, ()) for dim, axes in enumerate(sharding.dims)))


def figures_of(executable: Compiled) -> dict[str, float]:
    """Return the figures of a step by which candidate changes are compared."""
    record = executable.record()
    return {name: float(record[name]) for name in FIGURES}
