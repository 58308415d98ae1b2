"""Looking names up: `mg.tril`, `mg.random.normal`, `mg.float32`, with near names for unknown ones."""

from __future__ import annotations

from typing import Any

from meshgen.frontend.tracer.dtypes import CONSTANTS
from meshgen.frontend.tracer.recording import OPS, missing

NAMESPACES = ("fft", "linalg", "random")


class Namespace:
    """The operations whose names begin with that of the namespace: `mg.fft.rfft`."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)  # protocols that other libraries ask for
        if found := OPS.get(f"{self.__name__}.{name}"):
            return found
        raise missing(name, f"mg.{self.__name__}.", dir(self))

    def __dir__(self) -> list[str]:
        return [name.partition(".")[2] for name in OPS if name.startswith(f"{self.__name__}.")]

    def __repr__(self) -> str:
        return f"<meshgen.{self.__name__}: {', '.join(dir(self))}>"


_NAMESPACES = {name: Namespace(name) for name in NAMESPACES}
HIDDEN = ("getitem", "at", "trace")  # operations that are written as methods only; `mg.trace` traces a function


def names() -> list[str]:
    """All names besides those of the package itself."""
    return sorted({*(name for name in OPS if "." not in name), *CONSTANTS, *NAMESPACES} - {*HIDDEN})


def find(name: str, known: list[str]) -> Any:
    """What `mg.NAME` is. Raises MissingNameError, with near names among these and the package's own."""
    for table in (OPS, CONSTANTS, _NAMESPACES):
        if name in table and name not in HIDDEN:
            return table[name]
    raise missing(name, "mg.", [*known, *names()])
