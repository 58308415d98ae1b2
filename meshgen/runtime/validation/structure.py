"""Checks that a schedule is well-formed: valid numbers, buffers within the arena, launches that match their buffers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

from meshgen.ccl.exchange import summand_axes
from meshgen.ccl.mesh_transfers import Ends
from meshgen.ccl.packing import packing
from meshgen.errors import Diagnostic, ShardingError
from meshgen.ir.attributes.control import Scan
from meshgen.ir.attributes.sharding import devices_by_role
from meshgen.ir.graph import Graph, Node, TensorType, Value, real_dtype
from meshgen.ir.predicates import is_control, is_kernel, is_loop, is_scan, is_transfer, is_transfer_send
from meshgen.mesh import Mesh
from meshgen.ops.classes import COMMUNICATING, RESHARDS, RETILING
from meshgen.ops.types.inference import verify_node
from meshgen.printable import distinguishable_sizes
from meshgen.runtime.plan import ALIGNMENT, KINDS, ROW_ALIGNMENT, STREAMS, Buffer, Item, Schedule, aligned
from meshgen.spec import Sharding

MAX_FAULTS = 20  # largest number of reported errors of one type (chosen: fits on a screen)


def structure_faults(plan: Schedule, mesh: Mesh) -> list[Diagnostic]:
    """Return the errors in a schedule's structure. This check runs before anything else uses the schedule.

    It finds numbers out of range, buffers outside of the arena, invalid views, unknown ops and mismatched types.
    """
    return [Diagnostic("MG0402", text) for text in islice(_faults(plan, mesh, "input"), MAX_FAULTS)]


def _faults(plan: Schedule, mesh: Mesh, input_kind: str) -> Iterator[str]:
    """Yield the errors of a step or region. The caller may stop early.

    Args:
        input_kind: the kind of the input buffers, `input` for a step and `given` for a region.
    """
    yield from _buffer_faults(plan)
    for index, item in enumerate(plan.items):
        yield from (f"item {index}: {text}" for text in _item_faults(item, plan, mesh))
    yield from _signature_faults(plan, input_kind)
    yield from _donation_faults(plan)


def _signature_faults(plan: Schedule, input_kind: str) -> list[str]:
    count = len(plan.buffers)
    faults = [f"the step has no buffer {n}" for n in (*plan.inputs, *plan.outputs) if not 0 <= n < count]
    invalid = [n for n in plan.inputs if 0 <= n < count and plan.buffers[n].kind != input_kind]
    # The kinds of buffers that only a region may have, or only a step.
    foreign = ("given",) if input_kind == "input" else ("input", "constant")
    invalid += [n for n, b in enumerate(plan.buffers) if b.kind in foreign]
    times = Counter(plan.inputs)
    faults += [
        f"buffer {n} '{b.name}' of kind '{input_kind}' must be once in the signature, not {times[n]} times"
        for n, b in enumerate(plan.buffers)
        if b.kind == input_kind and b.storage == n and times[n] != 1
    ]
    invalid += [n for n in plan.outputs if 0 <= n < count and plan.buffers[n].kind == "temporary"]
    return faults + [
        f"buffer {n} '{plan.buffers[n].name}' of kind '{plan.buffers[n].kind}' must not be in the signature"
        for n in invalid
    ]


def _donation_faults(plan: Schedule) -> Iterator[str]:
    """Yield an error for each donation, unless it maps an input to an output of the same type."""
    inputs, outputs = (set(side).intersection(range(len(plan.buffers))) for side in (plan.inputs, plan.outputs))
    for donated, output in plan.donated.items():
        if donated not in inputs or output not in outputs:
            yield f"buffer {donated} is donated to buffer {output}, but they are not an input and an output"
        elif (donated_type := plan.buffers[donated].type) != (output_type := plan.buffers[output].type):
            yield f"buffer {donated} of type {donated_type} is donated to buffer {output} of type {output_type}"


def _are_alike(dtype: str, other_dtype: str) -> bool:
    """Whether a buffer of one dtype may be a view of a buffer of the other dtype.

    The dtypes must be equal, or be a complex type and its real type.
    """
    return real_dtype(dtype) == real_dtype(other_dtype)


def _buffer_faults(plan: Schedule) -> list[str]:
    faults: list[str] = []
    for number, buffer in enumerate(plan.buffers):
        name = f"buffer {number} '{buffer.name}'"
        if buffer.kind not in KINDS:
            faults.append(f"{name} is of unknown kind '{buffer.kind}'")
        if buffer.offset < 0 or buffer.offset % ALIGNMENT or _arena_end(buffer) > plan.arena_bytes:
            faults.append(
                f"{name} is at bytes {buffer.offset} to {buffer.end} of an arena of {plan.arena_bytes}; offsets must be multiples of {ALIGNMENT}"
            )
        if not 0 <= buffer.storage < len(plan.buffers):
            faults.append(f"{name} views buffer {buffer.storage}, which does not exist")
            continue
        storage = plan.buffers[buffer.storage]
        inside = storage.offset <= buffer.offset and buffer.end <= storage.end
        if (storage.storage, storage.kind) != (buffer.storage, buffer.kind) or not inside:
            faults.append(f"{name} views buffer {buffer.storage} '{storage.name}', but is at another offset")
        is_part = buffer.kind != "given" and buffer.type.nbytes < storage.type.nbytes
        if not (is_part or storage.type.nbytes == buffer.type.nbytes) or not _are_alike(
            storage.type.dtype, buffer.type.dtype
        ):
            faults.append(f"{name} of type {buffer.type} cannot view '{storage.name}' of type {storage.type}")
    max_bytes = sum(aligned(b.type.nbytes) for b in plan.buffers if b.kind != "given")
    if plan.arena_bytes > max_bytes:
        arena, needed = distinguishable_sizes(plan.arena_bytes, max_bytes)
        faults.append(f"the arena has {arena}, but all buffers together need only {needed}")
    return faults


def _arena_end(buffer: Buffer) -> int:
    """Return the end of a buffer in the arena in bytes.

    A buffer that is passed to a region occupies no bytes there.
    """
    return buffer.offset if buffer.kind == "given" else buffer.end


def _item_faults(item: Item, plan: Schedule, mesh: Mesh) -> list[str]:
    if any(not 0 <= n < len(plan.buffers) for n in (*item.inputs, *item.writes)):
        return [f"'{item.label}' uses a buffer that does not exist"]
    if not 0 <= item.stream < STREAMS:
        return [f"'{item.label}' is on stream {item.stream}, but there are {STREAMS}"]
    if is_control(item):
        return _flow_faults(item, plan, mesh)
    if item.regions:
        return [f"'{item.label}' has regions, but is not control flow"]
    if is_kernel(item) and item.scratch is not None:
        return [f"'{item.label}' has scratch, but is a kernel"]
    if is_kernel(item):
        return _kernel_faults(item, plan)
    if item.op not in COMMUNICATING:
        return [f"unknown op '{item.op}'"]
    return _collective_faults(item, plan, mesh) or _scratch_faults(item, plan, mesh)


def _flow_faults(item: Item, plan: Schedule, mesh: Mesh) -> list[str]:
    """Return the errors of regions: arguments and results must match the item, and arenas must fit its scratch."""
    faults = [f"'{item.op}': {text}" for text in _signatures(item, plan)] + _kind_of_scratch_faults(item, plan)
    scratch_bytes = _scratch_bytes(item, plan)
    for region in item.regions:
        if region.arena_bytes > scratch_bytes:
            available, needed = distinguishable_sizes(scratch_bytes, region.arena_bytes)
            faults.append(f"'{item.op}' has {available} for a region that needs {needed}")
        if any(is_transfer(inner) for inner in region.items):
            faults.append(f"'{item.op}' holds a transfer between meshes")
        inner = islice(_faults(region, mesh, "given"), MAX_FAULTS)
        faults += [f"in '{item.op}': {text}" for text in inner]
    return faults


def _scratch_bytes(item: Item, plan: Schedule) -> int:
    """Return the size of an item's scratch in bytes, or 0 without scratch."""
    return 0 if item.scratch is None else plan.buffers[item.scratch].type.nbytes


