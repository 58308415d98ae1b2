"""Random reshards of every kind, played on all simulated ranks: 1 to 4 axes, rank 0 to 5, partial values, halos, offsets, parts of
axes, links of different speed, sizes that do not divide, axes of one device."""

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
def test_every_rank_gets_its_part_and_memory_stays_within_the_ends(group: int) -> None:
    for seed in range(group * PER_GROUP, (group + 1) * PER_GROUP):
        check(seed)


def check(seed: int) -> ReshardPlan:
    """Play one random reshard; its plan, whose buffers are no larger than the larger end's."""
    rng = np.random.default_rng([16, seed])
    mesh, shape = _mesh(rng), _shape(rng)
    x = rng.integers(-99, 99, shape, dtype=np.int32)
    source, target = (random_end(rng, shape, mesh) for _ in range(2))
    plan = plan_reshard(TensorType(shape, "i32"), source, target, mesh)
    run_plan(plan, x, mesh, rng)
    held = [int(np.prod(s.local_shape(shape, mesh))) for s in (source, *(step.sharding for step in plan.steps), target)]
    assert max(held) == max(held[0], held[-1])
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
    """Every axis, or its two halves, at random: on a dim, partial, or replicated; at times with a halo or offsets."""
    refs: list[str] = []
    for axis in mesh.axes:
        halves = (f"{axis.name}:(1)2", f"{axis.name}:(2)2")
        refs += halves if axis.size == 4 and rng.random() < 0.2 else [axis.name]
    dims: list[list[str]] = [[] for _ in shape]
    partial: list[tuple[str, str]] = []
    kind, mixed = str(rng.choice(kinds)), rng.random() < 0.3
    for ref in rng.permutation(refs):
        place = int(rng.integers(0, len(shape) + 2))
        if place < len(shape):
            dims[place].append(str(ref))
        elif place > len(shape):
            partial.append((str(ref), str(rng.choice(kinds)) if mixed else kind))
    partial.sort(key=lambda pair: mesh.order(pair[0]))
    found = Sharding(tuple(map(tuple, dims)), tuple(partial))
    extra = rng.random()
    if extra < 0.15:
        found = replace(found, halo=tuple(_halo(rng, len(axes)) for axes in found.dims))
    elif extra < 0.3:
        rows = (_offsets(rng, n, found.parts(d, mesh)) if found.dims[d] else () for d, n in enumerate(shape))
        found = replace(found, offsets=tuple(rows))
    assert not found.faults(shape, mesh)
    return found


def _halo(rng: np.random.Generator, is_split: int) -> tuple[int, int]:
    return (int(rng.integers(0, 3)), int(rng.integers(0, 3))) if is_split else (0, 0)


def _offsets(rng: np.random.Generator, size: int, parts: int) -> tuple[int, ...]:
    """Where shards of any size begin, empty ones among them."""
    return (0, *sorted(int(n) for n in rng.integers(0, size + 1, parts - 1)), size)
