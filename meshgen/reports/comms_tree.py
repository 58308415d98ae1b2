"""Show collectives as a tree: the op that needs a value, the reshard of the value, and the collectives of that
reshard.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from meshgen.errors import location_text
from meshgen.ir.graph import Node
from meshgen.reports.collectives import ReshardingCollective, served
from meshgen.reports.comms import Collective, Comms, total_of
from meshgen.reports.interface import Compiled
from meshgen.reports.reshard_edges import Edge
from meshgen.reports.tables import bytes_text


@dataclass(frozen=True)
class Branch:
    """An operand of an op with the collectives that reshard it.

    `edge` describes the reshard. It is empty if the partitioner inserted the collectives for the op itself.
    """

    edge: str
    collectives: tuple[int, ...]  # indices in execution order


@dataclass(frozen=True)
class Root:
    """An op or an output with the collectives that it needs. A collective that several ops need is counted in full for
    each.
    """

    op: str
    source: str
    counts: dict[str, int]
    ring_bytes: int
    edges: tuple[Branch, ...]

    def record(self) -> dict[str, Any]:
        """Return the fields as a JSON-serializable dict, for `--json`."""
        return asdict(self)


def comms_tree(executable: Compiled) -> list[Root]:
    """Return the ops that need collectives, in the execution order of their first collective."""
    collectives_by_user: dict[tuple[str, str], dict[str, list[int]]] = {}
    for collective in served(executable):
        for op, source, text in _branches(collective):
            collectives_by_user.setdefault((op, source), {}).setdefault(text, []).append(collective.number)
    return [_root(*key, branches, executable.comms) for key, branches in collectives_by_user.items()]


def _branches(collective: ReshardingCollective) -> list[tuple[str, str, str]]:
    """Return for each reshard edge of a collective the op that uses the value, its source location, and the edge."""
    row = collective.row
    if not collective.edges:  # a collective without reshard edges names its op in its reason
        crossing = row.why if row.kind.startswith("transfer_") else ""
        return [(row.why.partition(" needs ")[0] if " needs " in row.why else row.kind, row.source, crossing)]
    return [(*_first_use(edge), _edge_text(edge)) for edge in collective.edges]


def _first_use(edge: Edge) -> tuple[str, str]:
    if not edge.uses:
        return "an output", ""
    node = edge.uses[0]
    return _op_text(node), location_text(node.loc)


def _op_text(node: Node) -> str:
    name = node.results[0].name if node.results else ""
    return f"%{name} = {node.op}" if name else node.op


def _edge_text(edge: Edge) -> str:
    name = f"%{edge.value.name} " if edge.value.name else ""
    other_count = len(edge.uses) - 1
    other_uses = f", for {other_count} more use{'s' if other_count > 1 else ''} too" if other_count > 0 else ""
    return f"{name}{edge.source} -> {edge.target}{other_uses}"


def _root(op: str, source: str, branches: Mapping[str, list[int]], comms: Comms) -> Root:
    numbers = dict.fromkeys(index for indices in branches.values() for index in indices)
    rows: list[Collective] = [comms[index] for index in numbers]
    counts = Counter[str]()
    for row in rows:
        counts[row.kind] += row.times
    moved = total_of(rows).ring_bytes
    return Root(
        op, source, dict(counts), moved, tuple(Branch(edge, tuple(indices)) for edge, indices in branches.items())
    )


def tree_text(roots: Iterable[Root], comms: Comms) -> str:
    """Render the tree of collectives as text."""
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
    """Yield a line for each pair of kind and axes. The iterations of a loop share a line."""
    numbers_by_text: dict[str, list[int]] = {}
    for index in numbers:
        row: Collective = comms[index]
        words = f"{row.kind} {row.way}: {bytes_text(row.ring_bytes)}"
        numbers_by_text.setdefault(words, []).append(index)
    for words, equal_numbers in numbers_by_text.items():
        yield (
            f"#{equal_numbers[0]} {words}"
            if len(equal_numbers) == 1
            else f"#{equal_numbers[0]} .. #{equal_numbers[-1]} {words}, {len(equal_numbers)} times"
        )
