"""Names in a kernel's source: of the kernel, its parameters and its variables."""

from __future__ import annotations

import builtins
import keyword
import re

from meshgen.kernels.functions import FUNCTIONS

# What Python keeps for itself, and what sources call: none of it may be hidden by a name of the program's.
_LANGUAGE = frozenset(
    [*keyword.kwlist, *keyword.softkwlist, *(n for n in dir(builtins) if n.islower()), "tl", "triton", *FUNCTIONS]
)
# What the templates of `meshgen/codegen/emit` call their own variables.
_TEMPLATES = frozenset(
    ["tile", "acc", "m", "n", "k", "row", "col", "start", "batch", "i", "k_row", "k_col", "first", "height", "tile_m",
     "tile_n", "which"]
)  # fmt: skip


def identifier(wish: str, otherwise: str) -> str:
    """An ASCII identifier that reads like the wish; it may still be a keyword."""
    base = re.sub(r"\W+", "_", wish, flags=re.ASCII).strip("_") or otherwise
    return f"{otherwise[0]}{base}" if base[0].isdigit() else base


def entry_name(kernel: str) -> str:
    """What the function of a kernel is called in its own source: the kernel's name wherever that is free."""
    name = identifier(kernel, "kernel")
    return f"{name}_kernel" if name in _LANGUAGE else name


class Names:
    """Readable names of parameters and variables, each given once."""

    def __init__(self) -> None:
        self._taken: set[str] = set(_LANGUAGE | _TEMPLATES)

    def fresh(self, wish: str) -> str:
        base = identifier(wish, "value").lower()
        name, count = base, 1
        while name in self._taken:
            count += 1
            name = f"{base}_{count}"
        self._taken.add(name)
        return name

    def pointer(self, wish: str) -> str:
        """A name that ends in `_ptr`."""
        name, count = self.fresh(f"{wish}_ptr"), 1
        while not name.endswith("_ptr"):
            count += 1
            name = self.fresh(f"{wish}_{count}_ptr")
        return name
