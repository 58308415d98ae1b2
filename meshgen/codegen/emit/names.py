"""Names of the variables in a kernel's source."""

from __future__ import annotations

import keyword
import re

from meshgen.kernels.functions import FUNCTIONS

# What the templates of `meshgen/codegen/emit` call their own variables, and what they use of Triton and Python.
_RESERVED = frozenset(
    ["tl", "triton", "tile", "float", "range", "acc", "m", "n", "k", "row", "col", "start", "batch", "i", "k_row", "k_col",
     "first", "height", "tile_m", "tile_n"]
)  # fmt: skip


class Names:
    """Readable names, each given once."""

    def __init__(self) -> None:
        self._taken: set[str] = set(_RESERVED) | set(keyword.kwlist) | set(FUNCTIONS)

    def fresh(self, wish: str) -> str:
        base = re.sub(r"\W+", "_", wish, flags=re.ASCII).strip("_").lower() or "value"
        base = f"v{base}" if base[0].isdigit() else base
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
