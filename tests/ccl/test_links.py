"""Tests of links: how the groups of a mesh are spread over a machine, and how long collectives take on its links."""

from __future__ import annotations

from dataclasses import replace

import pytest

from meshgen.ccl.links import (
    Rate,
    Span,
    best_rate,
    rate_along,
    rate_between,
    seconds_along,
    slowest_link,
    span_seconds,
    spans_of,
)
from meshgen.cost_model.model import DEFAULT
from meshgen.machine.profiles import MACHINES, Link, Machine
from meshgen.mesh import Axis, Mesh, make_mesh

H100 = MACHINES["dgx-h100"]
NVLINK, PORT = H100.links
INSIDE = Rate(NVLINK.latency_seconds, NVLINK.bytes_per_second)
STEP = (
    PORT.latency_seconds - NVLINK.latency_seconds
)  # Extra seconds of a step between hosts compared with NVLink, in NCCL's Simple protocol.
RACKS = Machine(
    "racks", (Link("nvlink", 4, 400e9, 8e-6), Link("rack", 16, 100e9, 14e-6), Link("spine", None, 25e9, 20e-6))
)
LARGE = 1 << 30  # bytes; large enough that latencies do not decide the algorithm


def on(machine: Machine = H100, **sizes: int) -> Mesh:
    return replace(make_mesh(sizes), machine=machine)


def crossed(mesh: Mesh, *axes: str) -> list[tuple[int, int, str]]:
    (span,) = spans_of(mesh, axes, mesh.machine or H100)[0]
    return [(crossing.domains, crossing.least, crossing.link.name) for crossing in span.crossings]


@pytest.mark.parametrize(
    ("mesh", "axes", "expected"),
    [
        (on(dp=2, tp=8), ("tp",), []),
        (on(dp=2, tp=8), ("dp",), [(2, 1, "infiniband")]),
        (on(dp=2, tp=8), ("dp", "tp"), [(2, 8, "infiniband")]),
        (on(dp=4, tp=4), ("dp",), [(2, 2, "infiniband")]),
        (on(tp=8, dp=2), ("tp",), [(2, 4, "infiniband")]),
        (on(fsdp=16), ("fsdp",), [(2, 8, "infiniband")]),
        (on(fsdp=16), ("fsdp:(1)2",), [(2, 1, "infiniband")]),
        (on(fsdp=16), ("fsdp:(2)8",), []),
        (on(RACKS, x=32), ("x",), [(8, 4, "rack"), (2, 16, "spine")]),
        (on(RACKS, x=8, y=4), ("x",), [(8, 1, "rack"), (2, 4, "spine")]),
    ],
    ids=str,
)
def test_span_crossings_follow_device_order(mesh: Mesh, axes: tuple[str, ...], expected: object) -> None:
    assert crossed(mesh, *axes) == expected


def test_differently_placed_groups_have_separate_spans() -> None:
    mesh = on(a=4, b=6)  # hosts of 8: devices 0 to 5 share a host, 6 to 11 do not
    spans, span_of_group = spans_of(mesh, ("b",), H100)
    assert [len(span.crossings) for span in spans] == [0, 1] and span_of_group.tolist() == [0, 1, 1, 0]
    assert seconds_along("all_gather", LARGE, mesh, ("b",)) == span_seconds("all_gather", LARGE, spans[1], NVLINK)


@pytest.mark.parametrize(
    ("mesh", "axes", "expected"),
    [
        (on(dp=2, tp=8), ("tp",), NVLINK.bytes_per_second),
        (on(dp=2, tp=8), ("dp", "tp"), PORT.bytes_per_second),
        (on(fsdp=16), ("fsdp:(2)8",), NVLINK.bytes_per_second),
        (on(RACKS, x=32), ("x",), 25e9),
        (on(RACKS, x=8, y=4), ("y",), 400e9),
        (Mesh((Axis("host", 2, bandwidth=10e9), Axis("gpu", 4))), ("host", "gpu"), 10e9),
        (Mesh((Axis("host", 2, bandwidth=10e9), Axis("gpu", 4))), ("gpu",), DEFAULT.links.nvlink_bytes_per_second),
    ],
    ids=str,
)
def test_slowest_link_of_group_is_found(mesh: Mesh, axes: tuple[str, ...], expected: float) -> None:
    assert slowest_link(mesh, axes) == expected


def test_machine_does_not_change_times_within_host() -> None:
    plain, machine = make_mesh({"dp": 2, "tp": 4}), on(dp=2, tp=4)
    for op in ("all_reduce", "all_gather", "all_to_all", "permute"):
        for axes in (("tp",), ("dp", "tp")):
            assert seconds_along(op, LARGE, machine, axes, 4) == seconds_along(op, LARGE, plain, axes, 4)
    assert rate_along(machine, ("tp",)) == rate_along(plain, ("tp",)) == INSIDE


def test_ring_uses_all_ports_of_host() -> None:
    mesh = on(dp=2, tp=8)
    for axes, ports in ((("dp",), 1), (("dp", "tp"), 8)):
        rate = min(NVLINK.bytes_per_second, ports * PORT.bytes_per_second)
        assert rate_along(mesh, axes).bandwidth == rate
        assert seconds_along("all_gather", LARGE, mesh, axes) == pytest.approx(LARGE / rate, rel=0.02)


