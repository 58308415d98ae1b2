"""Reader and printer of shardings: the operation `shard.sharding` and the encoding `#meshgen.split`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xdsl.dialects.builtin import I64, ArrayAttr, DenseArrayBase
from xdsl.dialects.shard import ShardOp
from xdsl.ir import Attribute, BlockArgument, SSAValue

from meshgen.errors import Diagnostic, ShardingError
from meshgen.ir.graph import TensorType, Value
from meshgen.ir.reduction_kinds import kind_faults
from meshgen.mesh import Mesh
from meshgen.mlir.attributes import strings
from meshgen.mlir.conversion import Importer
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.integer_folding import entries
from meshgen.mlir.literals import dictionary, listed, quoted, symbol
from meshgen.mlir.reader_state import Reading
from meshgen.mlir.shard.attributes import SplitAttr, named, partial_text
from meshgen.mlir.shard.grid import axis_numbers, has_sub_axes, numbered, numbers
from meshgen.mlir.shard.sharding_ops import GetShardingOp, ShardingOp
from meshgen.spec import Sharding, fit


def sharding_of(importer: Importer, handle: SSAValue) -> Sharding | None:
    """Return the sharding that the SSA value `handle` of type `!shard.sharding` defines, or None if it is invalid."""
    owner = handle.owner
    if isinstance(owner, GetShardingOp):
        return _stated_sharding(importer, owner.source)
    mesh = importer.reading.meshes.get(owner.grid.string_value()) if isinstance(owner, ShardingOp) else None
    if mesh is None:
        return None
    assert isinstance(owner, ShardingOp)
    sharding, faults = read_sharding(owner, mesh)
    wrong = faults or sharding.faults([None] * sharding.rank, mesh)
    return None if wrong else importer.reading.on(owner.grid.string_value(), sharding)


def _stated_sharding(importer: Importer, source: SSAValue) -> Sharding | None:
    """Return the sharding that the program states for `source`: by an annotation, the function's signature, or the
    type.

    Returns None if it states none.
    """
    owner = source.owner
    if isinstance(owner, ShardOp):
        return sharding_of(importer, owner.sharding)
    specs = importer.reading.module.in_annotations
    if isinstance(source, BlockArgument) and importer.value(source) in importer.reading.module.graph.inputs:
        spec = specs[source.index] if source.index < len(specs) else None
        return spec.sharding if spec else importer.value(source).sharding
    return importer.value(source).sharding


def states_sharding(importer: Importer, source: SSAValue) -> bool:
    """Whether the program states a sharding of `source`, even an invalid one, which is reported elsewhere."""
    return isinstance(source.owner, ShardOp) or _stated_sharding(importer, source) is not None


def read_sharding(op: ShardingOp, mesh: Mesh) -> tuple[Sharding, list[Diagnostic]]:
    """Return the sharding that a `shard.sharding` defines, and its faults. It has one dim per list of axes in the text."""
    faults: list[Diagnostic] = []
    halo_sizes = constants(op.static_halo_sizes, op.dynamic_halo_sizes, "halo size", faults)
    offsets = constants(op.static_sharded_dims_offsets, op.dynamic_sharded_dims_offsets, "offset", faults)
    sharding = named(Sharding(split_axes(op), () if op.partial is None else op.partial.data), mesh)
    if faults or sharding.faults([None] * sharding.rank, mesh):
        return sharding, faults
    if halo_sizes and offsets:
        return sharding, [Diagnostic("MG0204", "halo sizes and offsets exclude each other")]
    if halo_sizes:
        return _with_halo(sharding, halo_sizes)
    return _with_offsets(sharding, offsets, mesh) if offsets else (sharding, [])


def split_axes(op: ShardingOp) -> tuple[tuple[str, ...], ...]:
    """Return the axes of each dim: the names in the attribute `axes` if there is one (for sub-axes), else the numbers
    in `split_axes`.
    """
    if isinstance(lists := op.attributes.get("axes"), ArrayAttr):
        return tuple(strings(dim_axes) for dim_axes in lists)
    return axis_numbers(op.split_axes)


def constants(
    static: DenseArrayBase[I64], dynamic: Sequence[SSAValue], role: str, faults: list[Diagnostic]
) -> list[int]:
    """Return the integers of a list that has static and dynamic entries.

    Appends a fault to `faults` for each entry that is not known during import. `role` names the entries in messages.
    """
    values = entries(static, dynamic)
    for entry in values:
        if entry is None:
            faults.append(Diagnostic("MG0104", f"{role} '?' needs an operand"))
        elif isinstance(entry, SSAValue):
            faults.append(Diagnostic("MG0103", f"{role} is not known at compile time", hint="use a constant"))
    return [entry for entry in values if isinstance(entry, int)]


def _with_halo(sharding: Sharding, sizes: Sequence[int]) -> tuple[Sharding, list[Diagnostic]]:
    """Return the sharding with a halo, and its faults. `sizes` has two sizes per split dim: before and after the tile."""
    split = [dim for dim, axes in enumerate(sharding.dims) if axes]
    if len(sizes) != 2 * len(split):
        message = (
            f"{len(split)} split dims need {2 * len(split)} halo sizes (before, after), but there are {len(sizes)}"
        )
        return sharding, [Diagnostic("MG0204", message, hint="a dim that is not split cannot have a halo")]
    halo = [(0, 0)] * sharding.rank
    for index, dim in enumerate(split):
        halo[dim] = (sizes[2 * index], sizes[2 * index + 1])
    return replace(sharding, halo=tuple(halo)), []


def _with_offsets(sharding: Sharding, flat: Sequence[int], mesh: Mesh) -> tuple[Sharding, list[Diagnostic]]:
    """Return the sharding with explicit tile offsets, and its faults. `flat` has one offset more per split dim than
    shards.
    """
    try:
        counts = [sharding.parts(dim, mesh) + 1 if axes else 0 for dim, axes in enumerate(sharding.dims)]
    except ShardingError as error:
        return sharding, list(error.diagnostics)
    if sum(counts) != len(flat):
        needed = " + ".join(str(count) for count in counts if count) or "none"
        message = f"the split dims need {needed} offsets (one more than shards), but there are {len(flat)}"
        return sharding, [Diagnostic("MG0204", message)]
    starts = [sum(counts[:dim]) for dim in range(len(counts))]
    rows = tuple(tuple(flat[start : start + count]) for start, count in zip(starts, counts, strict=True))
    return replace(sharding, offsets=rows), []


def fitted(sharding: Sharding, rank: int) -> Sharding:
    """Return the sharding extended to `rank` dims. The added dims are unsharded."""
    missing = rank - sharding.rank
    halo = sharding.halo + ((0, 0),) * missing if sharding.halo else ()
    offsets = sharding.offsets + ((),) * missing if sharding.offsets else ()
    return replace(fit(sharding, rank), halo=halo, offsets=offsets)


def wide_halo_faults(sharding: Sharding, shape: Sequence[int | None], mesh: Mesh) -> list[Diagnostic]:
    """Return a fault for each dim of a valid sharding whose halo is wider than its tiles.

    Such a halo is unsupported by the dialect, which fetches halos from direct neighbors only.
    """
    faults: list[Diagnostic] = []
    for dim, (size, halo) in enumerate(zip(shape, sharding.halo, strict=False)):
        if size is None or any(mesh.axis(axis).size is None for axis in sharding.dims[dim]):
            continue
        tile, parts = sharding.tile(dim, size, mesh), sharding.parts(dim, mesh)
        if max(halo) > tile:
            message = f"dim {dim} has a halo of {halo} rows, but its shards have {tile} ({size} over {parts} devices): a halo comes from the direct neighbors"
            hint = f"make it at most {tile}, or split the dim over fewer devices"
            faults.append(Diagnostic("MG0204", message, hint=hint))
    return faults


def definition_text(sharding: Sharding, shape: Sequence[int | None], mesh: Mesh) -> str:
    """Return the text of the `shard.sharding` that defines a sharding.

    As upstream requires, axes are numbers, and if one dim has offsets, the text has offsets for all split dims.
    """
    halo = [size for dim, pair in enumerate(sharding.halo) if sharding.dims[dim] for size in pair]
    rows = enumerate(sharding.offsets if any(sharding.offsets) else ())
    offsets = [n for dim, row in rows for n in row or _even_offsets(sharding, dim, shape[dim], mesh)]
    clauses = [f"shard.sharding {symbol(mesh.name)} split_axes = {numbered(sharding.dims or ((),), mesh)}"]
    if sharding.partial:
        clauses.append(f"partial = {partial_text(numbers(sharding.partial, mesh))}")
    clauses += [
        f"{name} = {values}" for name, values in (("halo_sizes", halo), ("sharded_dims_offsets", offsets)) if values
    ]
    if has_sub_axes(sharding.split_axes, mesh):
        clauses.append(dictionary({"axes": listed(listed(map(quoted, axes)) for axes in sharding.dims)}))
    return f"{' '.join(clauses)} : !shard.sharding"


def _even_offsets(sharding: Sharding, dim: int, size: int | None, mesh: Mesh) -> list[int]:
    """Return the start offset of each tile of a dim whose tiles have equal size, and the end of the last tile."""
    if not sharding.dims[dim] or size is None:
        return []
    tile = sharding.tile(dim, size, mesh)
    return [min(index * tile, size) for index in range(sharding.parts(dim, mesh) + 1)]


def decode_split(reading: Reading, attribute: Attribute, kind: TensorType) -> Sharding:
    """Decode the encoding `#meshgen.split` of a tensor type into a sharding. Reports faults if it does not fit the
    type.
    """
    assert isinstance(attribute, SplitAttr)
    symbol, sharding = attribute.data
    mesh = reading.meshes.get(symbol, reading.module.mesh)
    sharding = named(sharding, mesh)
    if sharding.rank < kind.rank:
        sharding = fitted(sharding, kind.rank)
    misfits = (*sharding.faults(kind.shape, mesh), *kind_faults(sharding, kind.dtype))
    faults = [replace(f, message=f"encoding of {kind}: {f.message}") for f in misfits]
    reading.faults += faults
    return reading.on(symbol, sharding) if not faults else Sharding.replicated(kind.rank)


def typed(values: Sequence[Value]) -> tuple[Sharding, ...]:
    """Return the shardings in the types of `values`. A type without a sharding is replicated."""
    return tuple(value.sharding or Sharding.replicated(value.type.rank) for value in values)


PART = Dialect(type_decoders={SplitAttr.name: decode_split})
