"""Whether the body of a kernel is a well-formed program, and its launch parameters are those of it."""

from __future__ import annotations

from meshgen.ir.evaluate.evaluator import HANDLERS
from meshgen.ir.graph import Graph
from meshgen.ir.infer.inference import verify_node
from meshgen.ir.regions import all_nodes
from meshgen.mesh import Mesh
from meshgen.runtime.manifest import Kernel
from meshgen.runtime.simulate import rank_handlers


def body_fault(body: Graph, mesh: Mesh) -> str:
    """What is wrong with a kernel's body, regions included; empty: nothing."""
    known = {*HANDLERS, *rank_handlers(mesh, 0)}
    graphs = [body]
    for node in all_nodes(body):
        if node.op not in known:
            return f"'{node.op}' is nothing that a kernel does"
        graphs += node.regions
    if any(None in value.type.shape for graph in graphs for value in graph.values()):
        return "sizes in it are open"
    return next((fault.message for node in body.nodes for fault in verify_node(node, mesh)), "")


def launch_fault(kernel: Kernel, body: Graph, mesh: Mesh) -> str:
    """What is wrong with the launch parameters; empty: nothing."""
    counts = {"operand": len(body.inputs), "result": len(body.outputs)}
    for param in kernel.params:
        if param.kind == "coordinate":
            mesh.group_size(param.axes)  # raises for an unknown axis
        elif not 0 <= param.index < counts[param.kind]:
            return f"it has no {param.kind} {param.index}"
    return ""
