"""Find the exposed collectives of a program, those that run while no kernel does, by a schedule of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from meshgen.ccl.cost import link_axes
from meshgen.errors import place_text
from meshgen.ir.graph import Module, Node
from meshgen.ir.op_names import TEXT_NAMES
from meshgen.mesh import Mesh
from meshgen.runtime.plan import Schedule
from meshgen.sharding.chunks.chain import CHUNKED


class Alike(NamedTuple):
    """Key of collectives that share a decision: all but the location in the program."""

    op: str
    attrs: str
    operand: str
    axes: tuple[str, ...]

    def __str__(self) -> str:
        return f"{TEXT_NAMES.get(self.op, self.op)} over {', '.join(self.axes)} of {self.operand}"


class _Key(NamedTuple):
    """Key of a collective that is the same in the program and in its schedule, which has other values."""

    alike: Alike
    source: str


def exposed(module: Module, plan: Schedule) -> dict[Alike, dict[Node, float]]:
    """Seconds of each collective of the program, outside of regions, during which no kernel runs; only exposed ones, by kind.

    Args:
        plan: a schedule of the module, fused. Collectives that differ only in identity share their exposed seconds.
    """
    seconds: dict[_Key, float] = {}
    for each in plan.exposures:
        item = plan.items[each.item]
        if item.op in CHUNKED:
            key = _schedule_key(item.op, item.attrs, str(plan.buffers[item.inputs[0]].type), item.source, module.mesh)
            seconds[key] = seconds.get(key, 0.0) + each.exposed
    nodes: dict[_Key, list[Node]] = {}
    for node in module.graph.nodes:
        if node.op in CHUNKED:
            key = _schedule_key(node.op, node.attrs, str(node.operands[0].type), place_text(node.loc), module.mesh)
            nodes.setdefault(key, []).append(node)
    found: dict[Alike, dict[Node, float]] = {}
    for key, alike in nodes.items():
        if seconds.get(key, 0.0) > 0:
            found.setdefault(key.alike, {}).update(dict.fromkeys(alike, seconds[key] / len(alike)))
    return found


def _schedule_key(op: str, attrs: Mapping[str, Any], operand: str, source: str, mesh: Mesh) -> _Key:
    return _Key(Alike(op, repr(sorted(attrs.items())), operand, link_axes(op, attrs, mesh)), source)
