"""Tests of lowered transfers between two meshes: every device receives the elements of its shard."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from meshgen.ccl.check_lowered import check_between, check_lowered
from meshgen.ccl.collective import Collective
from meshgen.ccl.host import HostBuffers
from meshgen.ccl.local_transport import run_lowered
from meshgen.ccl.lower import lower
from meshgen.ccl.mesh_transfers import Ends, Post
from meshgen.ccl.message_queues import Wires
from meshgen.ccl.steps import RESULT, SCRATCH, BufferRef, Lowered, dense
from meshgen.ir.graph import Node, TensorType, Value
from meshgen.mesh import Mesh, make_mesh
from meshgen.spec import P, Sharding, fit
from tests.ccl.random_collectives import random_mesh


def sides(ends: Ends) -> tuple[Node, Node]:
    """Return the transfer as the sending mesh runs it, and as the receiving mesh runs it."""
    attrs = {"channel": 0, "shape": ends.shape, "source": ends.source, "target": ends.target}
    token = TensorType((), "i1")
    sent = TensorType(ends.source.local_shape(ends.shape, ends.sender), "bf16")
    received = TensorType(ends.target.local_shape(ends.shape, ends.receiver), "bf16")
    send = Node("transfer_send", [Value(sent)], [Value(token)], attrs | {"peer": ends.receiver})
    return send, Node("transfer_recv", [Value(token)], [Value(received), Value(token)], attrs | {"peer": ends.sender})


def buffers(collective: Node, operands: list[Any], lowered: Lowered) -> HostBuffers:
    memory = {BufferRef("operand", n): np.frombuffer(a.tobytes(), np.uint8) for n, a in enumerate(operands)}
    memory |= {BufferRef("result", n): np.full(v.type.nbytes, 7, np.uint8) for n, v in enumerate(collective.results)}
    return HostBuffers(memory | {SCRATCH: np.full(lowered.scratch_bytes, 7, np.uint8)})


def check_transfer(ends: Ends, rng: np.random.Generator) -> None:
    """Check that the lowered steps of both meshes match, and that their results equal those of the reference `Post`."""
    send, recv = sides(ends)
    starts = {"first": 0, "second": ends.sender.size}
    sender_programs = [lower(Collective.of(send, ends.sender, starts), rank) for rank in range(ends.sender.size)]
    receiver_programs = [lower(Collective.of(recv, ends.receiver, starts), rank) for rank in range(ends.receiver.size)]
    assert (
        check_lowered(sender_programs, ends.sender)
        == check_lowered(receiver_programs, ends.receiver, ends.sender.size)
        == []
    )
    assert check_between(sender_programs, receiver_programs, (0, ends.sender.size)) == []
    wires, post, kind = Wires(), Post(), send.operands[0].type
    shards = [rng.normal(size=kind.sizes).astype(kind.numpy_dtype) for _ in sender_programs]
    sender_buffers = [buffers(send, [shard], program) for shard, program in zip(shards, sender_programs, strict=True)]
    run_lowered(sender_programs, sender_buffers, ends.sender, wires)
    receiver_buffers = [buffers(recv, [np.zeros((), np.bool_)], program) for program in receiver_programs]
    run_lowered(receiver_programs, receiver_buffers, ends.receiver, wires, ends.sender.size)
    post.send(send, shards, ends.sender.size)
    result_type = recv.results[0].type
    for result_buffers, expected in zip(receiver_buffers, post.receive(recv, ends.receiver), strict=True):
        result, mask = (
            result_buffers.array(dense(RESULT, result_type.dtype, result_type.sizes)),
            ~np.isnan(expected.astype(np.float32)),
        )
        assert (result[mask] == expected[mask]).all(), ends
        assert not result_buffers.array(dense(BufferRef("result", 1), "i1", ())).any()


@pytest.mark.parametrize(
    "source, target",
    [(P("x"), P("y")), (P("x"), P(None, "y")), (P(None, "x"), P()), (P(), P("y")), (P(), P(None, "y"))],
    ids=str,
)
@pytest.mark.parametrize("sizes", [(2, 3), (4, 2), (3, 1)], ids=str)
def test_transfer_between_meshes_delivers_shards(source: Sharding, target: Sharding, sizes: tuple[int, int]) -> None:
    first, second = make_mesh({"x": sizes[0], "r": 2}, "first"), make_mesh({"y": sizes[1]}, "second")
    check_transfer(Ends((7, 6), fit(source, 2), first, fit(target, 2), second), np.random.default_rng(3))


def sharding(rng: np.random.Generator, shape: tuple[int, ...], mesh: Mesh) -> Sharding:
    """Return a random sharding of `shape`: random axes on random dims, some unevenly."""
    dims: list[list[str]] = [[] for _ in shape]
    for axis_index in rng.permutation(len(mesh.names)):
        if shape and rng.random() < 0.7:
            dims[int(rng.integers(len(dims)))].append(mesh.names[axis_index])
    even_sharding = Sharding(tuple(map(tuple, dims)))
    if rng.random() < 0.7:
        return even_sharding
    cuts = [sorted(rng.integers(n + 1, size=even_sharding.parts(d, mesh) - 1).tolist()) for d, n in enumerate(shape)]
    offsets = tuple((0, *cut, n) if axes else () for axes, cut, n in zip(even_sharding.dims, cuts, shape, strict=True))
    return Sharding(even_sharding.dims, (), (), offsets)


@pytest.mark.parametrize("seed", range(4))
def test_random_transfer_between_meshes_delivers_shards(seed: int) -> None:
    for number in range(25):
        rng = np.random.default_rng((seed, number))
        shape = tuple(int(rng.integers(0 if rng.random() < 0.1 else 1, 9)) for _ in range(int(rng.integers(4))))
        first, second = random_mesh(rng, "first"), random_mesh(rng, "second")
        check_transfer(Ends(shape, sharding(rng, shape, first), first, sharding(rng, shape, second), second), rng)
