"""Find the exposed collectives of a program, those that run while no kernel does, from a schedule of the program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from meshgen.ccl.cost import link_axes
from meshgen.errors import location_text
from meshgen.ir.graph import Module, Node
from meshgen.ir.op_names import TEXT_NAMES
from meshgen.mesh import Mesh
from meshgen.runtime.plan import Schedule
from meshgen.sharding.chunks.chain import CHUNKED


class CollectiveKey(NamedTuple):
    """Key of collectives that share one decision: equal op, attributes, operand and axes, wherever they are in the
    program.
    """

    op: str
    attrs: str
    operand: str
    axes: tuple[str, ...]

    def __str__(self) -> str:
        return f"{TEXT_NAMES.get(self.op, self.op)} over {', '.join(self.axes)} of {self.operand}"


class _Key(NamedTuple):
    """Key that identifies a collective by its source location, both in the program and in its schedule.

    The schedule has copies of the program's values, so values cannot be compared.
    """

    collective_key: CollectiveKey
    source: str


def exposed(module: Module, plan: Schedule) -> dict[CollectiveKey, dict[Node, float]]:
    """Return the exposed collectives outside of regions, by key, each with the seconds during which no kernel runs.

    Args:
        plan: a schedule of the fused module. Collectives with the same key and source location get equal shares of
            their exposed seconds.
    """
    seconds: dict[_Key, float] = {}
    for exposure in plan.exposures:
        item = plan.items[exposure.item]
        if item.op in CHUNKED:
            key = _schedule_key(item.op, item.attrs, str(plan.buffers[item.inputs[0]].type), item.source, module.mesh)
            seconds[key] = seconds.get(key, 0.0) + exposure.exposed
    nodes: dict[_Key, list[Node]] = {}
    for node in module.graph.nodes:
        if node.op in CHUNKED:
            key = _schedule_key(node.op, node.attrs, str(node.operands[0].type), location_text(node.loc), module.mesh)
            nodes.setdefault(key, []).append(node)
    exposed_nodes: dict[CollectiveKey, dict[Node, float]] = {}
    for key, equal_nodes in nodes.items():
        if seconds.get(key, 0.0) > 0:
            exposed_nodes.setdefault(key.collective_key, {}).update(
                dict.fromkeys(equal_nodes, seconds[key] / len(equal_nodes))
            )
    return exposed_nodes


def _schedule_key(op: str, attrs: Mapping[str, Any], operand: str, source: str, mesh: Mesh) -> _Key:
    return _Key(CollectiveKey(op, repr(sorted(attrs.items())), operand, link_axes(op, attrs, mesh)), source)
