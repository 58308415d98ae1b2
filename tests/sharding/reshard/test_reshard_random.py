"""Random reshards of every kind, simulated on all ranks.

They have 1 to 4 axes and rank 0 to 5, with partial values, halos, offsets, sub-axes, links of different speed, uneven
sizes, and axes of one device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from meshgen.ir.graph import TensorType
from meshgen.mesh import Axis, Mesh
from meshgen.sharding.reshard.plan import ReshardPlan, plan_reshard
from meshgen.spec import PARTIAL_KINDS, Sharding
from tests.sharding.reshard.reshard_oracle import run_plan
from tests.trials import trials

GROUPS, PER_GROUP = trials(4), 50
SIZES = [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16]
MOST_ELEMENTS, MOST_DEVICES = 20_000, 64


@pytest.mark.parametrize("group", GROUPS)
def test_random_reshards_are_correct_within_memory_of_ends(group: int) -> None:
    for seed in range(group * PER_GROUP, (group + 1) * PER_GROUP):
        check(seed)


def check(seed: int) -> ReshardPlan:
    """Simulate one random reshard, assert that no buffer is larger than the larger end, and return its plan."""
    rng = np.random.default_rng([16, seed])
    mesh, shape = _mesh(rng), _shape(rng)
    x = rng.integers(-99, 99, shape, dtype=np.int32)
    source, target = (random_end(rng, shape, mesh) for _ in range(2))
    plan = plan_reshard(TensorType(shape, "i32"), source, target, mesh)
    run_plan(plan, x, mesh, rng)
    buffer_sizes = [
        int(np.prod(s.local_shape(shape, mesh))) for s in (source, *(step.sharding for step in plan.steps), target)
    ]
    assert max(buffer_sizes) == max(buffer_sizes[0], buffer_sizes[-1])
    return plan


def _mesh(rng: np.random.Generator) -> Mesh:
    axes: list[Axis] = []
    slow = rng.random() < 0.3
    for name in "xyzw"[: int(rng.integers(1, 5))]:
        size = int(rng.choice([1, 2, 2, 3, 4]))
        if np.prod([axis.size or 1 for axis in axes]) * size > MOST_DEVICES:
            size = 2
        links = (25e9, 30e-6) if slow and rng.random() < 0.5 else (370e9, 8e-6)
        axes.append(Axis(name, size, *links))
    return Mesh(tuple(axes))


def _shape(rng: np.random.Generator) -> tuple[int, ...]:
    shape = [int(size) for size in rng.choice(SIZES, int(rng.integers(0, 6)))]
    while np.prod(shape) > MOST_ELEMENTS:
        shape[int(np.argmax(shape))] //= 2
    return tuple(shape)


def random_end(
    rng: np.random.Generator, shape: Sequence[int], mesh: Mesh, kinds: Sequence[str] = PARTIAL_KINDS
) -> Sharding:
    """Return a random sharding: each axis, or its two halves, shards a dim, is partial, or replicates.

    Some shardings have a halo or offsets.
    """
    refs: list[str] = []
    for axis in mesh.axes:
        halves = (f"{axis.name}:(1)2", f"{axis.name}:(2)2")
        refs += halves if axis.size == 4 and rng.random() < 0.2 else [axis.name]
    dims: list[list[str]] = [[] for _ in shape]
    partial: list[tuple[str, str]] = []
    kind, mixed = str(rng.choice(kinds)), rng.random() < 0.3
    for ref in rng.permutation(refs):
        dim = int(rng.integers(0, len(shape) + 2))
        if dim < len(shape):
            dims[dim].append(str(ref))
        elif dim > len(shape):
            partial.append((str(ref), str(rng.choice(kinds)) if mixed else kind))
    partial.sort(key=lambda pair: mesh.order(pair[0]))
    sharding = Sharding(tuple(map(tuple, dims)), tuple(partial))
    extra = rng.random()
    if extra < 0.15:
        sharding = replace(sharding, halo=tuple(_halo(rng, len(axes)) for axes in sharding.dims))
    elif extra < 0.3:
        rows = (_offsets(rng, n, sharding.parts(d, mesh)) if sharding.dims[d] else () for d, n in enumerate(shape))
        sharding = replace(sharding, offsets=tuple(rows))
    assert not sharding.faults(shape, mesh)
    return sharding


def _halo(rng: np.random.Generator, is_split: int) -> tuple[int, int]:
    return (int(rng.integers(0, 3)), int(rng.integers(0, 3))) if is_split else (0, 0)


def _offsets(rng: np.random.Generator, size: int, parts: int) -> tuple[int, ...]:
    """Return random start offsets of shards, some of which are empty."""
    return (0, *sorted(int(n) for n in rng.integers(0, size + 1, parts - 1)), size)
