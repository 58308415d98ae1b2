"""The kernel templates by name, in the order in which they are tried."""

from __future__ import annotations

from meshgen.codegen.emit.attention import ATTENTION
from meshgen.codegen.emit.attention_gradient import ATTENTION_GRADIENT
from meshgen.codegen.emit.dot import DOT
from meshgen.codegen.emit.eval import Evaluator
from meshgen.codegen.emit.launch import Launch
from meshgen.codegen.emit.loop_nest_templates import NESTS
from meshgen.codegen.emit.map import MAP
from meshgen.codegen.emit.plan import KernelPlan, Template
from meshgen.codegen.emit.ragged import RAGGED
from meshgen.codegen.emit.recurrence import RECURRENCE
from meshgen.codegen.emit.reduce import REDUCE
from meshgen.codegen.emit.row_sums import ROW_SUMS
from meshgen.codegen.emit.segmented import segmented
from meshgen.codegen.fusion.form import KernelForm
from meshgen.cost_model.kernels import Device
from meshgen.errors import CodegenError, Diagnostic
from meshgen.ir.graph import Graph
from meshgen.packages import report_request


def _match_empty(body: Graph, device: Device) -> KernelPlan | None:
    del device
    return KernelPlan(_EMPTY) if any(v.type.size == 0 for v in body.outputs) else None


def _emit_empty(evaluator: Evaluator, body: Graph, plan: KernelPlan, device: Device) -> Launch:
    """Write an empty kernel, whose grid has no programs."""
    del body, plan, device
    evaluator.write("pass")
    return Launch((0, 1, 1), {}, 1, 1)


def _joining() -> list[Template]:
    """Return the templates whose kernels can share a launch with other kernels."""
    return [template for template in TEMPLATES.values() if template.joins]


_EMPTY = Template("empty", _match_empty, _emit_empty, KernelForm.OPAQUE, fuses=False)
TEMPLATES = {template.name: template for template in (
    _EMPTY, *NESTS, RECURRENCE, ROW_SUMS, REDUCE, segmented(_joining), MAP, ATTENTION, ATTENTION_GRADIENT, DOT, RAGGED,
)}  # fmt: skip


def template_named(name: str) -> Template | None:
    """Return the template called `name`, or None if no template has this name."""
    return TEMPLATES.get(name)


def plan_body(body: Graph, device: Device, recorded: str = "") -> KernelPlan:
    """Return the plan of the first template that can generate the body.

    Args:
        recorded: name of a template that is tried before all others.
    Raises:
        CodegenError: MG0301, if no template can generate the body.
    """
    first = template_named(recorded)
    for template in ([first] if first else []) + [other for other in TEMPLATES.values() if other is not first]:
        if plan := template.match(body, device):
            return plan
    ops = ", ".join(dict.fromkeys(n.op for n in body.nodes))
    raise CodegenError(
        Diagnostic(
            "MG0301",
            f"no kernel template fits kernel '{body.name}' ({ops})",
            body.nodes[0].loc,
            hint=report_request("the program"),
        )
    )