def test_large_messages_use_simple_and_small_ones_ll_protocol() -> None:
    mesh = on(dp=4, tp=8)  # three steps of a ring over dp cross hosts
    simple = NVLINK.latency_seconds + 3 * STEP
    assert seconds_along("all_gather", LARGE, mesh, ("dp",)) == pytest.approx(simple + LARGE / PORT.bytes_per_second)
    low = NVLINK.latency_seconds + 3 * STEP * 2.7 / 14
    assert seconds_along("all_gather", 4, mesh, ("dp",)) == pytest.approx(low, rel=1e-3)
    ring, simple_ring = (next(a for a in DEFAULT.links.algorithms if a.name == n) for n in ("ring_ll", "ring_simple"))
    assert ring.share < simple_ring.share


def test_ring_latency_includes_devices_of_other_hosts() -> None:
    mesh = on(fsdp=32)
    steps = 3 * STEP + 21 * 3.4e-6  # three steps between hosts, and 21 between devices within three hosts
    expected = NVLINK.latency_seconds + steps + LARGE / (8 * PORT.bytes_per_second)
    assert seconds_along("all_gather", LARGE, mesh, ("fsdp",)) == pytest.approx(expected)


def test_all_reduce_over_many_hosts_uses_tree() -> None:
    few, many = on(dp=2, tp=8), on(dp=256, tp=8)
    grown = seconds_along("all_reduce", 4, many, ("dp",)) - NVLINK.latency_seconds
    assert grown == pytest.approx(
        8 * (seconds_along("all_reduce", 4, on(dp=2, tp=8), ("dp",)) - NVLINK.latency_seconds), rel=0.9
    )
    assert grown == pytest.approx(2 * 8 * STEP * 5 / 14, rel=1e-3), "eight levels, up and down"
    assert seconds_along("all_gather", 4, many, ("dp",)) > 255 * STEP * 2.7 / 14, "which is a ring"
    assert seconds_along("all_reduce", 4, few, ("dp",)) == pytest.approx(8e-6 + 2 * STEP * 2.7 / 14, rel=1e-3)


def test_tree_all_reduce_sends_less_between_hosts_than_ring() -> None:
    """In a ring over 2 hosts of 8 devices, 15/16 of the bytes leave a host twice. In a tree, about half as many do."""
    slow = replace(H100, links=(NVLINK, replace(PORT, bytes_per_second=5e9)))
    size = LARGE
    moved = 2 * 15 * size // 16
    expected = size / (8 * 5e9) / 0.9
    assert seconds_along("all_reduce", moved, on(slow, dp=2, tp=8), ("dp", "tp")) == pytest.approx(expected, rel=0.01)


def test_point_to_point_uses_outermost_link() -> None:
    mesh = on(dp=2, tp=8)
    latency = PORT.latency_seconds
    assert seconds_along("permute", LARGE, mesh, ("dp",)) == latency + LARGE / PORT.bytes_per_second
    assert seconds_along("all_to_all", LARGE, mesh, ("dp", "tp"), 16) == pytest.approx(
        latency + 14 * DEFAULT.links.peer_seconds + LARGE * 8 / 15 / PORT.bytes_per_second
    )
    assert rate_between(mesh) == Rate(PORT.latency_seconds, PORT.bytes_per_second)


def test_ring_time_includes_outer_link_levels() -> None:
    mesh = on(RACKS, x=32)
    inner, rack, spine = RACKS.links
    expected = inner.latency_seconds + 6 * 6e-6 + 1 * 12e-6 + 21 * 3.4e-6 + LARGE / min(4 * 100e9, 16 * 25e9)
    assert seconds_along("all_gather", LARGE, mesh, ("x",)) == pytest.approx(expected)
    assert rate_along(mesh, ("x:(1)2",)).bandwidth == spine.bytes_per_second
    assert rate_along(mesh, ("x:(2)4",)).bandwidth == rack.bytes_per_second


def test_axis_bandwidth_and_latency_override_machine() -> None:
    mesh = Mesh((Axis("dp", 2, bandwidth=10e9), Axis("pp", 2, latency=1e-3), Axis("tp", 8)), machine=H100)
    assert rate_along(mesh, ("dp",)) == Rate(rate_along(on(dp=4, tp=8), ("dp:(1)2",)).latency, 10e9)
    assert rate_along(mesh, ("pp",)) == Rate(1e-3, PORT.bytes_per_second)
    assert rate_along(mesh, ("tp",)) == INSIDE
    assert rate_along(mesh, ("pp", "tp")) == Rate(1e-3, PORT.bytes_per_second)
    assert rate_along(replace(mesh, machine=None), ("pp", "tp")) == Rate(1e-3, NVLINK.bytes_per_second)


@pytest.mark.parametrize("axes", [("dp",), ("tp",), ("pp",), ("dp", "tp"), ("dp", "pp"), ("dp", "pp", "tp")], ids=str)
@pytest.mark.parametrize("mesh", [on(dp=2, pp=4, tp=4), on(RACKS, dp=4, pp=2, tp=6), on(dp=3, pp=2, tp=8)], ids=str)
def test_collective_is_not_faster_than_best_rate_of_axis(mesh: Mesh, axes: tuple[str, ...]) -> None:
    size = mesh.group_size(axes)
    for op, share in (("all_gather", 1.0), ("all_to_all", 1.0), ("permute", 1.0), ("all_reduce", 2.0)):
        moved = int(share * LARGE)
        for axis in axes:
            best = best_rate(mesh, axis)
            # at least this many of the bytes that a device receives cross the axis
            crossing = LARGE / size if best.bandwidth < (mesh.machine or H100).links[0].bytes_per_second else moved
            assert seconds_along(op, moved, mesh, axes, size) >= best.latency + crossing / best.bandwidth * (1 - 1e-9)


def test_group_of_one_device_takes_no_time() -> None:
    assert (
        span_seconds("all_reduce", LARGE, Span(1, ()), NVLINK)
        == 0.0
        == span_seconds("all_reduce", 0, Span(8, ()), NVLINK)
    )