def _kind_of_scratch_faults(item: Item, plan: Schedule) -> list[str]:
    if item.scratch is None or plan.buffers[item.scratch].kind == "temporary":
        return []
    return [f"the scratch of '{item.op}' is buffer {item.scratch}, which is not a temporary"]


def _scratch_faults(item: Item, plan: Schedule, mesh: Mesh) -> list[str]:
    """Return the error of a collective's scratch: it must suffice for the lowered steps on every rank."""
    required_bytes = packing(plan.collective(item, mesh)).scratch_bytes
    faults = _kind_of_scratch_faults(item, plan)
    if required_bytes > (size := _scratch_bytes(item, plan)):
        available, minimum = distinguishable_sizes(size, required_bytes)
        faults.append(f"'{item.label}' has {available} of scratch, but needs {minimum}")
    return faults


def _signatures(item: Item, plan: Schedule) -> Iterator[str]:
    """Yield errors in the types of the regions' arguments and results, which the types of the item's buffers determine."""
    inputs, outputs = ([plan.buffers[n].type for n in numbers] for numbers in (item.inputs, item.outputs))
    steps = [[[region.buffers[n].type for n in side if 0 <= n < len(region.buffers)] for side in (region.inputs, region.outputs)]
             for region in item.regions]  # fmt: skip
    if is_scan(item):
        yield from _scan_faults(item, plan)
        return
    if is_loop(item):
        expected = [(inputs, [TensorType((), "i1")]), (inputs, outputs)]
        if inputs[: len(outputs)] != outputs:
            yield "its carried values do not match its results"
    else:
        expected = [(inputs[1:], outputs)] * len(item.regions)
        predicate_type = {"if": "i1"}.get(item.op, "i32")
        if inputs[:1] != [TensorType((), predicate_type)]:
            yield f"its predicate must be a scalar of type {predicate_type}"
    count = {"while": 2, "if": 2}.get(item.op, max(1, len(steps)))
    if len(steps) != count:
        yield f"it has {len(steps)} regions"
    for index, (actual, signature) in enumerate(zip(steps, expected, strict=False)):
        if (actual[0], actual[1]) != signature:
            yield f"region {index} does not match its operands and results"
    if type(item.times) is not int or item.times < 1:
        yield f"it cannot run {item.times!r} times"


