"""Larger independent collectives become one message, where the predicted step is then shorter."""

from __future__ import annotations

from meshgen.cost_model.model import DEFAULT
from meshgen.ir.graph import Module
from meshgen.sharding.optimizations.collective_combine import combined


def collective_combine_large(module: Module) -> Module:
    """As `collective_combine`, for larger operands, which take longer to copy. The module itself if nothing more can be combined."""
    return combined(module, DEFAULT.messages.larger_share)
