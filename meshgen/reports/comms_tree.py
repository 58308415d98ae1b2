"""Collectives as a tree: the operation that needs a value, how the value is resharded for it, and what moves it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from meshgen.errors import place_text
from meshgen.ir.graph import Node
from meshgen.reports.collectives import Served, served
from meshgen.reports.comms import Collective, Comms, total_of
from meshgen.reports.edges import Edge
from meshgen.reports.interface import Compiled
from meshgen.reports.tables import bytes_text


@dataclass(frozen=True)
class Branch:
    """What one value needs on its way to an operation; no edge: what partitioning fetches for the operation itself."""

    edge: str
    collectives: tuple[int, ...]  # by number


@dataclass(frozen=True)
class Root:
    """An operation, or an output, with what is moved for it. A collective that serves several is counted in full at each."""

    op: str
    source: str
    counts: dict[str, int]
    ring_bytes: int
    edges: tuple[Branch, ...]

    def record(self) -> dict[str, Any]:
        """For `--json`."""
        return asdict(self)


def comms_tree(executable: Compiled) -> list[Root]:
    """The operations for which something is moved, in the order in which their first collective runs."""
    found: dict[tuple[str, str], dict[str, list[int]]] = {}
    for each in served(executable):
        for op, source, text in _branches(each):
            found.setdefault((op, source), {}).setdefault(text, []).append(each.number)
    return [_root(*key, branches, executable.comms) for key, branches in found.items()]


def _branches(each: Served) -> list[tuple[str, str, str]]:
    """Operation, its place and the edge, for each edge that a collective serves."""
    row = each.row
    if not each.edges:  # its reason says which operation it is for
        crossing = row.why if row.kind.startswith("transfer_") else ""
        return [(row.why.partition(" needs ")[0] if " needs " in row.why else row.kind, row.source, crossing)]
    return [(*_user(edge), _edge_text(edge)) for edge in each.edges]


def _user(edge: Edge) -> tuple[str, str]:
    if not edge.uses:
        return "an output", ""
    node = edge.uses[0]
    return _op_text(node), place_text(node.loc)


def _op_text(node: Node) -> str:
    name = node.results[0].name if node.results else ""
    return f"%{name} = {node.op}" if name else node.op


def _edge_text(edge: Edge) -> str:
    name = f"%{edge.value.name} " if edge.value.name else ""
    more = len(edge.uses) - 1
    others = f", for {more} more use{'s' if more > 1 else ''} too" if more > 0 else ""
    return f"{name}{edge.source} -> {edge.target}{others}"


def _root(op: str, source: str, branches: Mapping[str, list[int]], comms: Comms) -> Root:
    numbers = dict.fromkeys(number for each in branches.values() for number in each)
    rows: list[Collective] = [comms[number] for number in numbers]
    counts = Counter[str]()
    for row in rows:
        counts[row.kind] += row.times
    moved = total_of(rows).ring_bytes
    return Root(op, source, dict(counts), moved, tuple(Branch(edge, tuple(each)) for edge, each in branches.items()))


def tree_text(roots: Iterable[Root], comms: Comms) -> str:
    """The tree for people."""
    lines: list[str] = []
    for root in roots:
        counts = ", ".join(f"{count} {kind}" for kind, count in root.counts.items())
        where = f"  at {root.source}" if root.source and root.source not in root.op else ""
        lines.append(f"{root.op}: {bytes_text(root.ring_bytes)} in {counts}{where}")
        for branch in root.edges:
            indent = "  "
            if branch.edge:
                lines.append(f"  {branch.edge}")
                indent = "    "
            lines += [f"{indent}{line}" for line in _collective_lines(branch.collectives, comms)]
    return "\n".join(lines) or "nothing is moved"


def _collective_lines(numbers: Iterable[int], comms: Comms) -> Iterable[str]:
    """A line per kind and way; those of the trips of a loop share one."""
    alike: dict[str, list[int]] = {}
    for number in numbers:
        row: Collective = comms[number]
        words = f"{row.kind} {row.way}: {bytes_text(row.ring_bytes)}"
        alike.setdefault(words, []).append(number)
    for words, each in alike.items():
        yield f"#{each[0]} {words}" if len(each) == 1 else f"#{each[0]} .. #{each[-1]} {words}, {len(each)} times"
