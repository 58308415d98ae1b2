"""The shards of global arrays in the memory of each rank, as boxes that the C loader scatters and gathers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from meshgen.errors import Diagnostic, MissingError
from meshgen.ops.evaluate.common import neutral, poison
from meshgen.runtime.module_file.manifest import Binding, Manifest
from meshgen.runtime.native.table_format import Record

ARRAY, CONSTANT = 0, 1  # source of an argument's box on a rank: rows of the global array, or a constant
_PATTERN = 16  # size in bytes of the largest element type


def argument_shards(manifest: Manifest, binding: Binding) -> Iterator[Record]:
    """Yield a record per rank that describes its shard of an argument.

    It consists of the source (`ARRAY` or `CONSTANT`), the poison and the constant (two words each), and the box.
    """
    dtype = binding.type.dtype
    for rank in range(manifest.mesh.size):
        box, constant = _argument_box(manifest, binding, rank), None
        for axis, reduction in reversed(binding.sharding.partial):
            if manifest.arguments != "global" and manifest.mesh.coordinate(rank, axis):
                constant = neutral(reduction, dtype)
                break
        filler = np.zeros((), binding.type.numpy_dtype) if constant is None else constant
        yield (ARRAY if constant is None else CONSTANT, *_pattern(poison(dtype)), *_pattern(filler), *box)


def result_shards(manifest: Manifest, binding: Binding) -> list[Record]:
    """Return a record per rank: whether its part of the result is copied to the global array, and the box of this part.

    The part is not copied if an earlier rank has a replica of it.
    Raises MissingError MG0602 for a partial result, because only the Python runtime can reduce it.
    """
    if binding.sharding.partial:
        text = f"result '{binding.name}' is partial over {', '.join(binding.sharding.partial_axes)}"
        hint = "annotate the result without partial axes; --device reference and --device cuda reduce it on the host"
        raise MissingError(Diagnostic("MG0602", f"{text}: the C loader does not reduce results", hint=hint))
    shard_keys: set[tuple[int, ...]] = set()
    records: list[Record] = []
    for rank in range(manifest.mesh.size):
        key = tuple(manifest.mesh.index(rank, axes) for axes in binding.sharding.dims)
        records.append((int(key not in shard_keys), *_flat_words(list(_owned(manifest, binding, rank)))))
        shard_keys.add(key)
    return records


def _argument_box(manifest: Manifest, binding: Binding, rank: int) -> Record:
    """Return for each dim: first row in the global array, first row in the rank's buffer, number of rows."""
    shape, sharding, mesh = binding.type.sizes, binding.sharding, manifest.mesh
    if manifest.arguments == "global":
        return tuple(_flat_words([(0, 0, size) for size in shape]))
    halo = sharding.halo or ((0, 0),) * sharding.rank
    dims: list[tuple[int, int, int]] = []
    for dim, (start, stop) in enumerate(sharding.ranges(shape, mesh, rank)):
        origin = sharding.core(dim, shape[dim], mesh, rank)[0] - halo[dim][0]
        dims.append((start, start - origin, stop - start))
    return tuple(_flat_words(dims))


def _owned(manifest: Manifest, binding: Binding, rank: int) -> Iterator[tuple[int, int, int]]:
    sharding = binding.sharding
    for dim, size in enumerate(binding.type.sizes):
        start, stop = sharding.core(dim, size, manifest.mesh, rank)
        yield start, sharding.halo[dim][0] if sharding.halo else 0, stop - start


def _flat_words(records: Sequence[tuple[int, int, int]]) -> list[int]:
    return [word for record in records for word in record]


def _pattern(element: np.ndarray[Any, Any]) -> tuple[int, int]:
    """Return the bytes of an element as two words."""
    content = element.tobytes().ljust(_PATTERN, b"\0")
    return int.from_bytes(content[:8], "little"), int.from_bytes(content[8:], "little")
