"""Partitioners of ops that sort, or that combine elements with a region.

`legality` ensures that the dims along which such an op works are not split; along the other dims, each device applies
the op to its tile.
"""

from __future__ import annotations

from meshgen.ir.graph import Value
from meshgen.sharding.partitioners.candidates import combine_candidates
from meshgen.sharding.partitioners.registry import Site, partitioner


@partitioner("sort", "cholesky", "triangular_solve", "lapack", "fft")
def along_whole_dims(site: Site) -> list[Value]:
    return site.clone()


@partitioner("reduce_region")
def reduce_region(site: Site) -> list[Value]:
    """Write a reduction by a region. Along split dims, each device reduces its rows, then the devices' results are
    reduced in order.

    Padding rows hold the initial value, which is neutral for the region: the body and the initial value form a monoid.
    """
    count = len(site.operands) // 2
    inits = site.operands[count:]
    dims = [dim for dim in site.node.attrs.dims if site.axes(0, dim)]
    if not dims:
        return site.clone()
    rows = [
        site.builder.mask_padding(local, value, site.sharding(index), dims, init)
        for index, (local, value, init) in enumerate(
            zip(site.operands[:count], site.node.operands[:count], inits, strict=True)
        )
    ]
    parts = site.clone([*rows, *inits])
    for dim in reversed(dims):
        parts = _combined(site, parts, inits, site.axes(0, dim))
    return parts


def _combined(site: Site, parts: list[Value], inits: list[Value], axes: tuple[str, ...]) -> list[Value]:
    """Return the results of all devices of a group, reduced by the region in the order of the group."""
    builder = site.builder

    def finish(candidates: list[Value]) -> list[Value]:
        types = [value.type.with_shape(value.type.sizes[:1]) for value in candidates]
        return builder.append("reduce_region", [*candidates, *inits], types, {"dims": (1,)}, site.node.regions)

    rows = [builder.reshape(part, (*part.type.sizes, 1)) for part in parts]
    return combine_candidates(site, rows, axes, finish, 0)
