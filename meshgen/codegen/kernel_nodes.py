"""Launches of kernel bodies, and the name of the template that is recorded in each body.

    kernel @softmax(%x)      @softmax: meshgen.kernel = "reduce"

Each body is matched to a template once, when it is created. Later passes, reports and code generation read the recorded
template. If no template can generate a body, the body's graph caches that result. Matching uses the default target. If
the recorded template cannot generate the body for another target, the body is matched again for that target.
"""

from __future__ import annotations

from collections.abc import Sequence

from meshgen.codegen.emit.conv import lower_convolutions
from meshgen.codegen.emit.plan import Template
from meshgen.codegen.emit.templates import plan_body, template_named
from meshgen.codegen.fusion.bodies import Kernels
from meshgen.codegen.roofline.kernel_time import device_of
from meshgen.codegen.targets import DEFAULT_TARGET
from meshgen.errors import CodegenError, Location
from meshgen.ir.analysis import graph_analysis
from meshgen.ir.graph import Graph, Node, Value


def kernel_node(
    kernels: Kernels, body: Graph, operands: Sequence[Value], results: Sequence[Value], loc: Location | None
) -> Node:
    """Return a launch of `body`. Adds the body, with its template recorded, to `kernels`."""
    name = kernels.name_of(body)
    recorded_template(kernels.bodies[name])
    return Node("kernel", list(operands), list(results), {"kernel": name}, loc)


def recorded_template(body: Graph) -> Template | None:
    """Return the template of a kernel body, or None if no template can generate it.

    The first call records the template in the body.
    """
    if (template := template_named(body.template)) is not None:
        return template
    template = _default_template(body)
    body.template = template.name if template else ""
    return template


@graph_analysis
def _default_template(body: Graph) -> Template | None:
    """Return the template that generates a body for the default target, or None if no template does."""
    try:
        return plan_body(lower_convolutions(body), device_of(DEFAULT_TARGET)).template
    except CodegenError:
        return None
