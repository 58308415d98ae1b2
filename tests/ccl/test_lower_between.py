"""Lowered transfers from one mesh to another: every device gets what it is to have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from meshgen.ccl.agreement import check_between, check_lowered
from meshgen.ccl.between import Ends, Post
from meshgen.ccl.collective import Collective
from meshgen.ccl.host import HostBuffers
from meshgen.ccl.local import run_lowered
from meshgen.ccl.lower import lower
from meshgen.ccl.steps import RESULT, SCRATCH, BufferRef, Lowered, dense
from meshgen.ccl.wires import Wires
from meshgen.ir.graph import Node, TensorType, Value
from meshgen.mesh import Mesh, make_mesh
from meshgen.spec import P, Sharding, fit
from tests.ccl.random_collectives import random_mesh


def sides(ends: Ends) -> tuple[Node, Node]:
    """What the sending mesh runs, and what the receiving one does."""
    attrs = {"channel": 0, "shape": ends.shape, "source": ends.source, "target": ends.target}
    turn = TensorType((), "i1")
    sent = TensorType(ends.source.local_shape(ends.shape, ends.sender), "bf16")
    got = TensorType(ends.target.local_shape(ends.shape, ends.receiver), "bf16")
    send = Node("transfer_send", [Value(sent)], [Value(turn)], attrs | {"peer": ends.receiver})
    return send, Node("transfer_recv", [Value(turn)], [Value(got), Value(turn)], attrs | {"peer": ends.sender})


def buffers(collective: Node, operands: list[Any], lowered: Lowered) -> HostBuffers:
    found = {BufferRef("operand", n): np.frombuffer(a.tobytes(), np.uint8) for n, a in enumerate(operands)}
    found |= {BufferRef("result", n): np.full(v.type.nbytes, 7, np.uint8) for n, v in enumerate(collective.results)}
    return HostBuffers(found | {SCRATCH: np.full(lowered.scratch_bytes, 7, np.uint8)})


def arrives(ends: Ends, rng: np.random.Generator) -> None:
    """The lowered steps of both sides fit together, and do what `deliver` says."""
    send, recv = sides(ends)
    starts = {"first": 0, "second": ends.sender.size}
    gone = [lower(Collective.of(send, ends.sender, starts), rank) for rank in range(ends.sender.size)]
    come = [lower(Collective.of(recv, ends.receiver, starts), rank) for rank in range(ends.receiver.size)]
    assert check_lowered(gone, ends.sender) == check_lowered(come, ends.receiver, ends.sender.size) == []
    assert check_between(gone, come, (0, ends.sender.size)) == []
    wires, post, kind = Wires(), Post(), send.operands[0].type
    shards = [rng.normal(size=kind.sizes).astype(kind.numpy_dtype) for _ in gone]
    here = [buffers(send, [shard], each) for shard, each in zip(shards, gone, strict=True)]
    run_lowered(gone, here, ends.sender, wires)
    there = [buffers(recv, [np.zeros((), np.bool_)], each) for each in come]
    run_lowered(come, there, ends.receiver, wires, ends.sender.size)
    post.send(send, shards, ends.sender.size)
    got = recv.results[0].type
    for have, want in zip(there, post.receive(recv, ends.receiver), strict=True):
        found, mask = have.array(dense(RESULT, got.dtype, got.sizes)), ~np.isnan(want.astype(np.float32))
        assert (found[mask] == want[mask]).all(), ends
        assert not have.array(dense(BufferRef("result", 1), "i1", ())).any()


@pytest.mark.parametrize(
    "source, target",
    [(P("x"), P("y")), (P("x"), P(None, "y")), (P(None, "x"), P()), (P(), P("y")), (P(), P(None, "y"))],
    ids=str,
)
@pytest.mark.parametrize("sizes", [(2, 3), (4, 2), (3, 1)], ids=str)
def test_a_value_crosses_to_another_mesh(source: Sharding, target: Sharding, sizes: tuple[int, int]) -> None:
    first, second = make_mesh({"x": sizes[0], "r": 2}, "first"), make_mesh({"y": sizes[1]}, "second")
    arrives(Ends((7, 6), fit(source, 2), first, fit(target, 2), second), np.random.default_rng(3))


def sharding(rng: np.random.Generator, shape: tuple[int, ...], mesh: Mesh) -> Sharding:
    """Some axes, each on some dim; some dims are split unevenly."""
    dims: list[list[str]] = [[] for _ in shape]
    for place in rng.permutation(len(mesh.names)):
        if shape and rng.random() < 0.7:
            dims[int(rng.integers(len(dims)))].append(mesh.names[place])
    found = Sharding(tuple(map(tuple, dims)))
    if rng.random() < 0.7:
        return found
    cuts = [sorted(rng.integers(n + 1, size=found.parts(d, mesh) - 1).tolist()) for d, n in enumerate(shape)]
    offsets = tuple((0, *cut, n) if axes else () for axes, cut, n in zip(found.dims, cuts, shape, strict=True))
    return Sharding(found.dims, (), (), offsets)


@pytest.mark.parametrize("seed", range(4))
def test_random_values_cross(seed: int) -> None:
    for number in range(25):
        rng = np.random.default_rng((seed, number))
        shape = tuple(int(rng.integers(0 if rng.random() < 0.1 else 1, 9)) for _ in range(int(rng.integers(4))))
        first, second = random_mesh(rng, "first"), random_mesh(rng, "second")
        arrives(Ends(shape, sharding(rng, shape, first), first, sharding(rng, shape, second), second), rng)
