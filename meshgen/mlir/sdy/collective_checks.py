"""Shardy's constraints on its collectives: the listed axes turn the operand's sharding into `out_sharding`.

all_gather          operand's dims = out's dims, then the gathered axes
all_slice           out's dims = operand's dims, then the slicing axes; an operand without a sharding is whole here
reduce_scatter      the same; the operand may be unreduced along them
all_to_all          the same axes are innermost in one dim of the operand and another one of out
all_reduce          the same dims; the reduced axes are in none
collective_permute  as many shards of each dim
sharded_to_unreduced, replicated_to_unreduced
                    operand's dims = out's dims, then the axes (none of replicated ones); out is unreduced along them
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
from meshgen.mlir.reading import Reading
from meshgen.mlir.sdy.attributes import ListedAxes, ShardingAttr, ShardingPerValueAttr
from meshgen.mlir.sdy.meshes import symbol_of
from meshgen.mlir.sdy.spelling import Spelled, SpelledMesh, read_axes, read_spelled
from meshgen.spec import Sharding

Axes = tuple[str, ...]
_FROM_WHOLE = ("all_slice", "all_reduce", "reduce_scatter")  # an operand without a sharding is whole
_LEAVING = ("sharded_to_unreduced", "replicated_to_unreduced")  # the value is unreduced along the axes afterwards
REDUCING = ("sdy.all_reduce", "sdy.reduce_scatter")
_LIST = re.compile(r"\{([^{}]*)\}")
_LISTED = re.compile(r'"[^"]+"(?:\s*:\s*\(\d+\)\s*\d+)?|:\s*\d+\s*->\s*\d+|[\[\]{},\s]')
_PARAM = re.compile(r"\{([^{}]*)\}\s*:\s*(\d+)\s*->\s*(\d+)")


def check_collective(importer: Importer, operation: Operation, after: Spelled) -> Axes:
    """Collect a fault of a collective whose `out_sharding` is spelled so; returns the axes over which it reduces."""
    op, symbol = operation.name.removeprefix("sdy."), symbol_of(importer.reading, after.mesh)
    mesh = importer.reading.meshes[symbol]
    text = next((each.data for each in operation.properties.values() if isinstance(each, ListedAxes)), "")
    if not mesh.is_static or not mesh.axes:
        return ()
    given, before = None, spelled_of(operation.operands[0])
    if before is None and _says_nothing(operation.operands[0]):
        if op not in _FROM_WHOLE:
            hint = "add sdy.sharding to the operation that defines it, or to the argument"
            importer.fault("MG0204", f"{operation.name}: its operand has no sharding", operation, hint)
            return ()
        given = Sharding.replicated(len(after.dims))
    message = "" if before is None else _mesh_fault(importer.reading, op, before.mesh, symbol)
    if before is not None and _layout(importer.reading, before.mesh)[0]:
        given = _sharding_of_spelled(before)
    try:
        message = message or collective_fault(op, text, given, _sharding_of_spelled(after), mesh)
        message = message or (_kind_fault(operation, text, given) if given is not None else "")
    except ValueError as error:
        message = f"cannot parse the axes {text}: {error}"
    if message:
        importer.fault("MG0204", f"{operation.name}: {message}", operation)
        return ()
    reduces = [axis for axes in listed_axes(text) for axis in axes] if operation.name in REDUCING else []
    return importer.reading.axes(symbol, tuple(reduces))


def _mesh_fault(reading: Reading, op: str, before: str | SpelledMesh, symbol: str) -> str:
    """The fault of a collective between two meshes: only a permutation goes to another order of the devices."""
    (axes, devices), (axes_there, devices_there) = _layout(reading, before), _layout(reading, symbol)
    if not axes or (axes == axes_there and (op == "collective_permute" or devices == devices_there)):
        return ""
    return f"its operand is over {reading.meshes[symbol_of(reading, before)]}, but out_sharding over {reading.meshes[symbol]} of other axes or devices"


def _layout(reading: Reading, mesh: str | SpelledMesh) -> tuple[tuple[tuple[str, int | None], ...], tuple[int, ...]]:
    """The axes of a mesh, and its devices in order; no axes where the mesh is unknown, which is a fault where it stands."""
    try:
        found = reading.meshes[symbol := symbol_of(reading, mesh)]
    except ShardingError:
        return (), ()
    return tuple((axis.name, axis.size) for axis in found.axes), tuple(reading.devices.get(symbol) or range(found.size))


def kept_kind_fault(value: SSAValue, after: Spelled) -> str:
    """The fault of a sharding by which a value stays unreduced along an axis, but by another kind than it is."""
    before = spelled_of(value)
    for axis, kind in () if before is None or before.mesh != after.mesh else _sharding_of_spelled(before).partial:
        for kept, other in _sharding_of_spelled(after).partial:
            if overlaps(axis, kept) and kind != other:
                return (
                    f"the value is unreduced along '{axis}' by {kind}, but is to be unreduced along '{kept}' by {other}"
                )
    return ""


def _sharding_of_spelled(spelled: Spelled) -> Sharding:
    return Sharding(spelled.dims, tuple(zip(spelled.unreduced, spelled.kinds, strict=True)))


def spelled_of(value: SSAValue) -> Spelled | None:
    """The sharding that the operation which makes a value, or the function that takes it, states; None where none does."""
    owner = value.owner
    if isinstance(owner, Block):
        found = _of_argument(value) if isinstance(value, BlockArgument) else ""
    else:
        found = _of_result(value, owner)
    try:
        return read_spelled(found) if found else None
    except ValueError:  # a fault where it stands
        return None


def _says_nothing(value: SSAValue) -> bool:
    """Whether a value is an operation's result or an argument of the program; shardings of others are set by their parent."""
    return not isinstance(value.owner, Block) or isinstance(value.owner.parent_op(), func.FuncOp)


