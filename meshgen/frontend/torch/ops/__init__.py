"""PyTorch's operations as functions on traced tensors, a file per family; importing it fills the table."""

from meshgen.frontend.torch.ops import (
    conv,
    creation,
    elementwise,
    fourier,
    indexing,
    linalg,
    losses,
    nn,
    norm_gradients,
    products,
    recurrent,
    reductions,
    shapes,
    special,
)
from meshgen.frontend.torch.ops.table import TORCH_OPS, TorchOp, find_op

__all__ = [
    "TORCH_OPS", "TorchOp", "conv", "creation", "elementwise", "find_op", "fourier", "indexing", "linalg", "losses", "nn", "norm_gradients", "products", "recurrent", "reductions",
    "shapes", "special",
]  # fmt: skip
