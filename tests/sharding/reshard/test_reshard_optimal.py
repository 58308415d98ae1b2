"""Reshard plans cost no more than the cheapest path of an exhaustive search, and the byte bound is a lower bound."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest

from meshgen.ir.graph import TensorType
from meshgen.machine.profiles import Link, Machine
from meshgen.mesh import Axis, Mesh, make_mesh
from meshgen.sharding.reshard import search as reshard_search
from meshgen.sharding.reshard.bounds import Bounds
from meshgen.sharding.reshard.plan import plan_reshard
from meshgen.sharding.reshard.problem import Problem
from meshgen.spec import P, Sharding, fit
from tests.cost_models import use
from tests.sharding.reshard.reshard_exhaustive import cheapest_price

SIZES = [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 24, 48, 64, 100, 128, 250, 256]
ROUNDING = 4  # picoseconds of rounding in the sums of step times


@pytest.mark.parametrize(("axes", "seeds"), [(1, range(20)), (2, range(60)), (3, range(12))])
def test_plan_cost_equals_exhaustive_minimum(axes: int, seeds: range, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check the planner without its preference for plain collectives over slightly cheaper sends."""
    use(monkeypatch, {"resharding.packing_seconds": 0.0}, reshard_search)
    for seed in seeds:
        type, source, target, mesh = _random_case(axes, seed)
        time, moved, *_ = plan_reshard(type, source, target, mesh).cost
        best = cheapest_price(type, source, target, mesh, (time, moved))
        assert time <= best[0] + ROUNDING, f"seed {seed}: {type} {source} -> {target} on {mesh}"


