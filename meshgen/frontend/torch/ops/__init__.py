"""PyTorch operations as functions on traced tensors, one file per family.

Importing the package registers all functions in the table (`table.py`).
"""

from importlib import import_module
from pkgutil import iter_modules

from meshgen.frontend.torch.ops.table import TORCH_OPS, TorchOp, find_op

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = ["TORCH_OPS", "TorchOp", "find_op"]
