"""The operators of ONNX as functions over traced tensors, a file per family; importing this enters them in the table."""

from importlib import import_module
from pkgutil import iter_modules

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
