"""A change of a program's annotations that is worth trying, and what the step is with it."""

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
    """One that is worth trying.

    Attributes:
        kind: `drop` a required annotation, `annotate` a value, or `reorder` what is stored.
        text: what to do, in a user's words.
        value: the value that it is about; empty where that has no name.
        group: changes of one group exclude each other.
        seconds: of a step, which it could save at most.
        program: the program with it; None where it cannot be made.
        then: the sharding of the value in a program that was compiled with it, as text and as --spec and --what-if take it.
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
    """A change that was tried and pays: the sharding that the value has then, and figures of a step before and after."""

    kind: str  # as of the change
    change: str
    value: str
    instead: str
    spec: str  # the same as --spec and --what-if take it; empty where it has no name
    before: dict[str, float]
    after: dict[str, float]

    def record(self) -> dict[str, Any]:
        """For `--json`."""
        return asdict(self)


def annotation(
    module: Module, values: Sequence[Value], sharding: Sharding, *, group: str, seconds: float, unnamed: str = "it"
) -> Change:
    """The annotation of values that are alike, the first of which is called `unnamed` if it has no name."""
    name, spec = values[0].name, format_sharding(sharding)
    what = f"annotate {f'%{name}' if name else unnamed}" + (f" and {len(values) - 1} more alike" if values[1:] else "")
    program = partial(annotated_values, module, dict.fromkeys(values, sharding))
    return Change("annotate", f"{what} as {spec}", name, group, seconds, program, lambda _: (str(sharding), spec))


def split_along(value: Value, mesh: Mesh) -> tuple[Sharding, dict[int, int]]:
    """The sharding of a value without partial sums, and the sizes of a device's tiles by dim, the largest first."""
    now = (value.sharding or Sharding.replicated(value.type.rank)).without_partial()
    tiles = dict(enumerate(now.local_shape(value.type.sizes, mesh)))
    return now, dict(sorted(tiles.items(), key=lambda tile: -tile[1]))


def split_further(sharding: Sharding, way: Mapping[int, tuple[str, ...]]) -> Sharding:
    """A sharding with more axes on some dims."""
    return Sharding(tuple(axes + way.get(dim, ()) for dim, axes in enumerate(sharding.dims)))


def figures_of(executable: Compiled) -> dict[str, float]:
    """What changes are compared by."""
    record = executable.record()
    return {name: float(record[name]) for name in FIGURES}