@pytest.mark.parametrize(("axes", "seeds"), [(1, range(15)), (2, range(40)), (3, range(8))])
def test_plan_cost_on_machine_equals_exhaustive_minimum(
    axes: int, seeds: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hosts have 2 to 4 devices, which need not divide the mesh. Some hosts have links that are no slower than the
    network.
    """
    use(monkeypatch, {"resharding.packing_seconds": 0.0}, reshard_search)
    for seed in seeds:
        type, source, target, mesh = _random_case(axes, seed)
        port = 10e9 if seed % 3 else 370e9
        links = Link("nvlink", 2 + seed % 3, 370e9, 8e-6), Link("network", None, port, 20e-6)
        axes_alone = tuple(Axis(axis.name, axis.size) for axis in mesh.axes)
        mesh = Mesh(axes_alone, machine=Machine("small", links))
        time, moved, *_ = plan_reshard(type, source, target, mesh).cost
        best = cheapest_price(type, source, target, mesh, (time, moved))
        assert time <= best[0] + ROUNDING, f"seed {seed}: {type} {source} -> {target} on {mesh}"


def _random_case(axes: int, seed: int) -> tuple[TensorType, Sharding, Sharding, Mesh]:
    rng = np.random.default_rng([axes, seed])
    rank, slow, partial = int(rng.integers(1, 4 if axes < 3 else 3)), rng.random() < 0.4, rng.random() < 0.6
    links = [(25e9, 20e-6) if slow and rng.random() < 0.5 else (370e9, 8e-6) for _ in range(axes)]
    mesh = Mesh(tuple(Axis("xyz"[i], int(rng.choice([2, 2, 3, 4])), *link) for i, link in enumerate(links)))
    shape = tuple(int(rng.choice(SIZES)) * int(rng.choice([1, 16])) for _ in range(rank))
    kinds = ["sum", "max"] if rng.random() < 0.3 else ["sum"]
    ends = [_random_end(rng, rank, mesh, kinds if partial else []) for _ in range(2)]
    return TensorType(shape, "f32"), ends[0], ends[1], mesh


def _random_end(rng: np.random.Generator, rank: int, mesh: Mesh, kinds: list[str]) -> Sharding:
    dims: list[list[str]] = [[] for _ in range(rank)]
    summands: list[tuple[str, str]] = []
    for axis in map(str, rng.permutation(mesh.names)):
        dim = int(rng.integers(0, rank + 1 + bool(kinds)))
        if dim < rank:
            dims[dim].append(axis)
        elif dim > rank:
            summands.append((axis, str(rng.choice(kinds))))
    return Sharding(tuple(map(tuple, dims)), tuple(sorted(summands, key=lambda pair: mesh.order(pair[0]))))


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_bound_bytes_cover_missing_bytes_of_devices(axes: int) -> None:
    for seed in range(100):
        type, source, target, mesh = _random_case(axes, seed)
        reshard = plan_reshard(type, source, target, mesh)
        if not source.partial and not target.partial:
            assert reshard.bound_bytes == _missing_bytes(type, source, target, mesh)
        assert reshard.ring_bytes >= reshard.bound_bytes >= _missing_bytes(type, source, target, mesh)


def _missing_bytes(type: TensorType, source: Sharding, target: Sharding, mesh: Mesh) -> int:
    """Return the bytes of the target tile that a device does not hold before the reshard, maximum over all devices."""
    most = 0
    for rank in range(mesh.size):
        target_ranges, source_ranges = (end.ranges(type.sizes, mesh, rank) for end in (target, source))
        overlaps = [max(0, min(b, d) - max(a, c)) for (a, b), (c, d) in zip(target_ranges, source_ranges, strict=True)]
        most = max(most, math.prod(max(0, b - a) for a, b in target_ranges) - math.prod(overlaps))
    return most * type.numpy_dtype.itemsize


@pytest.mark.parametrize("seed", range(40))
def test_slow_link_bound_equals_bytes_missing_on_hosts(seed: int) -> None:
    """Check the bound of bytes over the slow link between hosts.

    Bytes that no device of a host holds must cross to the host once, shared equally among the host's devices.
    """
    rng = np.random.default_rng(seed)
    mesh = Mesh((Axis("host", 3, bandwidth=1e9, latency=1e-6), Axis("gpu", 4, bandwidth=1e11, latency=1e-6)))
    type = TensorType(tuple(int(n) for n in rng.choice([5, 7, 12, 96, 1000], 2)), "f32")
    source, target = (_random_end(rng, 2, mesh, []) for _ in range(2))
    missing = _missing_bytes(type, source, target, mesh)
    crossing = max(_elements_missing_on_host(host, type, source, target, mesh) for host in range(3)) * 4 // 4
    seconds = 1e-6 + max(missing / 1e11, crossing / 1e9 + max(missing - crossing, 0) / 1e11) if missing else 0
    bound = Bounds(Problem(type, target, mesh, mesh.names)).least(source)
    assert bound[:2] == (pytest.approx(seconds * 1e12, abs=2), missing)


def test_slow_link_bound_needs_memory_linear_in_devices() -> None:
    """A table of hosts by rows would take 268 MB for 16,384 devices."""
    mesh = Mesh((Axis("host", 2048, bandwidth=1e9, latency=1e-6), Axis("gpu", 8, bandwidth=1e11, latency=1e-6)))
    source, target = Sharding((("host", "gpu"), ())), Sharding((("gpu", "host"), ()))
    problem = Problem(TensorType((1 << 20, 8), "f32"), target, mesh, mesh.names)
    tracemalloc.start()
    seconds, *_ = Bounds(problem).least(source)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert seconds and peak < 1 << 24


def _elements_missing_on_host(host: int, type: TensorType, source: Sharding, target: Sharding, mesh: Mesh) -> int:
    """Return the number of elements that the target needs on a host and that none of its devices holds."""
    is_needed, is_held = (np.zeros(type.sizes, bool) for _ in range(2))
    for rank in range(4 * host, 4 * host + 4):
        for end, mask in ((target, is_needed), (source, is_held)):
            mask[tuple(slice(*span) for span in end.ranges(type.sizes, mesh, rank))] = True
    return int((is_needed & ~is_held).sum())


def test_reduction_reaches_byte_bound() -> None:
    """Check a reduction of 8 summands, whose result all 8 devices need: it moves (7 + 7) / 8 of the value per device.

    On the larger mesh, the replicas along y share this work.
    """
    eight, wide = make_mesh({"x": 8}), make_mesh({"x": 8, "y": 4})
    type, source = TensorType((4096, 4096), "f32"), fit(P(None, None, partial="x"), 2)
    reshard = plan_reshard(type, source, fit(P(), 2), eight)
    assert reshard.ring_bytes == reshard.bound_bytes == 14 * type.nbytes // 8
    reshard = plan_reshard(type, source, fit(P(), 2), wide)
    assert [step.op for step in reshard.steps] == ["all_slice", "all_reduce", "all_gather"]
    assert reshard.ring_bytes == reshard.bound_bytes == (7 + 31) * type.nbytes // 32


def test_single_holder_scatters_before_gather() -> None:
    """Check a dim of size 1, which a single device holds.

    This device sends a different part to each device, and then all devices gather the parts.
    """
    mesh = make_mesh({"x": 8})
    reshard = plan_reshard(TensorType((1, 2**22), "f32"), fit(P("x"), 2), fit(P(), 2), mesh)
    assert [step.op for step in reshard.steps] == ["retile", "all_gather"]
    assert reshard.ring_bytes == 2 * 7 * 2**24 // 8


def test_gather_over_slow_link_moves_missing_bytes_once() -> None:
    mesh = Mesh((Axis("host", 4, bandwidth=25e9, latency=20e-6), Axis("gpu", 8)))
    type = TensorType((4096, 4096), "f32")
    reshard = plan_reshard(type, fit(P("host"), 2), fit(P(), 2), mesh)
    slow_link_bytes = [step.ring_bytes for step in reshard.steps if "gpu" not in step.attrs["axes"]]
    assert sum(slow_link_bytes) == 3 * type.nbytes // 4 // 8
