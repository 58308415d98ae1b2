"""Combine independent collectives with larger operands into one message if the predicted step becomes shorter.

    before   %1 = all_reduce %0 {axes = ["x"]}      %3 = all_reduce %2 {axes = ["x"]}
    after    %1, %3 = all_reduce %0, %2 {axes = ["x"]}

One message has one latency, but its operands must be copied into one buffer.
"""

from __future__ import annotations

from meshgen.codegen.planner import Planner
from meshgen.compilation import Compilation, module_pass
from meshgen.cost_model.model import DEFAULT
from meshgen.ir.graph import Module
from meshgen.sharding.optimizations.collective_combine import combined
from meshgen.sharding.rewrites.program_cost import link_seconds


@module_pass("collective-combine-large", "partition", applies="if cheaper")
def collective_combine_large(module: Module, context: Compilation) -> Module:
    """Combine collectives as `collective_combine` does, also those whose larger operands take longer to copy.

    Returns the module itself if the saved latencies are a smaller fraction of the step than the error of a prediction.
    """
    larger = combined(module, DEFAULT.messages.larger_share)
    if larger is module:
        return module
    saved = link_seconds(module)[1] - link_seconds(larger)[1]
    step_seconds = Planner.of(context, module.mesh).candidate(module).plan().step_seconds
    return larger if saved >= (DEFAULT.scheduling.same_step - 1) * step_seconds else module