def _scan_faults(item: Item, plan: Schedule) -> Iterator[str]:
    """Yield the errors of a scan.

    It must pass to its body operands, or aligned rows that exist at every iteration.
    """
    if not isinstance(item.attrs, Scan) or len(item.regions) != 1:
        yield "it has no trip count, or does not have exactly one region"
        return
    (region,) = item.regions
    if any(is_control(inner) and not is_scan(inner) for inner in region.items):
        yield "it holds control flow that depends on values"
    sides = [[n for n in side if 0 <= n < len(region.buffers)] for side in (region.inputs, region.outputs)]
    ins, outs = ([Value(region.buffers[n].type) for n in side] for side in sides)
    operands, results = ([Value(plan.buffers[n].type) for n in side] for side in (item.inputs, item.outputs))
    body = Graph("", ins, [], outs)
    faults = verify_node(Node("scan", operands, results, item.attrs, regions=(body,)))
    yield from (fault.message for fault in faults)
    for number, (first, step) in () if faults else item.attrs.steps.items():
        row_bytes = operands[number].type.nbytes // operands[number].type.sizes[0]
        if first * row_bytes % ROW_ALIGNMENT or step * row_bytes % ROW_ALIGNMENT:
            yield f"its rows of operand {number} are not aligned to {ROW_ALIGNMENT} bytes"


