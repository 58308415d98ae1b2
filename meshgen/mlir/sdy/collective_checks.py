"""Checks of Shardy's collectives: the listed axes must turn the operand's sharding into `out_sharding`.

The shardings of the operand and of the result must satisfy:

all_gather          operand dims = result dims, each followed by the gathered axes
all_slice           result dims = operand dims, each followed by the slicing axes
reduce_scatter      as all_slice; the operand may be unreduced along the axes
all_to_all          each param's axes are innermost in one dim of the operand and in another dim of the result
all_reduce          equal dims; the result is neither split nor unreduced along the reduced axes
collective_permute  equal number of shards in each dim
sharded_to_unreduced
                    operand dims = result dims, each followed by the axes; the result is unreduced along the axes
replicated_to_unreduced
                    equal dims; the result is unreduced along the axes

In all_slice, all_reduce and reduce_scatter, an operand without a sharding is replicated. In other collectives, the
operand must have a sharding.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from xdsl.dialects import func
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue

from meshgen.errors import ShardingError
from meshgen.mesh import Mesh, overlaps, split_ref
from meshgen.mlir.attributes import string_of
from meshgen.mlir.conversion import Importer
from meshgen.mlir.reader_state import Reading
from meshgen.mlir.sdy.attributes import ListedAxes, ShardingAttr, ShardingPerValueAttr
from meshgen.mlir.sdy.meshes import symbol_of
from meshgen.mlir.sdy.spelling import Spelled, SpelledMesh, read_axes, read_spelled
from meshgen.spec import Sharding

Axes = tuple[str, ...]
_REPLICATED_BY_DEFAULT = (
    "all_slice",
    "all_reduce",
    "reduce_scatter",
)  # collectives in which an operand without a sharding is replicated
# collectives whose result is unreduced along the listed axes
_TO_UNREDUCED = ("sharded_to_unreduced", "replicated_to_unreduced")
REDUCING = ("sdy.all_reduce", "sdy.reduce_scatter")
_LIST = re.compile(r"\{([^{}]*)\}")
_LISTED = re.compile(r'"[^"]+"(?:\s*:\s*\(\d+\)\s*\d+)?|:\s*\d+\s*->\s*\d+|[\[\]{},\s]')
_PARAM = re.compile(r"\{([^{}]*)\}\s*:\s*(\d+)\s*->\s*(\d+)")


def check_collective(importer: Importer, operation: Operation, after: Spelled) -> Axes:
    """Check the collective `operation`, which changes the sharding of its operand to `after`. Reports its faults.

    Returns:
        The axes over which the collective reduces. Empty if the collective is invalid or a mesh axis has an unknown
        size.
    """
    op, symbol = operation.name.removeprefix("sdy."), symbol_of(importer.reading, after.mesh)
    mesh = importer.reading.meshes[symbol]
    text = next(
        (attribute.data for attribute in operation.properties.values() if isinstance(attribute, ListedAxes)), ""
    )
    if not mesh.is_static or not mesh.axes:
        return ()
    operand_sharding, before = None, spelled_of(operation.operands[0])
    if before is None and _can_state_sharding(operation.operands[0]):
        if op not in _REPLICATED_BY_DEFAULT:
            hint = "add sdy.sharding to the operation that defines it, or to the argument"
            importer.fault("MG0204", f"{operation.name}: its operand has no sharding", operation, hint)
            return ()
        operand_sharding = Sharding.replicated(len(after.dims))
    message = "" if before is None else _mesh_fault(importer.reading, op, before.mesh, symbol)
    if before is not None and _axes_and_devices(importer.reading, before.mesh)[0]:
        operand_sharding = _sharding_of_spelled(before)
    try:
        message = message or collective_fault(op, text, operand_sharding, _sharding_of_spelled(after), mesh)
        message = message or (_kind_fault(operation, text, operand_sharding) if operand_sharding is not None else "")
    except ValueError as error:
        message = f"cannot parse the axes {text}: {error}"
    if message:
        importer.fault("MG0204", f"{operation.name}: {message}", operation)
        return ()
    reduced_axes = [axis for axes in listed_axes(text) for axis in axes] if operation.name in REDUCING else []
    return importer.reading.axes(symbol, tuple(reduced_axes))


def _mesh_fault(reading: Reading, op: str, before: str | SpelledMesh, symbol: str) -> str:
    """Return an error message if the operand and the result of a collective are on incompatible meshes, else "".

    The meshes must have the same axes and devices. The result of a collective_permute may have another device order.
    """
    (axes, devices), (axes_there, devices_there) = (
        _axes_and_devices(reading, before),
        _axes_and_devices(reading, symbol),
    )
    if not axes or (axes == axes_there and (op == "collective_permute" or devices == devices_there)):
        return ""
    return f"its operand is over {reading.meshes[symbol_of(reading, before)]}, but out_sharding is over {reading.meshes[symbol]} of other axes or devices"


def _axes_and_devices(
    reading: Reading, mesh: str | SpelledMesh
) -> tuple[tuple[tuple[str, int | None], ...], tuple[int, ...]]:
    """Return the axes of a mesh, as pairs of name and size, and its device ids in order.

    Returns no axes and no devices for an unknown mesh: the sharding that names it causes a fault elsewhere.
    """
    try:
        named_mesh = reading.meshes[symbol := symbol_of(reading, mesh)]
    except ShardingError:
        return (), ()
    return tuple((axis.name, axis.size) for axis in named_mesh.axes), tuple(
        reading.devices.get(symbol) or range(named_mesh.size)
    )


def changed_kind_fault(value: SSAValue, after: Spelled) -> str:
    """Return an error message if `after` changes the reduction kind along an axis over which `value` is unreduced.

    Returns "" if no axis changes its kind.
    """
    before = spelled_of(value)
    for axis, kind in () if before is None or before.mesh != after.mesh else _sharding_of_spelled(before).partial:
        for after_axis, after_kind in _sharding_of_spelled(after).partial:
            if overlaps(axis, after_axis) and kind != after_kind:
                return f"the value is unreduced along '{axis}' by {kind}, but is to be unreduced along '{after_axis}' by {after_kind}"
    return ""


def _sharding_of_spelled(spelled: Spelled) -> Sharding:
    return Sharding(spelled.dims, tuple(zip(spelled.unreduced, spelled.kinds, strict=True)))


def spelled_of(value: SSAValue) -> Spelled | None:
    """Return the sharding that the program states for `value`: on the operation that defines it, or on the function
    argument.

    Returns None if the program states none, or if the sharding is malformed.
    """
    owner = value.owner
    if isinstance(owner, Block):
        text = _text_of_argument(value) if isinstance(value, BlockArgument) else ""
    else:
        text = _text_of_result(value, owner)
    try:
        return read_spelled(text) if text else None
    except ValueError:  # The annotation that contains the malformed sharding reports it.
        return None


def _can_state_sharding(value: SSAValue) -> bool:
    """Whether `value` is an operation result or a function argument, so that the program can state its sharding there.

    The sharding of any other block argument is stated by the parent operation.
    """
    return not isinstance(value.owner, Block) or isinstance(value.owner.parent_op(), func.FuncOp)


def _text_of_result(value: SSAValue, owner: Operation) -> str:
    sharding = owner.properties.get("out_sharding") or owner.properties.get("sharding")
    if isinstance(sharding, ShardingAttr):
        return sharding.data
    per_value = owner.properties.get("out_shardings") or owner.attributes.get("sdy.sharding")
    bodies = per_value.data if isinstance(per_value, ShardingPerValueAttr) else ()
    return bodies[owner.results.index(value)] if len(bodies) == len(owner.results) else ""


def _text_of_argument(argument: BlockArgument) -> str:
    function, position = argument.block.parent_op(), argument.index
    attributes = function.arg_attrs if isinstance(function, func.FuncOp) else None
    if attributes is None or position >= len(attributes.data):
        return ""
    sharding: Attribute | None = attributes.data[position].data.get("sdy.sharding")
    return sharding.data if isinstance(sharding, ShardingAttr) else ""


def listed_axes(text: str) -> list[Axes]:
    """Parse `text`, the attribute with the axes of a collective, into lists of axes.

    There is one list per dim, one per all_to_all param, or a single list. Raises ValueError if a list is malformed.
    """
    return [read_axes(f"{{{body}}}") for body in _LIST.findall(text)]


def collective_fault(op: str, text: str, before: Sharding | None, after: Sharding, mesh: Mesh) -> str:
    """Return an error message if the collective `op` with the axis attribute `text` is invalid, else "".

    If `before`, the sharding of the operand, is None, only `text` and `after` are checked.
    """
    lists = listed_axes(text)
    if unparsed := _LISTED.sub("", text):
        return f"expected an axis in its list of axes, got '{unparsed[:20]}'"
    if message := _axes_fault([axis for axes in lists for axis in axes], mesh):
        return message
    if op in ("all_gather", "all_slice", "reduce_scatter", "sharded_to_unreduced") and len(lists) != after.rank:
        return f"lists the axes of {len(lists)} dims, but the tensor has rank {after.rank}"
    if op == "all_to_all" and (message := _params_fault(text, after.rank)):
        return message
    if op == "all_reduce" and (message := _reduced_fault(lists[0] if lists else (), after)):
        return message
    if op in _TO_UNREDUCED and (message := _unreduced_fault(lists, after)):
        return message
    if before is None or before.rank != after.rank:
        return ""
    if op == "collective_permute":
        shard_counts = [(before.parts(dim, mesh), after.parts(dim, mesh)) for dim in range(after.rank)]
        unequal_dim = next((dim for dim, (here, there) in enumerate(shard_counts) if here != there), None)
        return (
            ""
            if unequal_dim is None
            else f"dim {unequal_dim} has {shard_counts[unequal_dim][0]} shards, but out_sharding has {shard_counts[unequal_dim][1]}"
        )
    if message := _mismatch(before, after, *_appended_axes(op, text, lists, after.rank), mesh):
        return message
    return _unreduced_axes_fault(before, lists, after, mesh) if op in _TO_UNREDUCED else ""


def sub_axis_fault(ref: str, mesh: Mesh) -> str:
    """Return an error message if `ref` is an invalid sub-axis, else "".

    The size of a sub-axis must be larger than 1, smaller than the axis, and divide the axis.
    """
    name, pre, size = split_ref(ref)
    if size is None or name not in mesh.names or (axis_size := mesh.axis(name).size) is None:
        return ""
    is_valid = pre >= 1 and 1 < size < axis_size and axis_size % (pre * size) == 0
    return "" if is_valid else f"'{ref}' is not a sub-axis of '{name}' of size {axis_size}"


def _axes_fault(axes: Sequence[str], mesh: Mesh) -> str:
    """Return an error message if an axis is unknown, an invalid sub-axis, or listed twice, else ""."""
    for index, axis in enumerate(axes):
        if split_ref(axis)[0] not in mesh.names:
            return f"mesh axis '{axis}' is not in {mesh}"
        if message := sub_axis_fault(axis, mesh):
            return message
        if any(overlaps(axis, other) for other in axes[:index]):
            return f"mesh axis '{axis}' is listed more than once"
    return ""


def _params_fault(text: str, rank: int) -> str:
    dims = [int(dim) for _, *ends in _PARAM.findall(text) for dim in ends]
    if not dims or any(not axes.strip() for axes, *_ in _PARAM.findall(text)):
        return "has no axes to exchange"
    if max(dims) >= rank:
        return f"names dim {max(dims)}, but the tensor has rank {rank}"
    if len(set(dims)) < len(dims):
        return f"names a dim twice: {dims}"
    return ""


def _reduced_fault(axes: Axes, after: Sharding) -> str:
    conflicting_axis = next((axis for axis in axes for used in after.used_axes if overlaps(axis, used)), None)
    return (
        ""
        if conflicting_axis is None
        else f"reduces over '{conflicting_axis}', but out_sharding is split or unreduced along it"
    )


def _kind_fault(operation: Operation, text: str, before: Sharding) -> str:
    """Return an error message if the reduction kind of a collective differs from the one by which its operand is
    unreduced.

    `text` lists the axes of the collective, and `before` is the sharding of the operand. Returns "" if the kinds agree.
    """
    kind = string_of(operation.properties.get("reduction"), "sum")
    reduced_axes = [axis for axes in listed_axes(text) for axis in axes]
    for axis, operand_kind in before.partial:
        if operation.name in REDUCING and operand_kind != kind and any(overlaps(axis, other) for other in reduced_axes):
            return f"reduces over '{axis}' by {kind}, but its operand is unreduced there by {operand_kind}"
    return ""


def _unreduced_fault(lists: Sequence[Axes], after: Sharding) -> str:
    axes = [axis for axes in lists for axis in axes]
    reduced_axis = next((axis for axis in axes if not any(overlaps(axis, other) for other in after.partial_axes)), None)
    return (
        "" if reduced_axis is None else f"leaves the value unreduced along '{reduced_axis}', but out_sharding does not"
    )


def _unreduced_axes_fault(before: Sharding, lists: Sequence[Axes], after: Sharding, mesh: Mesh) -> str:
    """Return an error message unless the result is unreduced along the listed axes and those of the operand, and no
    others.
    """
    listed = (axis for axes in lists for axis in axes)
    actual, expected = (
        _merged_axis_parts(sorted(axes, key=lambda axis: split_ref(axis)[:2]), mesh)
        for axes in (after.partial_axes, (*before.partial_axes, *listed))
    )
    text = ", ".join(before.partial_axes) or "none"
    return (
        "" if actual == expected else f"leaves the value unreduced along its axes and those before it, which are {text}"
    )


def _appended_axes(op: str, text: str, lists: Sequence[Axes], rank: int) -> tuple[list[Axes], list[Axes]]:
    """Return, per dim, the axes to append to the result's dims and those to append to the operand's dims.

    A valid collective then has equal dims on both sides.
    """
    no_axes: list[Axes] = [()] * rank
    if op in ("all_gather", "sharded_to_unreduced"):
        return list(lists), no_axes
    if op == "all_to_all":
        lost, gained = no_axes.copy(), no_axes.copy()
        for axes, source, target in _PARAM.findall(text):
            lost[int(source)] = gained[int(target)] = read_axes(f"{{{axes}}}")
        return lost, gained
    return no_axes, no_axes if op in ("all_reduce", "replicated_to_unreduced") else list(lists)


def _mismatch(before: Sharding, after: Sharding, lost: Sequence[Axes], gained: Sequence[Axes], mesh: Mesh) -> str:
    for dim, (here, there) in enumerate(zip(before.dims, after.dims, strict=True)):
        actual, expected = (
            _merged_axis_parts((*there, *lost[dim]), mesh),
            _merged_axis_parts((*here, *gained[dim]), mesh),
        )
        if actual != expected:
            return f"dim {dim} of the operand is split along {list(here)}: with the axes listed out_sharding cannot be {list(there)} there"
    return ""


def _merged_axis_parts(axes: Iterable[str], mesh: Mesh) -> list[tuple[str, int, int]]:
    """Return each axis as (name, product of the sizes of the sub-axes before it, size). Adjacent sub-axes are merged."""
    merged: list[tuple[str, int, int]] = []
    for ref in axes:
        name, pre, size = split_ref(ref)
        size = mesh.axis(name).size if size is None else size
        if size == 1:
            continue
        if merged and merged[-1][0] == name and merged[-1][1] * merged[-1][2] == pre:
            merged[-1] = (name, merged[-1][1], merged[-1][2] * (size or 0))
        else:
            merged.append((name, pre, size or 0))
    return merged
