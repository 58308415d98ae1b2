"""Look up names such as `mg.tril`, `mg.random.normal` and `mg.float32`, with similar names for unknown ones."""

from __future__ import annotations

from typing import Any

from meshgen.frontend.tracer.dtypes import CONSTANTS
from meshgen.frontend.tracer.recording import OPS, missing

NAMESPACES = ("fft", "linalg", "random")


class Namespace:
    """A namespace of operations: `mg.fft.rfft` is the operation named `fft.rfft`."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)  # names of protocols that other libraries probe for
        if function := OPS.get(f"{self.__name__}.{name}"):
            return function
        raise missing(name, f"mg.{self.__name__}.", dir(self))

    def __dir__(self) -> list[str]:
        return [name.partition(".")[2] for name in OPS if name.startswith(f"{self.__name__}.")]

    def __repr__(self) -> str:
        return f"<meshgen.{self.__name__}: {', '.join(dir(self))}>"


_NAMESPACES = {name: Namespace(name) for name in NAMESPACES}
HIDDEN = ("getitem", "at", "trace")  # operations that are methods of tensors only; `mg.trace` traces a function


def names() -> list[str]:
    """Return all names except those that the package defines itself."""
    return sorted({*(name for name in OPS if "." not in name), *CONSTANTS, *NAMESPACES} - {*HIDDEN})


def find(name: str, known: list[str]) -> Any:
    """Return the object `mg.NAME`.

    Raises:
        MissingNameError: the name is unknown. The error has similar names, also from `known`, the package's own names.
    """
    for table in (OPS, CONSTANTS, _NAMESPACES):
        if name in table and name not in HIDDEN:
            return table[name]
    raise missing(name, "mg.", [*known, *names()])
