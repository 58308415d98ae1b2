"""ONNX operators as functions on traced tensors, one file per family.

Importing the package registers them in the table.
"""

from importlib import import_module
from pkgutil import iter_modules

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
