"""Larger independent collectives become one message, where the predicted step is then shorter."""

from __future__ import annotations

from meshgen.codegen.planner import Planner
from meshgen.compilation import Compilation, module_pass
from meshgen.cost_model.model import DEFAULT
from meshgen.ir.graph import Module
from meshgen.sharding.optimizations.collective_combine import combined
from meshgen.sharding.rewrites.compare import link_seconds


@module_pass("collective-combine-large", "partition", applies="if cheaper")
def collective_combine_large(module: Module, context: Compilation) -> Module:
    """Combine collectives as `collective_combine` does, also those whose larger operands take longer to copy.

    Returns the module itself if the latencies that this saves are less of the step than a prediction is worth.
    """
    larger = combined(module, DEFAULT.messages.larger_share)
    if larger is module:
        return module
    saved = link_seconds(module)[1] - link_seconds(larger)[1]
    step_seconds = Planner.of(context, module.mesh).candidate(module).plan().step_seconds
    return larger if saved >= (DEFAULT.scheduling.same_step - 1) * step_seconds else module
