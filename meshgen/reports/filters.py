"""Which collectives a person asks for, and what is wrong with a question that none can match."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from meshgen.errors import Diagnostic, UsageError
from meshgen.ir.regions import all_nodes
from meshgen.mesh import overlaps
from meshgen.names import nearest_names
from meshgen.ops.classes import COMMUNICATING
from meshgen.reports.collectives import Served, plain_scope
from meshgen.reports.interface import Compiled

_SHOWN = 12  # parts of a program in a hint


@dataclass(frozen=True)
class Filter:
    """Which collectives: of a kind, along an axis, of a part of the program (`layer_3`, `layer_*/mlp`)."""

    kind: str = ""
    axis: str = ""
    layer: str = ""

    def takes(self, each: Served) -> bool:
        row = each.row
        is_kind = not self.kind or _kind(self.kind) == row.kind
        is_axis = not self.axis or any(overlaps(self.axis, axis) for axis in row.axes)
        return is_kind and is_axis and (not self.layer or self.is_of(each.scope[0]))

    def is_of(self, scope: str) -> bool:
        """Whether this part of the program is the one asked for, or inside of it."""
        return fnmatchcase(f"{scope}/", f"{self.layer}/*")


ALL = Filter()


def _kind(text: str) -> str:
    return text.replace("-", "_")  # as options are written


def refuse_unknown(executable: Compiled, asked: Filter) -> None:
    """Raises UsageError MG0001 for a kind that is none, an axis that no mesh has, and a part that the program does not have."""
    kind = _kind(asked.kind)
    if kind and kind not in COMMUNICATING:
        _refuse(f"unknown kind of collective '{asked.kind}'", "the kinds are", kind, sorted(COMMUNICATING))
    axes = [name for part in executable.parts for name in part.mesh.names]
    if asked.axis and asked.axis.partition(":")[0] not in axes:
        _refuse(f"mesh axis '{asked.axis}' is not in {executable.place}", "the axes are", asked.axis, axes)
    if asked.layer and not any(map(asked.is_of, scopes := [*dict.fromkeys(_scopes(executable))])):
        _refuse(f"no part of the program is called '{asked.layer}'", "its parts are", asked.layer, scopes)


def _scopes(executable: Compiled) -> Iterator[str]:
    """The parts of the program, with those that they are in."""
    for node in all_nodes(next(iter(executable.stages.values())).graph):
        names = plain_scope(node.loc.scope)[0].split("/") if node.loc else []
        yield from ("/".join(names[:count]) for count in range(1, len(names) + 1) if names[0])


def _refuse(text: str, listed: str, name: str, known: list[str]) -> None:
    near = nearest_names(name, known)
    more = " ..." if len(known) > _SHOWN else ""
    names = f"{listed} {', '.join(known[:_SHOWN])}{more}" if known else "none of its parts has a name"
    meant = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
    raise UsageError(Diagnostic("MG0001", text, hint=meant + names))
