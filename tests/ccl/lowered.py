"""Lower a collective, run it on all ranks, and compare it with its reference semantics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from meshgen.ccl.check_lowered import check_lowered
from meshgen.ccl.collective import Collective
from meshgen.ccl.host import HostBuffers
from meshgen.ccl.local_transport import Wires, run_lowered
from meshgen.ccl.lower import lower
from meshgen.ccl.packing import packing
from meshgen.ccl.simulated import Mailbox, run_collective
from meshgen.ccl.steps import SCRATCH, BufferRef, Lowered
from meshgen.ir.graph import Node, Value
from meshgen.ir.group_calls import single_operand_calls
from meshgen.mesh import Mesh
from tests.ccl.random_collectives import Case, random_bytes

Array = np.ndarray[Any, Any]
ROOTED = ("gather_to", "reduce_to", "shift", "recv")  # collectives that leave the results of some ranks unchanged
FIRST_RANK = 3  # index of the mesh's first rank in the world, as if other meshes preceded the mesh
JUNK = 0xC3  # initial bytes of results and scratch


def lowered_on(node: Node, mesh: Mesh) -> list[Lowered]:
    collective = Collective.of(node, mesh, {mesh.name: FIRST_RANK})
    return [lower(collective, rank) for rank in range(mesh.size)]


def run(
    node: Node, mesh: Mesh, lowered: Sequence[Lowered], shards: Sequence[Array], *, in_place: bool = False
) -> list[Array]:
    """Run the lowered steps of a collective of one operand and return the results of all ranks.

    With `in_place`, results share the memory of operands.
    """
    return run_all(node, mesh, lowered, [shards], in_place=in_place)[0]


def run_all(
    node: Node,
    mesh: Mesh,
    lowered: Sequence[Lowered],
    operand_shards: Sequence[Sequence[Array]],
    *,
    in_place: bool = False,
) -> list[list[Array]]:
    """Run the lowered steps of a collective of several operands.

    Operands and results are indexed first by operand, then by rank.
    """
    kinds = [value.type for value in node.results]
    buffers: list[HostBuffers] = []
    written: list[list[Array]] = []
    for rank, program in enumerate(lowered):
        operands = [np.frombuffer(bytearray(shards[rank].tobytes()), np.uint8) for shards in operand_shards]
        results = operands if in_place else [np.full(kind.nbytes, JUNK, np.uint8) for kind in kinds]
        memory = {BufferRef("operand", position): array for position, array in enumerate(operands)}
        memory |= {BufferRef("result", position): array for position, array in enumerate(results)}
        buffers.append(HostBuffers(memory | {SCRATCH: np.full(program.scratch_bytes, JUNK, np.uint8)}))
        written.append(results)
    run_lowered(lowered, buffers, mesh, Wires(), FIRST_RANK)
    return [
        [results[position].view(kind.numpy_dtype).reshape(kind.sizes) for results in written]
        for position, kind in enumerate(kinds)
    ]


def meant(node: Node, mesh: Mesh, shards: Sequence[Array]) -> list[Array]:
    """Return the results of `run_collective`; for a `recv`, run a matching `send` first."""
    mailbox = Mailbox()
    if node.op == "recv":
        sent = {"axes": node.attrs.axes, "destination": node.attrs.destination}
        run_collective(Node("send", node.operands, node.results, sent), mesh, list(shards), mailbox)
    return run_collective(node, mesh, list(shards), mailbox)


def defined(node: Node, mesh: Mesh) -> list[Array]:
    """Return a mask of the defined result elements for each rank.

    A collective leaves undefined elements NaN. The masks come from the reference on f32 operands that are all ones.
    """
    operands, results = (
        [Value(v.type.__class__(v.type.shape, "f32")) for v in values] for values in (node.operands, node.results)
    )
    attrs = node.attrs | ({"kind": "sum"} if "kind" in node.attrs.given else {})
    ones = [np.ones(operands[0].type.sizes, np.float32) for _ in range(mesh.size)]
    return [~np.isnan(array) for array in meant(Node(node.op, operands, results, attrs), mesh, ones)]


def faults(case: Case, rng: np.random.Generator) -> list[str]:
    """Return descriptions of all faults in the lowered steps of a random collective.

    The results must match the reference, the steps of all ranks must match, and no rank may copy more than planned.
    """
    node, mesh = case.node, case.mesh
    lowered = lowered_on(node, mesh)
    messages = check_lowered(lowered, mesh, FIRST_RANK)
    planned = packing(Collective.of(node, mesh))
    if (copied_bytes := max(program.local_bytes for program in lowered)) > planned.local_bytes:
        messages.append(f"a rank copies {copied_bytes} bytes, {planned.local_bytes} were planned")
    if messages:
        return messages
    operand_shards = [[random_bytes(rng, value.type) for _ in range(mesh.size)] for value in node.operands]
    with np.errstate(all="ignore"):
        results = run_all(node, mesh, lowered, operand_shards)
    for call, shards, actual in zip(single_operand_calls(node), operand_shards, results, strict=True):
        messages += _differences(call, mesh, shards, actual)
    return messages


def _differences(node: Node, mesh: Mesh, shards: Sequence[Array], results: Sequence[Array]) -> list[str]:
    """Return a description for each rank whose result differs from the reference, for a collective of one operand."""
    messages: list[str] = []
    with np.errstate(all="ignore"):
        expected_results = meant(node, mesh, shards)
    for rank, (actual, expected, mask) in enumerate(zip(results, expected_results, defined(node, mesh), strict=True)):
        if not same(actual[mask], expected[mask], moves="kind" not in node.attrs.given):
            messages.append(f"rank {rank} has {actual.tolist()}, which is to be {expected.tolist()}")
        if not mask.any() and node.op in ROOTED and set(actual.tobytes()) - {JUNK}:
            messages.append(f"rank {rank} writes a result that is undefined: {actual.tolist()}")
    return messages


def same(actual: Array, expected: Array, *, moves: bool) -> bool:
    """Whether arrays are bitwise equal. If a reduction computed them (not `moves`), NaN payloads may differ."""
    if moves or actual.dtype.kind in "biu" or actual.dtype.itemsize == 0:
        return actual.tobytes() == expected.tobytes()
    with np.errstate(all="ignore"):
        nan, expected_nan = actual != actual, expected != expected
    return bool((nan == expected_nan).all()) and actual[~nan].tobytes() == expected[~nan].tobytes()
