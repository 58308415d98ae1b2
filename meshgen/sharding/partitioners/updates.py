"""Partitioners of ops that sort or combine in a region.

Dims along which such an op works are whole (`legality`); along the others it does the same to every tile.
"""

from __future__ import annotations

from meshgen.ir.graph import Value
from meshgen.sharding.partitioners.candidates import finished
from meshgen.sharding.partitioners.registry import Site, partitioner


@partitioner("sort", "cholesky", "triangular_solve", "lapack", "fft")
def along_whole_dims(site: Site) -> list[Value]:
    return site.clone()


@partitioner("reduce_region")
def reduce_region(site: Site) -> list[Value]:
    """Along split dims: each device reduces its rows, and the results of all are reduced in order.

    Rows in the padding are the initial value, which is neutral for the region: body and initial value form a monoid.
    """
    count = len(site.operands) // 2
    inits = site.operands[count:]
    dims = [dim for dim in site.node.attrs.dims if site.axes(0, dim)]
    if not dims:
        return site.clone()
    rows = [
        site.builder.mask_padding(local, value, site.sharding(number), dims, init)
        for number, (local, value, init) in enumerate(
            zip(site.operands[:count], site.node.operands[:count], inits, strict=True)
        )
    ]
    parts = site.clone([*rows, *inits])
    for dim in reversed(dims):
        parts = _combined(site, parts, inits, site.axes(0, dim))
    return parts


def _combined(site: Site, parts: list[Value], inits: list[Value], axes: tuple[str, ...]) -> list[Value]:
    """The results of a group's devices reduced by the region, in the group's order."""
    builder = site.builder

    def finish(found: list[Value]) -> list[Value]:
        types = [value.type.with_shape(value.type.sizes[:1]) for value in found]
        return builder.append("reduce_region", [*found, *inits], types, {"dims": (1,)}, site.node.regions)

    rows = [builder.reshape(part, (*part.type.sizes, 1)) for part in parts]
    return finished(site, rows, axes, finish, 0)