def _collective_faults(item: Item, plan: Schedule, mesh: Mesh) -> list[str]:
    """Return the errors of a collective: its attributes and local types must be valid on `mesh`."""
    inputs, outputs = ([Value(plan.buffers[n].type) for n in numbers] for numbers in (item.inputs, item.outputs))
    # Stage `partition` lowers root coordinates that are computed at run time, so a schedule has only constant ones.
    for name, coordinates in devices_by_role(item.attrs).items():
        if isinstance(coordinates, tuple) and None in coordinates:
            return [f"'{item.op}': {name} is only known at run time"]
    if item.op == "recv" and "destination" not in item.attrs.given:
        return ["'recv' has no receivers"]
    try:
        faults = verify_node(Node(item.op, inputs, outputs, item.attrs), mesh)
        if not faults and is_transfer(item):
            return _between_faults(item, inputs, outputs, mesh)
        if not faults and item.op in RESHARDS:
            return _transfer_faults(item, [inputs[0].type, outputs[0].type], mesh)
    except ShardingError as error:
        return [f"'{item.op}': {error.diagnostics[0].message}"]
    return [fault.message for fault in faults]


def _transfer_faults(item: Item, types: Sequence[TensorType], mesh: Mesh) -> list[str]:
    """Return the errors of a reshard: both shardings must be valid for the tensor, with shards of the types `types`."""
    shape = tuple(item.attrs.shape)
    if item.op not in RETILING:
        after = item.attrs.sharding
        before = after if types[0] == types[1] else replace(after, halo=())
        ends = {"sharding without halo": before, "sharding": after}
    else:
        ends = {name: getattr(item.attrs, name) for name in ("source", "target")}
    for (name, sharding), kind in zip(ends.items(), types, strict=True):
        if faults := sharding.faults(shape, mesh):
            return [f"'{item.op}': {name}: {fault.message}" for fault in faults]
        if sharding.local_shape(shape, mesh) != kind.shape:
            return [f"'{item.op}': {name} {sharding} of shape {list(shape)} does not have shards of type {kind}"]
    source, target = ends.values()
    if summand_axes(source, target, mesh) is None:
        return [f"'{item.op}' cannot reduce, as {source} to {target} requires"]
    return []


def _between_faults(item: Item, inputs: Sequence[Value], outputs: Sequence[Value], mesh: Mesh) -> list[str]:
    """Return the errors of a transfer between meshes: both shardings must be valid and match this side's local type."""
    sends = is_transfer_send(item)
    if not all(isinstance(item.attrs.get(name), Sharding) for name in ("source", "target")):
        return [f"'{item.op}' needs the value's sharding on both meshes"]
    ends = Ends.of(item.op, item.attrs, mesh)
    if faults := ends.faults():
        return [f"'{item.op}': {fault}" for fault in faults]
    kind, sharding = (inputs[0].type, ends.source) if sends else (outputs[0].type, ends.target)
    if sharding.local_shape(ends.shape, mesh) != kind.shape:
        return [f"'{item.op}': {sharding} of shape {list(ends.shape)} does not have shards of type {kind}"]
    return []


def _kernel_faults(item: Item, plan: Schedule) -> list[str]:
    """Return the errors of a kernel launch: the kernel must exist, and its body must have the types of the buffers."""
    body = plan.kernels.get(item.kernel)
    if body is None:
        return [f"unknown kernel '{item.kernel}'"]
    for what, numbers, values in (("inputs", item.inputs, body.inputs), ("results", item.outputs, body.outputs)):
        if (
            len(numbers) != len(values)
        ):  # This is checked first, because a malicious module may have a kernel with many parameters and many launches of it.
            return [f"kernel '{item.kernel}' has {len(values)} {what}, but {len(numbers)} buffers"]
        for position, (number, value) in enumerate(zip(numbers, values, strict=True)):
            if (buffer_type := plan.buffers[number].type) != value.type:
                return [
                    f"kernel '{item.kernel}': {what[:-1]} {position} has type {value.type}, but its buffer has type {buffer_type}"
                ]
    return []
