"""Lookup of names such as `mg.tril`, `mg.random.normal` and `mg.float32`. Unknown names get suggestions."""

from __future__ import annotations

from typing import Any

from meshgen.frontend.tracer.dtypes import CONSTANTS
from meshgen.frontend.tracer.recording import OPS, missing

NAMESPACES = ("fft", "linalg", "random")


class Namespace:
    """A namespace of the package, such as `mg.fft`: `mg.fft.rfft` is the operation named `fft.rfft`."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)  # Other libraries probe for the names of protocols such as `__array__`.
        if function := OPS.get(f"{self.__name__}.{name}"):
            return function
        raise missing(name, f"mg.{self.__name__}.", dir(self))

    def __dir__(self) -> list[str]:
        return [name.partition(".")[2] for name in OPS if name.startswith(f"{self.__name__}.")]

    def __repr__(self) -> str:
        return f"<meshgen.{self.__name__}: {', '.join(dir(self))}>"


_NAMESPACES = {name: Namespace(name) for name in NAMESPACES}
# Not available as `mg.NAME`: operations that are only methods of tensors. `mg.trace` traces a function.
HIDDEN = ("getitem", "at", "trace")


def names() -> list[str]:
    """Return all names that `find` can look up, in order."""
    return sorted({*(name for name in OPS if "." not in name), *CONSTANTS, *NAMESPACES} - {*HIDDEN})


def find(name: str, known: list[str]) -> Any:
    """Return the object `mg.NAME`, such as an operation, a dtype or a namespace.

    Raises:
        MissingNameError: the name is unknown. The error suggests similar names, also from `known`, the names that the
            package itself defines.
    """
    for table in (OPS, CONSTANTS, _NAMESPACES):
        if name in table and name not in HIDDEN:
            return table[name]
    raise missing(name, "mg.", [*known, *names()])
