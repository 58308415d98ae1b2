"""Check that control flow around collectives is uniform across devices; divergent control flow would deadlock."""

from __future__ import annotations

from collections.abc import Iterator

from meshgen.codegen.collective_predicates import communicates
from meshgen.errors import CodegenError, Diagnostic
from meshgen.ir.graph import Graph, Module, Node, Value
from meshgen.ir.predicates import is_loop, is_scan
from meshgen.ops.uniformity import Varying


def require_agreement(module: Module) -> None:
    """Raise an error unless control flow around collectives is uniform in a `partition`-stage module.

    Loops are unrolled as far as possible before.

    Raises:
        CodegenError: MG0401, for each loop or branch around collectives whose condition may differ between devices.
    """
    flows = list(_flows(module.graph))
    if not flows:
        return
    varying = Varying(module)
    axes = [axis.name for axis in module.mesh.axes]
    faults = [_divergence(node, different) for node in flows if (different := varying.along(_choice(node), axes))]
    if faults:
        raise CodegenError(*faults)


def _flows(graph: Graph) -> Iterator[Node]:
    """Yield the loops and branches that communicate, including nested ones.

    Scans have the same trip count on all devices.
    """
    for node in graph.nodes:
        if any(map(communicates, node.regions)):
            if not is_scan(node):
                yield node
            for region in node.regions:
                yield from _flows(region)


def _choice(node: Node) -> Value:
    """Return the value that a control flow op decides by: the loop condition, or the branch index."""
    return node.regions[0].outputs[0] if is_loop(node) else node.operands[0]


def _divergence(node: Node, axes: list[str]) -> Diagnostic:
    deciding_value = "the condition" if is_loop(node) else "the branch index"
    return Diagnostic(
        "MG0401",
        f"'{node.op}' holds collectives, but {deciding_value} may differ between devices along {', '.join(axes)}: they would deadlock",
        node.loc,
        hint="reduce it over these axes first (all_reduce, psum), or move the collectives out",
    )
