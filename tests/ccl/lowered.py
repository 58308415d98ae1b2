"""A collective lowered and run on all ranks, next to what it means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from meshgen.ccl.agreement import check_lowered
from meshgen.ccl.collective import Collective
from meshgen.ccl.host import HostBuffers
from meshgen.ccl.local import Wires, run_lowered
from meshgen.ccl.lower import lower
from meshgen.ccl.packing import packing
from meshgen.ccl.simulated import Mailbox, run_collective
from meshgen.ccl.steps import SCRATCH, BufferRef, Lowered
from meshgen.ir.graph import Node, Value
from meshgen.ir.group_calls import calls_of
from meshgen.mesh import Mesh
from tests.ccl.random_collectives import Case, random_bytes

Array = np.ndarray[Any, Any]
ROOTED = ("gather_to", "reduce_to", "shift", "recv")  # they leave the results of some ranks as they are
FIRST_RANK = 3  # of the mesh in the world: other meshes come before it
JUNK = 0xC3  # what lies in results and scratch before


def lowered_on(node: Node, mesh: Mesh) -> list[Lowered]:
    collective = Collective.of(node, mesh, {mesh.name: FIRST_RANK})
    return [lower(collective, rank) for rank in range(mesh.size)]


def run(
    node: Node, mesh: Mesh, lowered: Sequence[Lowered], shards: Sequence[Array], *, in_place: bool = False
) -> list[Array]:
    """What all ranks have in their results after the lowered steps; `in_place`, where the operands were."""
    return run_all(node, mesh, lowered, [shards], in_place=in_place)[0]


def run_all(
    node: Node, mesh: Mesh, lowered: Sequence[Lowered], given: Sequence[Sequence[Array]], *, in_place: bool = False
) -> list[list[Array]]:
    """The same of a collective of several operands: `given`, and the results, by operand and rank."""
    kinds = [value.type for value in node.results]
    buffers: list[HostBuffers] = []
    written: list[list[Array]] = []
    for rank, each in enumerate(lowered):
        operands = [np.frombuffer(bytearray(shards[rank].tobytes()), np.uint8) for shards in given]
        results = operands if in_place else [np.full(kind.nbytes, JUNK, np.uint8) for kind in kinds]
        memory = {BufferRef("operand", number): array for number, array in enumerate(operands)}
        memory |= {BufferRef("result", number): array for number, array in enumerate(results)}
        buffers.append(HostBuffers(memory | {SCRATCH: np.full(each.scratch_bytes, JUNK, np.uint8)}))
        written.append(results)
    run_lowered(lowered, buffers, mesh, Wires(), FIRST_RANK)
    return [
        [results[number].view(kind.numpy_dtype).reshape(kind.sizes) for results in written]
        for number, kind in enumerate(kinds)
    ]


def meant(node: Node, mesh: Mesh, shards: Sequence[Array]) -> list[Array]:
    """What `run_collective` says; a `recv` takes what was sent just before."""
    mailbox = Mailbox()
    if node.op == "recv":
        sent = {"axes": node.attrs.axes, "destination": node.attrs.destination}
        run_collective(Node("send", node.operands, node.results, sent), mesh, list(shards), mailbox)
    return run_collective(node, mesh, list(shards), mailbox)


def defined(node: Node, mesh: Mesh) -> list[Array]:
    """Which elements of the results the meaning defines: those that are a number where all operands are ones of f32."""
    operands, results = (
        [Value(v.type.__class__(v.type.shape, "f32")) for v in values] for values in (node.operands, node.results)
    )
    attrs = node.attrs | ({"kind": "sum"} if "kind" in node.attrs.given else {})
    ones = [np.ones(operands[0].type.sizes, np.float32) for _ in range(mesh.size)]
    return [~np.isnan(array) for array in meant(Node(node.op, operands, results, attrs), mesh, ones)]


def faults(case: Case, rng: np.random.Generator) -> list[str]:
    """All in which the lowered steps of a case are not what it means, do not fit together or need more than was planned."""
    node, mesh = case.node, case.mesh
    lowered = lowered_on(node, mesh)
    found = check_lowered(lowered, mesh, FIRST_RANK)
    planned = packing(Collective.of(node, mesh))
    if (most := max(each.local_bytes for each in lowered)) > planned.local_bytes:
        found.append(f"a rank copies {most} bytes, {planned.local_bytes} were planned")
    if found:
        return found
    given = [[random_bytes(rng, value.type) for _ in range(mesh.size)] for value in node.operands]
    with np.errstate(all="ignore"):
        results = run_all(node, mesh, lowered, given)
    for call, shards, have in zip(calls_of(node), given, results, strict=True):
        found += _differences(call, mesh, shards, have)
    return found


def _differences(node: Node, mesh: Mesh, shards: Sequence[Array], results: Sequence[Array]) -> list[str]:
    """Where results of a collective of one operand are not what it means."""
    found: list[str] = []
    with np.errstate(all="ignore"):
        wanted = meant(node, mesh, shards)
    for rank, (have, want, mask) in enumerate(zip(results, wanted, defined(node, mesh), strict=True)):
        if not same(have[mask], want[mask], moves="kind" not in node.attrs.given):
            found.append(f"rank {rank} has {have.tolist()}, which is to be {want.tolist()}")
        if not mask.any() and node.op in ROOTED and set(have.tobytes()) - {JUNK}:
            found.append(f"rank {rank} writes a result that is undefined: {have.tolist()}")
    return found


def same(have: Array, want: Array, *, moves: bool) -> bool:
    """Bit for bit; after a reduction one NaN is as good as another."""
    if moves or have.dtype.kind in "biu" or have.dtype.itemsize == 0:
        return have.tobytes() == want.tobytes()
    with np.errstate(all="ignore"):
        nan, other = have != have, want != want
    return bool((nan == other).all()) and have[~nan].tobytes() == want[~nan].tobytes()
