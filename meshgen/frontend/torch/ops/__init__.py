"""PyTorch's operations as functions on traced tensors, a file per family; importing it fills the table."""

from meshgen.frontend.torch.ops import (
    conv,
    creation,
    distances,
    elementwise,
    embedding_bags,
    folding,
    fourier,
    grids,
    indexing,
    linalg,
    losses,
    lu,
    nn,
    norm_gradients,
    padding,
    pooling,
    products,
    recurrent,
    reductions,
    resizing,
    scattering,
    searching,
    shapes,
    special,
    strided,
)
from meshgen.frontend.torch.ops.table import TORCH_OPS, TorchOp, find_op

__all__ = [
    "TORCH_OPS", "TorchOp", "conv", "creation", "distances", "elementwise", "embedding_bags", "find_op", "folding", "fourier", "grids", "indexing", "linalg", "losses", "lu", "nn", "norm_gradients", "padding", "pooling", "products", "recurrent",
    "reductions", "resizing", "scattering", "searching", "shapes", "special", "strided",
]  # fmt: skip
