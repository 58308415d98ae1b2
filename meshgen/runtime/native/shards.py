"""The shards of global arrays in the memory of the ranks, as boxes, for scatter and gather without Python."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from meshgen.errors import Diagnostic, MissingError
from meshgen.ops.evaluate.common import neutral, poison
from meshgen.runtime.module_file.manifest import Binding, Manifest
from meshgen.runtime.native.words import Record

ARRAY, CONSTANT = 0, 1  # the fill of an argument's box
_PATTERN = 16  # bytes, of the largest element


def argument_shards(manifest: Manifest, binding: Binding) -> Iterator[Record]:
    """Per rank: whether its box holds the array or a constant, poison and the constant (two words each), and the box."""
    dtype = binding.type.dtype
    for rank in range(manifest.mesh.size):
        box, constant = _argument_box(manifest, binding, rank), None
        for axis, kind in reversed(binding.sharding.partial):
            if manifest.arguments != "global" and manifest.mesh.coordinate(rank, axis):
                constant = neutral(kind, dtype)
                break
        filler = np.zeros((), binding.type.numpy_dtype) if constant is None else constant
        yield (ARRAY if constant is None else CONSTANT, *_pattern(poison(dtype)), *_pattern(filler), *box)


def result_shards(manifest: Manifest, binding: Binding) -> list[Record]:
    """Per rank whether its box is copied to the global result, and the box; replicas of an earlier rank are not.

    Raises MissingError MG0602 for a result that is left partial: reducing it takes NumPy.
    """
    if binding.sharding.partial:
        text = f"result '{binding.name}' is partial over {', '.join(binding.sharding.partial_axes)}"
        hint = "annotate the result without partial axes; --device reference and --device cuda reduce it on the host"
        raise MissingError(Diagnostic("MG0602", f"{text}: the C loader does not reduce results", hint=hint))
    seen: set[tuple[int, ...]] = set()
    found: list[Record] = []
    for rank in range(manifest.mesh.size):
        key = tuple(manifest.mesh.index(rank, axes) for axes in binding.sharding.dims)
        found.append((int(key not in seen), *_flat_words(list(_owned(manifest, binding, rank)))))
        seen.add(key)
    return found


def _argument_box(manifest: Manifest, binding: Binding, rank: int) -> Record:
    """Per dim: the first row in the array, in the rank's buffer, and how many."""
    shape, sharding, mesh = binding.type.sizes, binding.sharding, manifest.mesh
    if manifest.arguments == "global":
        return tuple(_flat_words([(0, 0, size) for size in shape]))
    halo = sharding.halo or ((0, 0),) * sharding.rank
    rows: list[tuple[int, int, int]] = []
    for dim, (start, stop) in enumerate(sharding.ranges(shape, mesh, rank)):
        origin = sharding.core(dim, shape[dim], mesh, rank)[0] - halo[dim][0]
        rows.append((start, start - origin, stop - start))
    return tuple(_flat_words(rows))


def _owned(manifest: Manifest, binding: Binding, rank: int) -> Iterator[tuple[int, int, int]]:
    sharding = binding.sharding
    for dim, size in enumerate(binding.type.sizes):
        start, stop = sharding.core(dim, size, manifest.mesh, rank)
        yield start, sharding.halo[dim][0] if sharding.halo else 0, stop - start


def _flat_words(rows: Sequence[tuple[int, int, int]]) -> list[int]:
    return [word for row in rows for word in row]


def _pattern(element: np.ndarray[Any, Any]) -> tuple[int, int]:
    """An element's bytes as two words."""
    content = element.tobytes().ljust(_PATTERN, b"\0")
    return int.from_bytes(content[:8], "little"), int.from_bytes(content[8:], "little")
