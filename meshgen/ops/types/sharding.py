"""Type inference of annotations, collectives and the ops that partitioning adds.

Before `partition`, types are global, so a collective does not change the type; after it, types are local. Without a
mesh, the checks cover only what holds for all axis sizes. With a mesh, they also cover the sizes of tiles.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from meshgen.errors import Diagnostic
from meshgen.ir.attributes.sharding import devices_by_role, reduction_of
from meshgen.ir.graph import FETCH_NUMBERS, TensorType, is_complex
from meshgen.ir.group_calls import VARIADIC
from meshgen.ir.reduction_kinds import combines
from meshgen.ir.replica_groups import pair_faults
from meshgen.mesh import Mesh
from meshgen.ops.collective_checks import axis_faults, coordinate_faults, fetch_faults
from meshgen.ops.registry import OPS
from meshgen.ops.types.site import Site, shapes_agree
from meshgen.spec import PARTIAL_KINDS, Sharding

# The type of a token that orders the transfers between two meshes. Each transfer takes the token of the previous one.
TRANSFER_TOKEN = TensorType((), "i1")
REDUCING = ("all_reduce", "reduce_scatter", "to_partial", "reduce_to")


def annotate(site: Site) -> list[TensorType] | None:
    sharding = site.attrs.sharding
    if site.require(isinstance(sharding, Sharding), "attribute 'sharding' must be a sharding"):
        rank = site.operands[0].rank
        site.require(sharding.rank == rank, f"the sharding has {sharding.rank} dims, but the tensor has rank {rank}")
    return [site.operands[0]]


def same(site: Site) -> list[TensorType] | None:
    return [site.operands[0]]


def _reduces(site: Site) -> None:
    kind = reduction_of(site.attrs) or "sum"
    site.require(kind in PARTIAL_KINDS, f"unknown kind '{kind}'; expected one of {', '.join(PARTIAL_KINDS)}")
    for dtype in dict.fromkeys(t.dtype for t in (*site.operands, *(site.results or ()))):
        site.require(combines(kind, dtype), f"elements of {dtype} cannot be reduced with kind '{kind}'")


def collective(site: Site) -> list[TensorType] | None:
    """Check a collective independently of the mesh: its dims are in range, and all other dims keep their sizes."""
    x = site.operands[0]
    if site.op in REDUCING:
        _reduces(site)
    if site.op in VARIADIC and not _has_pairs(site):
        return None
    if len(site.operands) > 1:
        return _group_call(site)
    dims = [
        getattr(site.attrs, n) for n in ("dim", "split_dim", "concat_dim") if n in OPS[site.op].attributes.field_types
    ]
    for dim in dims:
        site.require(0 <= dim < x.rank, f"dim {dim} is out of range for {x}")
    if not site.results:
        return None
    result = site.results[0]
    if not site.require(result.rank == x.rank, f"cannot turn {x} into {result}: the ranks differ"):
        return None
    if site.op not in ("all_reduce", "reduce_scatter", "reduce_to"):
        site.require(result.dtype == x.dtype, f"cannot turn {x} into {result}: the element types differ")
    untouched_sizes = [tuple(None if d in dims else n for d, n in enumerate(t.shape)) for t in (x, result)]
    if site.op not in ("permute", "retile"):
        site.require(shapes_agree(*untouched_sizes), f"cannot turn {x} into {result}: another dim changes size")
    return None


def _has_pairs(site: Site) -> bool:
    """Whether the op has as many results as operands. Otherwise a fault is recorded."""
    counts = len(site.operands), len(site.operands if site.results is None else site.results)
    return site.require(counts[0] == counts[1], f"has {counts[1]} results instead of {counts[0]}, one for each operand")


def _group_call(site: Site) -> None:
    """Check a group call (`ir/group_calls.py`): the operands have one element type, and each operand with its result is
    valid.
    """
    site.require(len({kind.dtype for kind in site.operands}) == 1, "the operands of one call differ in element type")
    for call in _calls(site):
        collective(call)
        site.faults += call.faults


def _calls(site: Site) -> list[Site]:
    """Split a group call into one collective per operand."""
    pairs = zip(site.operands, site.results or (), strict=False)
    return [replace(site, operands=[operand], results=[result], faults=[]) for operand, result in pairs]


def update_halo(site: Site) -> list[TensorType] | None:
    """Infer the result type: the operand's type, with the halo rows added if the declared result type has them."""
    x, halo = site.operands[0], site.attrs.sharding.halo
    if not site.results or site.results[0].dtype != x.dtype or len(halo) != x.rank:
        return [x]
    sizes = [None if size is None else size + sum(pair) for size, pair in zip(x.shape, halo, strict=True)]
    return [x.with_shape(sizes) if site.results[0].shape == tuple(sizes) else x]


def fetch_rows(site: Site) -> list[TensorType] | None:
    """Check a fetch of several parts: each part is inside the operand, and the parts have as many rows as the result."""
    types, numbers = collective(site), site.attrs.parts
    parts = [numbers[i : i + FETCH_NUMBERS] for i in range(0, len(numbers), FETCH_NUMBERS)]
    if site.faults or not parts or not site.results:
        return types
    dim = site.attrs.dim
    tile, rows = site.operands[0].shape[dim], site.results[0].shape[dim]
    if site.require(
        len(numbers) % FETCH_NUMBERS == 0, f"parts has {len(numbers)} numbers, not {FETCH_NUMBERS} for each part"
    ):
        is_inside = all(
            min(part[0], part[1], part[4], part[5]) >= 0 and part[0] + part[1] <= (tile or 0) for part in parts
        )
        site.require(is_inside, f"a part of {list(numbers)} is outside the operand's {tile} rows")
        total = sum(part[4] for part in parts)
        site.require(total == rows, f"its parts have {total} rows together, the result has {rows}")
    return types


