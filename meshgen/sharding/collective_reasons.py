"""Reasons of collectives and transfers as text, as `why` shows them. Each function writes one kind of reason.

    a use needs another sharding  dot_general 'h' (f.mlir:3) gives [{x}, {}], tanh 'y' (f.mlir:4) needs [{}, {}];
    dot_general 'h': x splits ...
    an op needs other tiles       cumsum 'c' (f.mlir:5) needs the totals of other tiles; x splits loop a (64) from ...
    a pass changed collectives    <reason>; and <reason> [two all_reduces folded into one]
    a value changes its mesh      'h' is on @first, tanh 'y' is on @second (its operands are there); it crosses from
    [{x}, {}] to [{y}, {}]

`ir/reasons.py` writes the reason of a collective that the source program contains itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from meshgen.errors import Location, bracketed, location_text
from meshgen.ir.graph import Annotation, Module, Node, Value
from meshgen.ir.op_names import ANNOTATIONS
from meshgen.ir.predicates import is_annotation
from meshgen.mesh import overlaps
from meshgen.ops.rules.rule import Factor
from meshgen.sharding.reshard.plan import ReshardPlan
from meshgen.spec import Sharding


class Party(NamedTuple):
    """An end of an edge as text: an op, input or output, with a location and the reasons for the sharding."""

    text: str
    why: tuple[str, ...] = ()
    loc: Location | None = None

    def __str__(self) -> str:
        """Return the text with the location."""
        return self.text if self.loc is None else f"{self.text} ({location_text(self.loc)})"


def node_party(node: Node, role: str = "") -> Party:
    """Return a node as an end of an edge.

    With a `role` such as "argument", the end is the value with that role in the node's regions instead.
    """
    name = node.results[0].name if node.results and not role else ""
    text = f"{role} of {node.op}" if role else "annotation" if is_annotation(node) else node.op
    return Party(text + _quoted(name), node.sharding.why if node.sharding else (), node.loc)


def input_party(module: Module, number: int) -> Party:
    """Return an input of the program as an end of an edge."""
    value = module.graph.inputs[number]
    return Party(f"{_annotation_prefix(module.in_annotations, number)}input '{value.name or number}'", (), value.loc)


def output_party(module: Module, number: int, name: str) -> Party:
    """Return an output of the program as an end of an edge."""
    return Party(f"{_annotation_prefix(module.out_annotations, number)}output{_quoted(name)}")


def _annotation_prefix(annotations: Sequence[Annotation | None], number: int) -> str:
    annotation = annotations[number] if number < len(annotations) else None
    return ("annotated " if annotation.required else "hinted ") if annotation else ""


def _quoted(name: str) -> str:
    return f" '{name}'" if name else ""


def split_reason(axis: str, loop: Factor | None, partial: str, origin: str, rejected: int) -> str:
    """Return why an op uses a mesh axis.

    The text names the loop that the axis splits (or the kind of partial values), the annotation that led to it
    (`origin`), and the number of `rejected` choices.
    """
    if loop is not None:
        use = f"splits loop {loop.name} ({loop.size}{', summed' if loop.kind == 'reduce' else ''})"
    else:
        use = f"stays partial ({partial})" if partial else "is used"
    source = f" from {origin}" if origin else ""
    tail = f"; {rejected} other choice{'s' if rejected > 1 else ''} would move more" if rejected > 0 else ""
    return f"{axis} {use}{source}{tail}"


def reshard_reason(producer: Party, user: Party, plan: ReshardPlan, number: int, axes: Sequence[str]) -> str:
    """Return the reason of step `number` of a reshard plan.

    The text names the edge, the shardings at its ends, the position of the step in the plan, and the reasons why the
    axes that the step moves split the value at both ends.
    """
    count = f" (step {number + 1} of {len(plan.steps)})" if len(plan.steps) > 1 else ""
    text = f"{producer} gives {plan.source}, {user} needs {plan.target}{count}"
    ends = ((end, line) for end in (producer, user) for line in end.why)
    splits = [f"{end.text}: {line}" for end, line in ends if any(overlaps(line.split(" ")[0], a) for a in axes)]
    return "; ".join([text, *dict.fromkeys(splits)])


def need_reason(node: Node, need: str) -> str:
    """Return why an op communicates in order to compute its own tiles: the purpose `need`, and why its dims are
    split.
    """
    splits = "; ".join(node.sharding.why) if node.sharding else ""
    return f"{node.op}{bracketed(location_text(node.loc))} needs {need}" + (f"; {splits}" if splits else "")


def merged_reason(nodes: Sequence[Node], note: str) -> str:
    """Return the reasons of merged nodes with a note on the merge, or an empty text if no node has a reason."""
    text = "; and ".join(dict.fromkeys(node.notes.why for node in nodes if node.notes.why))
    return f"{text} [{note}]" if text and not text.endswith(f"[{note}]") else text


def placement_reason(node: Node, mesh: str, cause: str) -> str:
    """Return why a node is on a mesh."""
    if node.op in ANNOTATIONS:
        return f"an annotation puts it on @{mesh}"
    name = _quoted(node.results[0].name if node.results else "")
    return f"{node.op}{name} is on @{mesh}" + (f" ({cause})" if cause else "")


def transfer_reason(value: Value, producer: Node | None, mesh: str, user: str) -> str:
    """Return why a value is transferred: the mesh of its producer, and the reason why its user is on another mesh."""
    name = f"'{value.name}'" if value.name else f"the result of {producer.op}" if producer else "an input"
    return f"{name} is on @{mesh}, {user}"


def crossing_reason(transfer: str, source: Sharding, target: Sharding) -> str:
    """Return the reason of a transfer, with the shardings between which it moves the value."""
    return "; ".join(filter(None, (transfer, f"it crosses from {source} to {target}")))
