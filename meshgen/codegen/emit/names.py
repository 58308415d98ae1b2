"""Names in a kernel's source: of the kernel, its parameters and its variables."""

from __future__ import annotations

import builtins
import keyword
import re

from meshgen.kernels.functions import FUNCTIONS

# Reserved words of Python, and names that sources use: names of the program must not shadow them.
_LANGUAGE = frozenset(
    [*keyword.kwlist, *keyword.softkwlist, *(n for n in dir(builtins) if n.islower()), "tl", "triton", *FUNCTIONS]
)
# Variable names of the templates of `meshgen/codegen/emit`.
_TEMPLATES = frozenset(
    ["tile", "acc", "m", "n", "k", "row", "col", "start", "batch", "i", "k_row", "k_col", "first", "height", "tile_m",
     "tile_n", "m_first", "m_lane", "n_first", "n_lane", "which", "w", "other", "lane", "u",
     "rank", "earlier", "comes_before"]
)  # fmt: skip


def identifier(preferred: str, otherwise: str) -> str:
    """An ASCII identifier close to the preferred name; it may still be a keyword."""
    base = re.sub(r"\W+", "_", preferred, flags=re.ASCII).strip("_") or otherwise
    return f"{otherwise[0]}{base}" if base[0].isdigit() else base


def entry_name(kernel: str) -> str:
    """The name of a kernel's function in its source: the kernel's name if that is free."""
    name = identifier(kernel, "kernel")
    return f"{name}_kernel" if name in _LANGUAGE else name


class Names:
    """Readable names of parameters and variables, each given once."""

    def __init__(self) -> None:
        self._taken: set[str] = set(_LANGUAGE | _TEMPLATES)
        self._last: dict[str, int] = {}  # the last number given to names that are alike

    def take(self, *names: str) -> None:
        """Keep names that are written as they are from all others."""
        assert self._taken.isdisjoint(names), "names are taken before others are given"
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
        """A name that ends in `_ptr`."""
        name, count = self.fresh(f"{preferred}_ptr"), 1
        while not name.endswith("_ptr"):
            count += 1
            name = self.fresh(f"{preferred}_{count}_ptr")
        return name
