"""Templates of kernels with a single op that has a loop nest of a special form, such as a sort.

The operands of the op are in memory or generated in registers (constants, iota). Each emitter reads the operands
through the evaluator.
"""

from __future__ import annotations

from collections.abc import Callable

from meshgen.codegen.emit.eval import Evaluator
from meshgen.codegen.emit.launch import Launch
from meshgen.codegen.emit.plan import KernelPlan, Template
from meshgen.codegen.emit.reduce_region import emit_fold
from meshgen.codegen.emit.scatter import emit_scatter
from meshgen.codegen.emit.select_windows import emit_select_and_scatter
from meshgen.codegen.emit.sort import emit_sort, emit_top_k
from meshgen.codegen.emit.windows import emit_reduce_window
from meshgen.codegen.fusion.form import KernelForm
from meshgen.cost_model.kernels import Device
from meshgen.ir.graph import Graph, Node


def _template(op: str, emit: Callable[[Evaluator, Node], Launch]) -> Template:
    def match(body: Graph, device: Device) -> KernelPlan | None:
        del device
        nest = next((node for node in body.nodes if node.op == op), None)
        return None if nest is None else KernelPlan(template, roles={"nest": nest})

    def emit_nest(evaluator: Evaluator, body: Graph, plan: KernelPlan, device: Device) -> Launch:
        del body, device
        node = plan.roles["nest"]
        assert isinstance(node, Node)
        return emit(evaluator, node)

    template = Template(op, match, emit_nest, KernelForm.OPAQUE, fuses=False)
    return template


NESTS = (
    _template("reduce_region", emit_fold),
    _template("reduce_window", emit_reduce_window),
    _template("scatter", emit_scatter),
    _template("select_and_scatter", emit_select_and_scatter),
    _template("sort", emit_sort),
    _template("top_k", emit_top_k),
)
