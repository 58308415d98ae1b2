"""XLA's older spelling of shardings, as axes of a mesh: `{devices=[2,1,4]<=[2,4]T(1,0) last_tile_dim_replicate}`.

It numbers the devices of each tile. The mesh is the program's, the user's, or the coarsest one of which all
shardings of the program split whole axes.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable

import numpy as np

from meshgen.ir.replica_groups import axes_along, strides_of
from meshgen.mesh import Axis, Mesh
from meshgen.records import dataclass
from meshgen.spec import Sharding

_WHOLE = ("{replicated}", "{manual}", "{unknown}", "")
_TILES = re.compile(
    r"\{devices=\[(?P<tiles>[\d,]+)\](?:<=\[(?P<iota>[\d,]+)\](?:T\((?P<perm>[\d,]+)\))?|(?P<list>\d[\d,]*))"
    r"(?P<last>(?:\s+(?:last_tile_dim_replicate|last_tile_dims=\{[a-z, ]*\}))?)(?:\s+metadata=\{.*\})?\}"
)


@dataclass(frozen=True)
class Tiles:
    """Devices as a grid: a dim for each dim of the tensor, then dims over which tiles are repeated."""

    devices: np.ndarray
    rank: int

    def strides(self) -> list[list[tuple[int, int]]] | None:
        """Per dim of the grid (counts, strides) of the devices along it, inner to outer; None if it does not follow mesh axes."""
        total, found = np.zeros((), np.int64), list[list[tuple[int, int]]]()
        for dim, size in enumerate(self.devices.shape):
            along = np.moveaxis(self.devices, dim, 0).reshape(size, -1)[:, 0]
            total = total[..., None] + along
            strides = strides_of(along.tolist())
            if math.prod(count for count, _ in strides) != size or any(stride < 1 for _, stride in strides):
                return None
            found.append(strides)
        return found if (total == self.devices).all() else None


def tiles_of(text: str, rank: int | None = None) -> Tiles | None:
    """The tiles of a tensor (of `rank` dims, or as many as the text says). None for a whole tensor.

    Raises ValueError with the fault of a malformed text.
    """
    if text in _WHOLE:
        return None
    match = _TILES.fullmatch(text)
    if match is None:
        raise ValueError("expected {replicated} or {devices=[tiles]<=[devices]}")
    shape = [int(word) for word in match["tiles"].split(",") if word]
    words = match["last"].partition("=")[2].count(",") + 1 if match["last"] else 0
    if "manual" in match["last"]:
        raise ValueError("it has manual axes, which need a manual computation")
    devices = _devices(match)
    if math.prod(shape) != devices.size or sorted(devices.tolist()) != list(range(devices.size)):
        raise ValueError(f"its {math.prod(shape)} tiles must be one for each of {devices.size} devices")
    if rank is not None and len(shape) - words != rank:
        raise ValueError(f"it splits {len(shape) - words} dims of a tensor that has {rank}")
    return Tiles(devices.reshape(shape), len(shape) - words)


def _devices(match: re.Match[str]) -> np.ndarray:
    if match["list"]:
        return np.array([int(word) for word in match["list"].split(",") if word])
    shape = [int(word) for word in match["iota"].split(",") if word]
    order = [int(word) for word in (match["perm"] or "").split(",") if word] or list(range(len(shape)))
    if sorted(order) != list(range(len(shape))):
        raise ValueError(f"T({match['perm']}) is not a permutation of {len(shape)} dims")
    return np.arange(math.prod(shape)).reshape(shape).transpose(order).reshape(-1)


def sharding_of(text: str, rank: int, mesh: Mesh) -> Sharding:
    """The sharding over the axes of `mesh`. Raises ValueError with what is wrong."""
    if (tiles := tiles_of(text, rank)) is None:
        return Sharding.replicated(rank)
    if not mesh.is_static or tiles.devices.size != mesh.size:
        raise ValueError(f"it is over {tiles.devices.size} devices, but the mesh is {mesh}")
    strides, dims = tiles.strides(), list[tuple[str, ...]]()
    for pairs in (strides or [])[:rank]:
        parts = [axes_along(count, stride, mesh) for count, stride in reversed(pairs)]
        if None in parts:
            strides = None
            break
        dims.append(tuple(axis for part in parts if part for axis in part))
    if strides is None:
        raise ValueError(f"its tiles do not follow axes of {mesh}")
    return Sharding(tuple(dims))


def mesh_of(texts: Iterable[str]) -> Mesh | None:
    """The coarsest mesh of which all these shardings split whole axes, `d0`, `d1`, ...; None where there is none."""
    ends = {1}
    for text in texts:
        try:
            tiles = tiles_of(text)
        except ValueError:
            continue
        for count, stride in (pair for pairs in (tiles.strides() or [] if tiles else []) for pair in pairs):
            ends |= {stride, stride * count}
    bounds = sorted(ends)
    if len(bounds) < 2 or any(b % a for a, b in itertools.pairwise(bounds)):
        return None
    sizes = [b // a for a, b in itertools.pairwise(bounds)][::-1]
    return Mesh(tuple(Axis(f"d{number}", size) for number, size in enumerate(sizes)))
