"""Random shardings, and shards of arrays on all ranks, to check reshard plans."""

from __future__ import annotations

import numpy as np

from meshgen.ccl.simulated import run_collective
from meshgen.ir.graph import Node, TensorType, Value
from meshgen.mesh import Mesh
from meshgen.ops.evaluate.common import ufunc_of
from meshgen.ops.rules.rule import OP_OF_KIND
from meshgen.sharding.reshard.plan import ReshardPlan
from meshgen.spec import Sharding

NEUTRAL = {"sum": 0, "max": -(2**31), "min": 2**31 - 1, "product": 1, "and": -1, "or": 0, "xor": 0}


def random_sharding(rng: np.random.Generator, rank: int, mesh: Mesh, *, partial: bool = False) -> Sharding:
    """Return a random sharding: each axis shards a dim (in any order), is partial (sum), or replicates."""
    dims: list[list[str]] = [[] for _ in range(rank)]
    summands: list[tuple[str, str]] = []
    for axis in rng.permutation(mesh.names):
        dim = int(rng.integers(0, rank + 1 + partial))
        if dim < rank:
            dims[dim].append(str(axis))
        elif dim == rank + 1:
            summands.append((str(axis), "sum"))
    return Sharding(tuple(map(tuple, dims)), tuple(sorted(summands, key=lambda pair: mesh.order(pair[0]))))


def tile_slices(
    sharding: Sharding, shape: tuple[int, ...], mesh: Mesh, rank: int
) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """Return the slices of a rank's rows in the global array and in the rank's buffer."""
    ranges = sharding.ranges(shape, mesh, rank)
    halo = sharding.halo or ((0, 0),) * len(shape)
    origin = [sharding.core(d, n, mesh, rank)[0] - halo[d][0] for d, n in enumerate(shape)]
    return (
        tuple(slice(a, max(a, b)) for a, b in ranges),
        tuple(slice(a - o, max(a, b) - o) for (a, b), o in zip(ranges, origin, strict=True)),
    )


def shards(x: np.ndarray, sharding: Sharding, mesh: Mesh, rng: np.random.Generator) -> list[np.ndarray]:
    """Return int32 buffers of all ranks: padding has a sentinel value, and partial values are split into random
    summands.
    """
    summands = {0: x}
    for axis, kind in sharding.partial:
        summands = _split(summands, kind, mesh.axis_size(axis), rng)
    buffers: list[np.ndarray] = []
    for rank in range(mesh.size):
        buffer = np.full(sharding.local_shape(x.shape, mesh), -(10**6), x.dtype)
        global_slices, local_slices = tile_slices(sharding, x.shape, mesh, rank)
        buffer[local_slices] = summands[mesh.index(rank, sharding.partial_axes)][global_slices]
        buffers.append(buffer)
    return buffers


def _split(parts: dict[int, np.ndarray], kind: str, size: int, rng: np.random.Generator) -> dict[int, np.ndarray]:
    """Split each array into `size` others that reduce to it. Nested calls may use different reduction kinds."""
    summands: dict[int, np.ndarray] = {}
    for index, x in parts.items():
        rest = [rng.integers(-9, 9, x.shape, dtype=x.dtype) for _ in range(size - 1)]
        if kind == "sum":
            terms = [x - sum(rest, np.zeros_like(x)), *rest]
        elif kind == "xor":
            terms = [np.bitwise_xor.reduce([x, *rest]), *rest]
        else:
            terms = [np.full_like(x, NEUTRAL[kind])] * (size - 1) + [x]
        for i, term in enumerate(terms):
            summands[index * size + i] = term
    return summands


def run_plan(plan: ReshardPlan, x: np.ndarray, mesh: Mesh, rng: np.random.Generator) -> None:
    """Assert that the plan's steps take a random sharding of `x` to the target sharding on every rank."""
    buffers = shards(x, plan.source, mesh, rng)
    state = plan.source
    for step in plan.steps:
        kinds = [TensorType(s.local_shape(x.shape, mesh), "i32") for s in (state, step.sharding)]
        node = Node(step.op, [Value(kinds[0])], [Value(kinds[1])], dict(step.attrs))
        buffers = run_collective(node, mesh, buffers)
        state = step.sharding
        assert all(b.shape == kinds[1].shape for b in buffers)
    assert not plan.steps or state == plan.target
    compare(buffers, plan.target, x, mesh)


def compare(buffers: list[np.ndarray], sharding: Sharding, x: np.ndarray, mesh: Mesh) -> None:
    """Assert that each rank's rows, reduced over its group along partial axes, equal those of the global array."""
    values: dict[int, np.ndarray] = {}
    for rank, buffer in enumerate(buffers):
        values[rank] = buffer[tile_slices(sharding, x.shape, mesh, rank)[1]]
    for axis, kind in reversed(sharding.partial):
        ufunc = ufunc_of(OP_OF_KIND[kind])
        for group in mesh.groups((axis,)):
            total = np.asarray(ufunc.reduce([values[rank] for rank in group]))
            values |= dict.fromkeys(group, total)
    for rank in range(mesh.size):
        np.testing.assert_array_equal(
            values[rank], x[tile_slices(sharding, x.shape, mesh, rank)[0]], err_msg=f"rank {rank}"
        )
