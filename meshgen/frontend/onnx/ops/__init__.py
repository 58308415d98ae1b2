"""Import rules for ONNX operators: functions on traced tensors, one file per family of operators.

Importing this package registers all rules in the table (`table.py`).
"""

from importlib import import_module
from pkgutil import iter_modules

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