def _of_result(value: SSAValue, owner: Operation) -> str:
    stated = owner.properties.get("out_sharding") or owner.properties.get("sharding")
    if isinstance(stated, ShardingAttr):
        return stated.data
    each = owner.properties.get("out_shardings") or owner.attributes.get("sdy.sharding")
    bodies = each.data if isinstance(each, ShardingPerValueAttr) else ()
    return bodies[owner.results.index(value)] if len(bodies) == len(owner.results) else ""


def _of_argument(argument: BlockArgument) -> str:
    function, number = argument.block.parent_op(), argument.index
    attributes = function.arg_attrs if isinstance(function, func.FuncOp) else None
    if attributes is None or number >= len(attributes.data):
        return ""
    stated: Attribute | None = attributes.data[number].data.get("sdy.sharding")
    return stated.data if isinstance(stated, ShardingAttr) else ""


def listed_axes(text: str) -> list[Axes]:
    """The lists of axes in the text of a collective's attribute: one per dim or param, or the only one. Raises ValueError."""
    return [read_axes(f"{{{body}}}") for body in _LIST.findall(text)]


def collective_fault(op: str, text: str, before: Sharding | None, after: Sharding, mesh: Mesh) -> str:
    """The fault of a collective whose attribute has this text; empty if there is none, or `before` is unknown."""
    lists = listed_axes(text)
    if rest := _LISTED.sub("", text):
        return f"expected an axis in its list of axes, got '{rest[:20]}'"
    if message := _axes_fault([axis for axes in lists for axis in axes], mesh):
        return message
    if op in ("all_gather", "all_slice", "reduce_scatter", "sharded_to_unreduced") and len(lists) != after.rank:
        return f"lists the axes of {len(lists)} dims, but the tensor has rank {after.rank}"
    if op == "all_to_all" and (message := _params_fault(text, after.rank)):
        return message
    if op == "all_reduce" and (message := _reduced_fault(lists[0] if lists else (), after)):
        return message
    if op in _LEAVING and (message := _unreduced_fault(lists, after)):
        return message
    if before is None or before.rank != after.rank:
        return ""
    if op == "collective_permute":
        parts = [(before.parts(dim, mesh), after.parts(dim, mesh)) for dim in range(after.rank)]
        wrong = next((dim for dim, (here, there) in enumerate(parts) if here != there), None)
        return (
            "" if wrong is None else f"dim {wrong} has {parts[wrong][0]} shards, but out_sharding has {parts[wrong][1]}"
        )
    if message := _mismatch(before, after, *_added(op, text, lists, after.rank), mesh):
        return message
    return _left_fault(before, lists, after, mesh) if op in _LEAVING else ""


def part_fault(ref: str, mesh: Mesh) -> str:
    """The fault of a sub-axis: it must divide the axis, and be larger than 1 and smaller than the axis."""
    name, pre, size = split_ref(ref)
    if size is None or name not in mesh.names or (whole := mesh.axis(name).size) is None:
        return ""
    is_part = pre >= 1 and 1 < size < whole and whole % (pre * size) == 0
    return "" if is_part else f"'{ref}' is not a sub-axis of '{name}' of size {whole}"


