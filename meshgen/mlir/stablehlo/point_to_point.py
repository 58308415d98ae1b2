"""Importers of StableHLO's permutations, sends and receives on channels, and asynchronous operations."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute, Operation, SSAValue

from meshgen.ir.graph import TOKEN, TensorType
from meshgen.ir.replica_groups import find_shift, moving_axes, pair_faults
from meshgen.mlir.arith.builder import Builder, scalar_of
from meshgen.mlir.conversion import Importer, Refused
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.stablehlo.collectives import device_rows, emit_each, has_mesh
from meshgen.mlir.stablehlo.replica_group_rows import rows_of


def _import_permute(importer: Importer, operation: Operation) -> None:
    _send(importer, operation, operation.properties["source_target_pairs"], operation.operands, operation.results)


def _send(importer: Importer, operation: Operation, pairs_attribute: Attribute | None, operands: Sequence[SSAValue],
          results: Sequence[SSAValue]) -> None:  # fmt: skip
    """Emit a permutation: the devices send `operands` to each other along the pairs in `pairs_attribute`.

    A rotation along an entire axis becomes a `shift`. Any other permutation becomes a `permute_pairs`, which gives
    zeros to the devices that receive nothing; `shift` leaves these undefined.
    """
    mesh = importer.reading.module.mesh
    pairs: tuple[tuple[int, int], ...] = ()
    name, attrs = "permute_pairs", dict[str, object](axes=(), pairs=())
    if has_mesh(importer, operation):
        rows = importer.reading.placed(device_rows(importer, operation, rows_of(pairs_attribute)))
        pairs = tuple(sorted((row[0], row[1]) for row in rows if len(row) == 2))
        if message := pair_faults(pairs, mesh.size) if len(pairs) == len(rows) else "expected pairs of devices":
            importer.fault("MG0104", f"{operation.name}: {message}", operation)
        elif (shift := find_shift(pairs, mesh)) is not None:
            name, attrs = "shift", {"axes": (shift[0],), "shift_axis": shift[0], "offset": shift[1], "rotate": True}
        else:
            attrs = {"axes": moving_axes(pairs, mesh), "pairs": pairs}
    emit_each(importer, operation, name, attrs, (), operands, results)


def _import_send(importer: Importer, operation: Operation) -> None:
    """Import a send, which becomes only a token. The matching receive emits the communication."""
    if scalar_of(operation.properties.get("is_host_transfer")):
        importer.fault("MG0103", "stablehlo.send to the host is not supported", operation, "make the value a result")
    for result in operation.results:
        importer.bind(result, Builder(importer, operation).constant(0, TensorType(*TOKEN)))


def _import_receive(importer: Importer, operation: Operation) -> None:
    """Import a receive: it permutes the operand of the last send on the same channel before it in the block.

    The source-target pairs are those of the receive if it lists any, else those of the send.
    """
    block, channel = operation.parent_block(), operation.properties["channel_handle"]
    *values, token = operation.results or (None,)
    sends = [
        candidate
        for candidate in (block.ops if block else ())
        if candidate.name == "stablehlo.send" and candidate.is_before_in_block(operation)
    ]
    send = next((candidate for candidate in reversed(sends) if candidate.properties["channel_handle"] == channel), None)
    kinds = [importer.type(operand) for operand in send.operands[:-1]] if send else []
    if send is None or token is None or kinds != [importer.type(result) for result in values]:
        message = "has no matching send on its channel before it in its block"
        raise Refused("MG0103", message, "use stablehlo.collective_permute")
    pairs = operation.properties.get("source_target_pairs") or send.properties.get("source_target_pairs")
    if pairs is None:
        raise Refused("MG0103", "needs source_target_pairs", "list the pairs of source and target devices")
    _send(importer, operation, pairs, send.operands[:-1], values)
    importer.bind(token, Builder(importer, operation).constant(0, TensorType(*TOKEN)))


def _import_start(importer: Importer, operation: Operation) -> None:
    """Import `async_start` by inlining its region. The scheduler decides what runs asynchronously."""
    block = operation.regions[0].block
    if [importer.type(value) for value in block.args] != [importer.type(value) for value in operation.operands]:
        raise Refused("MG0104", "the arguments of its region do not match its operands")
    for argument, operand in zip(block.args, operation.operands, strict=True):
        importer.bind(argument, importer.value(operand))
    importer.operations(block)


def _import_done(importer: Importer, operation: Operation) -> None:
    (future,) = operation.operands
    start = future.owner
    is_started = isinstance(start, Operation) and start.name == "stablehlo.async_start"
    ends = start.regions[0].block.last_op if isinstance(start, Operation) and is_started else None
    if ends is not None and [end.type for end in ends.operands] == [result.type for result in operation.results]:
        importer.bind_results(operation, importer.values(ends.operands))
        return
    importer.value(future)  # If the operand has another producer, its definition causes the fault.
    if is_started or importer.reading.is_readable(future.type):
        raise Refused("MG0104", "has no matching stablehlo.async_start")
    importer.bind_placeholders(operation)


PART = Dialect(
    importers={
        "stablehlo.collective_permute": _import_permute,
        "stablehlo.send": _import_send,
        "stablehlo.recv": _import_receive,
        "stablehlo.async_start": _import_start,
        "stablehlo.async_done": _import_done,
    }
)
