"""Memory layouts of GEMM operands that the hardware supports, and the cost of other layouts."""

from __future__ import annotations

from meshgen.cost_model.model import DEFAULT
from meshgen.ir.graph import DTYPES, Node, Value
from meshgen.kernels.matmul import TMA_ALIGNMENT, TMA_BYTES, TMA_K
from meshgen.ops.dot_dims import DotDims

Dims = tuple[int, ...]


def supported_layout(value: Value, contract: Dims) -> tuple[Dims, int]:
    """Return the layout of an operand that tensor cores and TMA descriptors support.

    Returns:
        The order of the operand's dims, and the length of its rows in elements, padded to the alignment of TMA.
    """
    sizes, item_bytes = value.type.sizes, DTYPES[value.type.dtype].itemsize
    order = tuple(range(len(sizes)))
    if item_bytes == 1 and contract and order[-1] not in contract:
        order = (*(d for d in order if d not in contract), *contract)
    step = TMA_ALIGNMENT // item_bytes
    return order, -(-sizes[order[-1]] // step) * step


def layout_slowdown(node: Node, side: int) -> float:
    """Return the relative increase of a `dot_general`'s time that the memory layout of operand `side` causes."""
    value, dims, model = node.operands[side], DotDims.of(node), DEFAULT.kernels
    lhs, rhs = (operand.type for operand in node.operands)
    item_bytes = DTYPES[value.type.dtype].itemsize
    if (
        lhs.dtype != rhs.dtype
        or item_bytes not in TMA_BYTES
        or value.type.rank < 2
        or dims.extents(lhs, rhs)[3] < TMA_K
    ):
        return 0.0
    order, _ = supported_layout(value, dims.contract[side])
    is_transposed, is_unaligned = order[-1] != value.type.rank - 1, value.type.sizes[-1] * item_bytes % TMA_ALIGNMENT
    return model.transposed_share * is_transposed + (model.unaligned_share if is_unaligned else 0.0)