def _axes_fault(axes: Sequence[str], mesh: Mesh) -> str:
    """Axes that there are not, or that are listed twice."""
    for number, axis in enumerate(axes):
        if split_ref(axis)[0] not in mesh.names:
            return f"mesh axis '{axis}' is not in {mesh}"
        if message := part_fault(axis, mesh):
            return message
        if any(overlaps(axis, other) for other in axes[:number]):
            return f"mesh axis '{axis}' is listed more than once"
    return ""


def _params_fault(text: str, rank: int) -> str:
    dims = [int(number) for _, *ends in _PARAM.findall(text) for number in ends]
    if not dims or any(not axes.strip() for axes, *_ in _PARAM.findall(text)):
        return "has no axes to exchange"
    if max(dims) >= rank:
        return f"names dim {max(dims)}, but the tensor has rank {rank}"
    if len(set(dims)) < len(dims):
        return f"names a dim twice: {dims}"
    return ""


def _reduced_fault(axes: Axes, after: Sharding) -> str:
    both = next((axis for axis in axes for used in after.used_axes if overlaps(axis, used)), None)
    return "" if both is None else f"reduces over '{both}', but out_sharding is split or unreduced along it"


def _kind_fault(operation: Operation, text: str, before: Sharding) -> str:
    """The fault of a reduction by another kind than that by which the operand is unreduced."""
    kind = string_of(operation.properties.get("reduction"), "sum")
    listed = [axis for axes in listed_axes(text) for axis in axes]
    for axis, left in before.partial:
        if operation.name in REDUCING and left != kind and any(overlaps(axis, other) for other in listed):
            return f"reduces over '{axis}' by {kind}, but its operand is unreduced there by {left}"
    return ""


def _unreduced_fault(lists: Sequence[Axes], after: Sharding) -> str:
    axes = [axis for axes in lists for axis in axes]
    rest = next((axis for axis in axes if not any(overlaps(axis, other) for other in after.partial_axes)), None)
    return "" if rest is None else f"leaves the value unreduced along '{rest}', but out_sharding does not"


def _left_fault(before: Sharding, lists: Sequence[Axes], after: Sharding, mesh: Mesh) -> str:
    """The value is unreduced along the axes along which it was, and along those listed."""
    listed = (axis for axes in lists for axis in axes)
    found, wanted = (
        _merged_axis_parts(sorted(axes, key=lambda axis: split_ref(axis)[:2]), mesh)
        for axes in (after.partial_axes, (*before.partial_axes, *listed))
    )
    text = ", ".join(before.partial_axes) or "none"
    return "" if found == wanted else f"leaves the value unreduced along its axes and those before it, which are {text}"


def _added(op: str, text: str, lists: Sequence[Axes], rank: int) -> tuple[list[Axes], list[Axes]]:
    """Per dim the axes that follow those of out, and those of the operand, where the rest is equal."""
    none: list[Axes] = [()] * rank
    if op in ("all_gather", "sharded_to_unreduced"):
        return list(lists), none
    if op == "all_to_all":
        lost, gained = none.copy(), none.copy()
        for axes, source, target in _PARAM.findall(text):
            lost[int(source)] = gained[int(target)] = read_axes(f"{{{axes}}}")
        return lost, gained
    return none, none if op in ("all_reduce", "replicated_to_unreduced") else list(lists)


def _mismatch(before: Sharding, after: Sharding, lost: Sequence[Axes], gained: Sequence[Axes], mesh: Mesh) -> str:
    for dim, (here, there) in enumerate(zip(before.dims, after.dims, strict=True)):
        found, wanted = _merged_axis_parts((*there, *lost[dim]), mesh), _merged_axis_parts((*here, *gained[dim]), mesh)
        if found != wanted:
            return f"dim {dim} of the operand is split along {list(here)}: with the axes listed out_sharding cannot be {list(there)} there"
    return ""


def _merged_axis_parts(axes: Iterable[str], mesh: Mesh) -> list[tuple[str, int, int]]:
    """Axes by name, devices before and devices along; parts of an axis that follow each other are one."""
    found: list[tuple[str, int, int]] = []
    for ref in axes:
        name, pre, size = split_ref(ref)
        size = mesh.axis(name).size if size is None else size
        if size == 1:
            continue
        if found and found[-1][0] == name and found[-1][1] * found[-1][2] == pre:
            found[-1] = (name, found[-1][1], found[-1][2] * (size or 0))
        else:
            found.append((name, pre, size or 0))
    return found
