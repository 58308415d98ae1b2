"""Names in a kernel's source: the entry function, its parameters and its variables."""

from __future__ import annotations

import builtins
import keyword
import re

from meshgen.kernels.functions import FUNCTIONS

# Reserved words of Python and names that generated source uses, which variables must not shadow.
_LANGUAGE = frozenset(
    [*keyword.kwlist, *keyword.softkwlist, *(n for n in dir(builtins) if n.islower()), "tl", "triton", *FUNCTIONS]
)
# Variable names of the templates in `meshgen/codegen/emit`.
_TEMPLATES = frozenset(
    ["tile", "acc", "m", "n", "k", "row", "col", "start", "batch", "i", "k_row", "k_col", "first", "height", "tile_m",
     "tile_n", "m_first", "m_lane", "n_first", "n_lane", "which", "w", "other", "lane", "u",
     "rank", "earlier", "comes_before"]
)  # fmt: skip


def identifier(preferred: str, otherwise: str) -> str:
    """Return an ASCII identifier close to `preferred`, or `otherwise` if no character remains.

    The identifier may be a Python keyword.
    """
    base = re.sub(r"\W+", "_", preferred, flags=re.ASCII).strip("_") or otherwise
    return f"{otherwise[0]}{base}" if base[0].isdigit() else base


def entry_name(kernel: str) -> str:
    """Return the name of a kernel's entry function: the name of the kernel, unless that is reserved."""
    name = identifier(kernel, "kernel")
    return f"{name}_kernel" if name in _LANGUAGE else name


class Names:
    """Allocator of unique, readable names for parameters and variables."""

    def __init__(self) -> None:
        self._taken: set[str] = set(_LANGUAGE | _TEMPLATES)
        self._last: dict[str, int] = {}  # last numeric suffix used for each base name

    def take(self, *names: str) -> None:
        """Reserve names that templates write literally, so that no other variable gets them."""
        assert self._taken.isdisjoint(names), "fixed names are reserved before new ones are allocated"
        self._taken.update(names)

    def fresh(self, preferred: str) -> str:
        base = identifier(preferred, "value").lower()
        name, count = base, self._last.get(base, 1)
        while name in self._taken:
            count += 1
            name = f"{base}_{count}"
        self._taken.add(name)
        self._last[base] = count
        return name

    def pointer(self, preferred: str) -> str:
        """Return a new name that ends in `_ptr`."""
        name, count = self.fresh(f"{preferred}_ptr"), 1
        while not name.endswith("_ptr"):
            count += 1
            name = self.fresh(f"{preferred}_{count}_ptr")
        return name
