"""Filters that select collectives by kind, axis or program part, and the errors for unknown names in a filter."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from meshgen.errors import Diagnostic, UsageError
from meshgen.ir.regions import all_nodes
from meshgen.mesh import overlaps
from meshgen.names import nearest_names
from meshgen.ops.classes import COMMUNICATING
from meshgen.reports.collectives import ReshardingCollective, plain_scope
from meshgen.reports.interface import Compiled

_SHOWN = 12  # chosen: number of program parts that a hint lists


@dataclass(frozen=True)
class Filter:
    """Selects collectives by kind, mesh axis, and part of the program (`layer_3`, `layer_*/mlp`)."""

    kind: str = ""
    axis: str = ""
    layer: str = ""

    def matches(self, collective: ReshardingCollective) -> bool:
        row = collective.row
        is_kind = not self.kind or _normalized_kind(self.kind) == row.kind
        is_axis = not self.axis or any(overlaps(self.axis, axis) for axis in row.axes)
        return is_kind and is_axis and (not self.layer or self.is_of(collective.scope[0]))

    def is_of(self, scope: str) -> bool:
        """Whether `scope` is the selected part of the program or inside it."""
        return fnmatchcase(f"{scope}/", f"{self.layer}/*")


ALL = Filter()


def _normalized_kind(text: str) -> str:
    return text.replace("-", "_")  # command-line options are written with hyphens


def refuse_unknown(executable: Compiled, selection: Filter) -> None:
    """Check that the program has the kind, axis and program part of a filter.

    Raises:
        UsageError: MG0001 if one of them does not exist.
    """
    kind = _normalized_kind(selection.kind)
    if kind and kind not in COMMUNICATING:
        _raise_unknown(f"unknown kind of collective '{selection.kind}'", "the kinds are", kind, sorted(COMMUNICATING))
    axes = [name for part in executable.parts for name in part.mesh.names]
    if selection.axis and selection.axis.partition(":")[0] not in axes:
        _raise_unknown(
            f"mesh axis '{selection.axis}' is not in {executable.place}", "the axes are", selection.axis, axes
        )
    if selection.layer and not any(map(selection.is_of, scopes := [*dict.fromkeys(_scopes(executable))])):
        _raise_unknown(
            f"no part of the program is called '{selection.layer}'", "its parts are", selection.layer, scopes
        )


def _scopes(executable: Compiled) -> Iterator[str]:
    """Yield the scopes (user's names of program parts) of the collectives, and all enclosing scopes."""
    for node in all_nodes(next(iter(executable.stages.values())).graph):
        names = plain_scope(node.loc.scope)[0].split("/") if node.loc else []
        yield from ("/".join(names[:count]) for count in range(1, len(names) + 1) if names[0])


def _raise_unknown(text: str, listed: str, name: str, candidates: list[str]) -> None:
    similar_names = nearest_names(name, candidates)
    ellipsis = " ..." if len(candidates) > _SHOWN else ""
    names = f"{listed} {', '.join(candidates[:_SHOWN])}{ellipsis}" if candidates else "none of its parts has a name"
    suggestion = f"did you mean {' or '.join(map(repr, similar_names))}? " if similar_names else ""
    raise UsageError(Diagnostic("MG0001", text, hint=suggestion + names))
