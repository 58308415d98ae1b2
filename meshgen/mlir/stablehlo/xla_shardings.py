"""Convert XLA's older text of shardings, such as `{devices=[2,1,4]<=[2,4]T(1,0) last_tile_dim_replicate}`, to mesh
axes.

The text lists the device of each tile. The axes are those of the program's mesh, or of the user's mesh, or of the
coarsest mesh of which all shardings in the program split entire axes.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from meshgen.ir.replica_groups import axes_along, strides_of
from meshgen.mesh import Axis, Mesh
from meshgen.spec import Sharding

MANUAL = "{manual}"  # sharding of a value that is local to each device, along all mesh axes
_UNSPLIT = ("{replicated}", MANUAL, "{unknown}", "")
_TILES = re.compile(
    r"\{devices=\[(?P<tiles>[\d,]+)\](?:<=\[(?P<iota>[\d,]+)\](?:T\((?P<perm>[\d,]+)\))?|(?P<list>\d[\d,]*))"
    r"(?:\s+(?P<last>last_tile_dim_replicate|last_tile_dims=\{(?P<kinds>[a-z, ]*)\}))?(?:\s+metadata=\{.*\})?\}"
)


class Tiles(NamedTuple):
    """A grid of devices: one dim per tensor dim, then dims along which the tensor is replicated or manual."""

    devices: np.ndarray
    rank: int
    manual: tuple[int, ...] = ()

    def strides(self) -> list[list[tuple[int, int]]] | None:
        """Return for each grid dim the (count, stride) pairs of the device numbers along it, inner to outer.

        Returns None if the device numbers have no such strides, so that the grid dims are not mesh axes.
        """
        total, dim_strides = np.zeros((), np.int64), list[list[tuple[int, int]]]()
        for dim, size in enumerate(self.devices.shape):
            dim_devices = np.moveaxis(self.devices, dim, 0).reshape(size, -1)[:, 0]
            total = total[..., None] + dim_devices
            strides = strides_of(dim_devices.tolist())
            if math.prod(count for count, _ in strides) != size or any(stride < 1 for _, stride in strides):
                return None
            dim_strides.append(strides)
        return dim_strides if (total == self.devices).all() else None


def tiles_of(text: str, rank: int | None = None) -> Tiles | None:
    """Parse the tiles of a tensor of rank `rank`, or of any rank if it is None. Returns None if no dim is split.

    Raises:
        ValueError: the text is malformed. The message is the reason.
    """
    if text in _UNSPLIT:
        return None
    match = _TILES.fullmatch(text)
    if match is None:
        raise ValueError("expected {replicated} or {devices=[tiles]<=[devices]}")
    shape = [int(word) for word in match["tiles"].split(",") if word]
    kinds = [kind.strip() for kind in (match["kinds"] or "replicated").split(",")] if match["last"] else []
    if unsupported := [kind for kind in kinds if kind not in ("manual", "replicated")]:
        raise ValueError(f"its last dims are '{unsupported[0]}', but only replicated and manual ones are supported")
    devices = _devices(match)
    if math.prod(shape) != devices.size or sorted(devices.tolist()) != list(range(devices.size)):
        raise ValueError(f"its {math.prod(shape)} tiles must be one for each of {devices.size} devices")
    tensor_rank = len(shape) - len(kinds)
    if rank is not None and tensor_rank != rank:
        raise ValueError(f"it splits {tensor_rank} dims of a tensor that has {rank}")
    manual = tuple(tensor_rank + index for index, kind in enumerate(kinds) if kind == "manual")
    return Tiles(devices.reshape(shape), tensor_rank, manual)


def _devices(match: re.Match[str]) -> np.ndarray:
    if match["list"]:
        return np.array([int(word) for word in match["list"].split(",") if word])
    shape = [int(word) for word in match["iota"].split(",") if word]
    order = [int(word) for word in (match["perm"] or "").split(",") if word] or list(range(len(shape)))
    if sorted(order) != list(range(len(shape))):
        raise ValueError(f"T({match['perm']}) is not a permutation of {len(shape)} dims")
    return np.arange(math.prod(shape)).reshape(shape).transpose(order).reshape(-1)


def sharding_of(text: str, rank: int, mesh: Mesh) -> Sharding:
    """Return the sharding that `text` states, over the axes of `mesh`. Raises ValueError with the reason if it is
    invalid.
    """
    if (tiles := tiles_of(text, rank)) is None:
        return Sharding.replicated(rank)
    return Sharding(_axes_along(tiles, range(rank), mesh))


def manual_axes_of(text: str, mesh: Mesh) -> tuple[str, ...]:
    """Return the axes of `mesh` that are manual: values are local to each device along them.

    Raises:
        ValueError: the sharding is invalid, or the axes are only sub-axes.
    """
    if text == MANUAL:
        return mesh.names
    if (tiles := tiles_of(text)) is None:
        return ()
    axes = tuple(axis for dim in _axes_along(tiles, tiles.manual, mesh) for axis in dim)
    if not {*axes} <= {*mesh.names}:
        raise ValueError(f"its manual dims are {list(axes)}, which are not whole axes of {mesh}")
    return axes


def _axes_along(tiles: Tiles, dims: Sequence[int], mesh: Mesh) -> tuple[tuple[str, ...], ...]:
    """Return the mesh axes along each of the grid dims `dims`. Raises ValueError if mesh axes do not form this grid."""
    if not mesh.is_static or tiles.devices.size != mesh.size:
        raise ValueError(f"it is over {tiles.devices.size} devices, but the mesh is {mesh}")
    strides, axes_by_dim = tiles.strides(), list[tuple[str, ...]]()
    for pairs in [strides[dim] for dim in dims] if strides is not None else ():
        parts = [axes_along(count, stride, mesh) for count, stride in reversed(pairs)]
        if None in parts:
            strides = None
            break
        axes_by_dim.append(tuple(axis for part in parts if part for axis in part))
    if strides is None:
        raise ValueError(f"its tiles do not follow axes of {mesh}")
    return tuple(axes_by_dim)


def mesh_of(texts: Iterable[str]) -> Mesh | None:
    """Return the coarsest mesh of which all these shardings split entire axes, or None if no mesh has such axes.

    Its axes are named `d0`, `d1` and so on.
    """
    boundaries = {1}
    for text in texts:
        try:
            tiles = tiles_of(text)
        except ValueError:
            continue
        for count, stride in (pair for pairs in (tiles.strides() or [] if tiles else []) for pair in pairs):
            boundaries |= {stride, stride * count}
    bounds = sorted(boundaries)
    if len(bounds) < 2 or any(b % a for a, b in itertools.pairwise(bounds)):
        return None
    sizes = [b // a for a, b in itertools.pairwise(bounds)][::-1]
    return Mesh(tuple(Axis(f"d{index}", size) for index, size in enumerate(sizes)))
