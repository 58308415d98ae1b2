"""meshgen: an SPMD compiler that turns one-device tensor programs, a mesh and a few annotations into GPU programs.

Public names are imported on first use, so that the runtime can be used without the compiler. `__init__.pyi` has their
types.
"""

from __future__ import annotations

import sys
import time
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

__version__ = "0.1.0"
IMPORTED_AT = time.perf_counter()  # start time; a command's time includes the imports

_PLACES = {
    "meshgen.api": ("advise", "compile", "load", "lower", "replan", "simulate"),
    "meshgen.auto": ("mutate", "search"),
    "meshgen.errors": ("MeshgenError",),
    "meshgen.compiled.executable": ("Executable",),
    "meshgen.frontend.constants": ("constant",),
    "meshgen.frontend.jax_calls": ("from_jax",),
    "meshgen.frontend.torch.placements": ("to_placements",),
    "meshgen.frontend.torch.training": ("training_step",),
    "meshgen.frontend.tracer.op_rule": ("op_rule",),
    "meshgen.frontend.tracer.manual": ("manual",),
    "meshgen.frontend.tracer": ("Tensor", "annotate", "spec", "trace"),
    "meshgen.mesh": ("Mesh", "make_mesh"),
    "meshgen.runtime.sessions.session": ("Session",),
    "meshgen.runtime.sessions.sharded": ("ShardedArray",),
    "meshgen.reports.picture": ("show",),
    "meshgen.spec": ("P", "Sharding"),
}
_HOME = {name: place for place, names in _PLACES.items() for name in names}
# the type stub `__init__.pyi` has the names
__all__ = sorted(_HOME)  # pyright: ignore[reportUnsupportedDunderAll]  # one list of names, not two


def __getattr__(name: str) -> Any:
    """Import a public name on first use: a function or class of meshgen, or an op of the tracer (`matmul`, `softmax`,
    ...).
    """
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    is_user_name = not name.startswith("_") or name.startswith(
        "__array_"
    )  # the names of the tracer and of the array-API standard
    if is_user_name and not find_spec(f"{__name__}.{name}"):  # for a submodule, the import system is used instead
        return import_module("meshgen.frontend.tracer").find(name, __all__)
    raise AttributeError(f"module 'meshgen' has no attribute {name!r}")


class _Package(ModuleType):
    """Module type that keeps `meshgen.spec` bound to the function. Importing the submodule `meshgen/spec.py` would
    otherwise rebind the name to the submodule.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _HOME and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __dir__() -> list[str]:
    return sorted({*__all__, *import_module("meshgen.frontend.tracer.namespaces").names()})
