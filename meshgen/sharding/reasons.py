"""The reasons of collectives and transfers as text, as `why` shows them: one function for each kind.

    a value is needed otherwise   dot_general 'h' (f.mlir:3) gives [{x}, {}], tanh 'y' (f.mlir:4) needs [{}, {}]; dot_general 'h': x splits ...
    an op needs other tiles       cumsum 'c' (f.mlir:5) needs the totals of other tiles; x splits loop a (64) from ...
    a pass changed collectives    <reason>; and <reason> [two all_reduces folded into one]
    a value changes its mesh      'h' is on @first, tanh 'y' is on @second (its operands are there); it crosses from [{x}, {}] to [{y}, {}]

The reason of a collective that the program itself has is in `ir/reasons.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from meshgen.errors import Location, bracketed, place_text
from meshgen.ir.graph import Annotation, Module, Node, Value
from meshgen.ir.op_names import ANNOTATIONS
from meshgen.ir.predicates import is_annotation
from meshgen.mesh import overlaps
from meshgen.ops.rules.rule import Factor
from meshgen.sharding.reshard.plan import ReshardPlan
from meshgen.spec import Sharding


class Party(NamedTuple):
    """One end of an edge, as text: an op, input or output, its location, and the reasons of its sharding."""

    text: str
    why: tuple[str, ...] = ()
    loc: Location | None = None

    def __str__(self) -> str:
        """The text with the location."""
        return self.text if self.loc is None else f"{self.text} ({place_text(self.loc)})"


def node_party(node: Node, role: str = "") -> Party:
    """A node as an end of an edge; `role`: a value of its regions, such as "argument", in its stead."""
    name = node.results[0].name if node.results and not role else ""
    text = f"{role} of {node.op}" if role else "annotation" if is_annotation(node) else node.op
    return Party(text + _quoted(name), node.sharding.why if node.sharding else (), node.loc)


def input_party(module: Module, number: int) -> Party:
    """An input of the program as an end of an edge."""
    value = module.graph.inputs[number]
    return Party(f"{_asked(module.in_annotations, number)}input '{value.name or number}'", (), value.loc)


def output_party(module: Module, number: int, name: str) -> Party:
    """An output of the program as an end of an edge."""
    return Party(f"{_asked(module.out_annotations, number)}output{_quoted(name)}")


def _asked(annotations: Sequence[Annotation | None], number: int) -> str:
    annotation = annotations[number] if number < len(annotations) else None
    return ("annotated " if annotation.required else "hinted ") if annotation else ""


def _quoted(name: str) -> str:
    return f" '{name}'" if name else ""


def split_reason(axis: str, loop: Factor | None, partial: str, origin: str, rejected: int) -> str:
    """Why an op uses an axis: the loop that it splits, or the kind of its partial values, the annotation that led to it, and the count of rejected choices."""
    if loop is not None:
        use = f"splits loop {loop.name} ({loop.size}{', summed' if loop.kind == 'reduce' else ''})"
    else:
        use = f"stays partial ({partial})" if partial else "is used"
    source = f" from {origin}" if origin else ""
    tail = f"; {rejected} other choice{'s' if rejected > 1 else ''} would move more" if rejected > 0 else ""
    return f"{axis} {use}{source}{tail}"


def reshard_reason(producer: Party, user: Party, plan: ReshardPlan, number: int, axes: Sequence[str]) -> str:
    """Why a step of a reshard is there: its edge, shardings, which step it is, and the split reasons of both ends on the axes that it moves."""
    count = f" (step {number + 1} of {len(plan.steps)})" if len(plan.steps) > 1 else ""
    text = f"{producer} gives {plan.source}, {user} needs {plan.target}{count}"
    ends = ((end, line) for end in (producer, user) for line in end.why)
    splits = [f"{end.text}: {line}" for end, line in ends if any(overlaps(line.split(" ")[0], a) for a in axes)]
    return "; ".join([text, *dict.fromkeys(splits)])


def need_reason(node: Node, need: str) -> str:
    """Why a node itself communicates on tiles: its purpose, and why its dims are split."""
    splits = "; ".join(node.sharding.why) if node.sharding else ""
    return f"{node.op}{bracketed(place_text(node.loc))} needs {need}" + (f"; {splits}" if splits else "")


def merged_reason(nodes: Sequence[Node], note: str) -> str:
    """Return the reasons of nodes that were merged, with a note on the merge; an empty text if the nodes have no reason."""
    text = "; and ".join(dict.fromkeys(node.notes.why for node in nodes if node.notes.why))
    return f"{text} [{note}]" if text and not text.endswith(f"[{note}]") else text


def placement_reason(node: Node, mesh: str, cause: str) -> str:
    """Why a node is on a mesh."""
    if node.op in ANNOTATIONS:
        return f"an annotation puts it on @{mesh}"
    name = _quoted(node.results[0].name if node.results else "")
    return f"{node.op}{name} is on @{mesh}" + (f" ({cause})" if cause else "")


def transfer_reason(value: Value, producer: Node | None, mesh: str, user: str) -> str:
    """Why a value is transferred: the mesh on which it is made, and the placement reason of its user."""
    name = f"'{value.name}'" if value.name else f"the result of {producer.op}" if producer else "an input"
    return f"{name} is on @{mesh}, {user}"


def crossing_reason(transfer: str, source: Sharding, target: Sharding) -> str:
    """The reason of a transfer, with the shardings between which it moves the value."""
    return "; ".join(filter(None, (transfer, f"it crosses from {source} to {target}")))