def _row_faults(site: Site, mesh: Mesh) -> None:
    """Check that each fetched row is a row of the tiles of the group, or padding."""
    attrs, dim = site.attrs, site.attrs.dim
    assert site.results
    tile, rows = site.operands[0].shape[dim], site.results[0].shape[dim]
    divisor, step, wraps = attrs.divisor, attrs.step, bool(attrs.wrap)
    site.require(divisor >= 1, f"divisor {divisor} is below 1")
    for _, message in fetch_faults(attrs, site.operands[0], site.results[0], mesh):
        site.fault(message)
    if wraps and tile is not None and rows is not None:
        site.require(0 <= step <= max(tile, rows), f"step {step} is longer than tiles of {tile} rows")


def shift(site: Site) -> list[TensorType] | None:
    axis, axes = site.attrs.shift_axis, tuple(site.attrs.axes)
    site.require(axis in axes, f"shift_axis '{axis}' is not among the axes {list(axes)}")
    return [site.operands[0]]


def permute_pairs(site: Site) -> list[TensorType] | None:
    message = pair_faults(site.attrs.pairs)
    site.require(not message, message)
    return [site.operands[0]]


def process_index(site: Site) -> list[TensorType] | None:
    return [TensorType((), "i32")]


def mask_padding(site: Site) -> list[TensorType] | None:
    x, size, fill = site.operands[0], site.attrs.size, np.asarray(site.attrs.fill)
    site.one_dim("dim", x.rank)
    site.require(size >= 0, f"size {size} is negative")
    site.require(is_complex(x.dtype) or not np.iscomplexobj(fill), f"fill {fill} is not of type {x.dtype}")
    return [x]


def between(site: Site) -> list[TensorType] | None:
    """Infer a `transfer_send` or a `transfer_recv`. An optional last operand is the token of the previous transfer."""
    tokens = site.operands[1:] if site.op == "transfer_send" else site.operands
    site.require(site.attrs.channel >= 0, f"channel {site.attrs.channel} is not the number of a transfer")
    site.require(
        list(tokens) in ([], [TRANSFER_TOKEN]),
        f"has further operands {[str(t) for t in tokens]}; it takes at most one, of type {TRANSFER_TOKEN}",
    )
    for name in ("source", "target"):
        sharding = site.attrs.get(name)
        if sharding is not None and site.require(
            isinstance(sharding, Sharding), f"attribute '{name}' must be a sharding"
        ):
            rank = len(site.attrs.shape)
            site.require(sharding.rank == rank, f"{name} has {sharding.rank} dims, but the tensor has rank {rank}")
    if site.op == "transfer_send":
        return [TRANSFER_TOKEN]
    return None if site.results is None else [*site.results[:1], TRANSFER_TOKEN]


def kernel(site: Site) -> list[TensorType] | None:
    return None


def tile_faults(site: Site, mesh: Mesh) -> None:
    """Record the faults in the mesh axes and the local sizes of a collective on `mesh`."""
    assert site.results is not None, "only whole nodes are verified"
    if faults := list(axis_faults(site.attrs.axes, mesh)):
        site.faults += [Diagnostic(code, f"'{site.op}': {message}", site.loc) for code, message in faults]
        return
    if site.op == "permute_pairs":
        message = pair_faults(site.attrs.pairs, mesh.size)
        site.require(not message, message)
    if site.op == "manual":
        site.fault("a manual computation is not allowed after partition, which inlines its body")
    if not site.operands or site.op == "manual":
        return
    count = mesh.group_size(site.attrs.axes)
    for name, device in devices_by_role(site.attrs).items():
        if isinstance(device, tuple):
            for _, message in coordinate_faults(name, device, site.attrs.axes, mesh):
                site.fault(message)
        else:
            site.require(0 <= device < count, f"{name} {device} is outside a group of {count} devices")
    if site.op == "fetch_rows":
        _row_faults(site, mesh)
    for call in [site] if len(site.operands) == 1 else _calls(site):
        _tile_faults(call, count)
        if call is not site:
            site.faults += call.faults


def _tile_faults(site: Site, count: int) -> None:
    """Check the size of a gathered or scattered dim: `count` tiles must cover the rows of the dim."""
    assert site.results is not None
    x, result = site.operands[0], site.results[0]
    gathered = {"all_gather": "dim", "gather_to": "dim", "all_to_all": "concat_dim"}.get(site.op)
    split = {"all_slice": "dim", "reduce_scatter": "dim", "scatter_from": "dim", "all_to_all": "split_dim"}.get(site.op)
    if site.op == "all_to_all" and site.attrs.split_dim == site.attrs.concat_dim:
        return
    for name, tile, whole in ((gathered, x, result), (split, result, x)):
        if name is None:
            continue
        dim = getattr(site.attrs, name)
        part, full = tile.shape[dim], whole.shape[dim]
        if part is None or full is None:
            continue
        fits = full <= count * part and (full > (count - 1) * part or part == -(-full // count))
        site.require(fits, f"dim {dim}: {count} tiles of {part} do not make up {full} rows ({count} x {part} = {count * part})",
                     f"a tile of {-(-full // count)} rows would")  # fmt: skip
