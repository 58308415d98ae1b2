"""Seconds of collectives on the links between the devices of a mesh.

If the mesh has no machine, or an axis has its own links, a collective gets the longest latency and the least bandwidth
of its axes. On a machine, the location of a group's devices decides: a group that spans several domains (hosts) uses
the links of every level that it crosses. All levels transfer at the same time, so the slowest level decides.

- Rings and trees (all_reduce, all_gather, reduce_scatter and rooted collectives): the fastest of NCCL's algorithms and
  protocols (`Algorithm`). A ring enters and leaves a domain once, with all bytes. A tree carries between domains only
  the bytes that an all_reduce over one device per domain would. The group's members in a domain divide this traffic
  among their ports, as NCCL's channels do.
- All-to-all: each device sends its blocks for other domains through its own port.
- Point to point: a device's bytes go over the outermost level that its group crosses.

All groups of a collective run at the same time. The rates of `Link` therefore hold for a device while all devices of
its domain send.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from meshgen.ccl.groups import groups_of, stride_of
from meshgen.cost_model.links import Algorithm
from meshgen.cost_model.model import DEFAULT
from meshgen.machine.profiles import Link, Machine
from meshgen.mesh import Mesh

Array = np.ndarray[Any, Any]
RINGS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce_to", "gather_to", "scatter_from")
EXCHANGES = ("all_to_all",)  # ops in which each device sends a different block to each other device
# the op that both reduces and gathers, so its data passes twice around a ring, or up and down a tree
BOTH_WAYS = "all_reduce"


class Rate(NamedTuple):
    """Latency of the smallest collective, from launch to finish in seconds, and bandwidth of a device in bytes/second."""

    latency: float
    bandwidth: float


class Crossing(NamedTuple):
    """A level of the machine (for example the network between hosts) that the links of a group cross.

    Attributes:
        domains: number of domains (for example hosts) that the group spans at this level.
        least: number of the group's devices in the domain with the fewest of them.
        link: the links between these domains.
    """

    domains: int
    least: int
    link: Link


class Span(NamedTuple):
    """The location of a group in the machine: its number of devices, and the levels that it crosses, innermost first."""

    size: int
    crossings: tuple[Crossing, ...]


@lru_cache(maxsize=4096)
def spans_of(mesh: Mesh, axes: tuple[str, ...], machine: Machine) -> tuple[tuple[Span, ...], Array]:
    """Return the distinct spans of the groups along `axes`, and for each group the index of its span in this tuple."""
    groups = groups_of(mesh, axes)
    levels = [
        (outer, *groups.domains(inner.devices or 1))
        for inner, outer in zip(machine.links, machine.links[1:], strict=False)
    ]
    rows = np.array([counts for _, *pair in levels for counts in pair], np.int64).reshape(
        2 * len(levels), len(groups.members)
    )
    distinct, span_index = np.unique(rows, axis=1, return_inverse=True)
    spans = (
        Span(
            groups.size,
            tuple(
                Crossing(int(d), int(n), level[0])
                for d, n, level in zip(row[::2], row[1::2], levels, strict=True)
                if d > 1
            ),
        )
        for row in distinct.T
    )
    return tuple(spans), span_index.reshape(-1)


def span_seconds(op: str, moved: int, span: Span, inner: Link, peers: int = 0) -> float:
    """Return the seconds that a collective takes in one group in which each device moves `moved` bytes.

    Args:
        inner: the links of the innermost level.
        peers: number of devices to which a device sends separate messages, including itself; 0 for rings and trees.
    """
    if not moved or span.size == 1:
        return 0.0
    if not span.crossings:
        return inner.latency_seconds + _posting_seconds(peers) + moved / inner.bytes_per_second
    if op not in RINGS:
        return (
            span.crossings[-1].link.latency_seconds + _posting_seconds(peers) + _message_seconds(op, moved, span, inner)
        )
    algorithms = [algorithm for algorithm in DEFAULT.links.algorithms if op == BOTH_WAYS or not algorithm.is_tree]
    return min(
        _latency_seconds(algorithm, op, span, inner)
        + _transfer_seconds(algorithm, moved, span, inner) / algorithm.share
        for algorithm in algorithms
    )


def _posting_seconds(peers: int) -> float:
    return DEFAULT.links.peer_seconds * max(peers - 2, 0)


def _message_seconds(op: str, moved: int, span: Span, inner: Link) -> float:
    """Return the seconds in which the slowest links transfer the bytes of point-to-point messages, without latency."""
    seconds = moved / inner.bytes_per_second
    for crossing in span.crossings:
        share = (span.size - crossing.least) / (span.size - 1) if op in EXCHANGES else 1.0
        seconds = max(seconds, moved * share / crossing.link.bytes_per_second)
    return seconds


def _latency_seconds(algorithm: Algorithm, op: str, span: Span, inner: Link) -> float:
    """Return the seconds of latency of all steps of an algorithm, without the time in which its bytes are transferred."""
    passes = 2 if op == BOTH_WAYS else 1
    seconds = inner.latency_seconds
    if not algorithm.is_tree:  # `seconds` already includes the steps within the first domain.
        first = span.crossings[0]
        seconds += passes * max(span.size - first.domains - first.least + 1, 0) * algorithm.inside_seconds
    outwards = [*(crossing.domains for crossing in span.crossings[1:]), 1]
    for crossing, outer in zip(span.crossings, outwards, strict=True):
        steps = math.ceil(math.log2(crossing.domains / outer)) if algorithm.is_tree else crossing.domains - outer
        step = max(crossing.link.latency_seconds - inner.latency_seconds, 0.0) * algorithm.between_steps
        seconds += passes * steps * step
    return seconds


def _transfer_seconds(algorithm: Algorithm, moved: int, span: Span, inner: Link) -> float:
    """Return the seconds in which the slowest links transfer the bytes of an algorithm, without latency."""
    seconds = moved / inner.bytes_per_second
    for domains, least, link in span.crossings:
        share = (domains - 1) / domains * span.size / (span.size - 1) if algorithm.is_tree else 1.0
        seconds = max(seconds, moved * share / (least * link.bytes_per_second))
    return seconds


def seconds_along(op: str, moved: int, mesh: Mesh, axes: tuple[str, ...], peers: int = 0) -> float:
    """Return the seconds that a collective along `axes` takes in its slowest group."""
    return max(_seconds_of_spans(op, moved, mesh, axes, peers))


def group_seconds(op: str, moved: int, mesh: Mesh, axes: tuple[str, ...], peers: int = 0) -> Array:
    """Return the seconds that a collective takes in each of its groups, in the order of `groups_of(mesh, axes)`."""
    seconds = np.array(_seconds_of_spans(op, moved, mesh, axes, peers))
    machine = _machine_of(mesh, axes)
    span_index = (
        np.zeros(len(groups_of(mesh, axes).members), np.int64) if machine is None else spans_of(mesh, axes, machine)[1]
    )
    return seconds[span_index]


def _seconds_of_spans(op: str, moved: int, mesh: Mesh, axes: tuple[str, ...], peers: int) -> list[float]:
    """Return the seconds that a collective takes in each distinct span of its groups.

    Returns a single value if the mesh has no machine description.
    """
    machine = _machine_of(mesh, axes)
    if machine is None:
        latency, bandwidth = rate_along(mesh, axes)
        return [latency + _posting_seconds(peers) + moved / bandwidth]
    spans, _ = spans_of(mesh, axes, machine)
    return [span_seconds(op, moved, span, machine.links[0], peers) for span in spans]


@lru_cache(maxsize=4096)
def rate_along(mesh: Mesh, axes: tuple[str, ...]) -> Rate:
    """Return the latency and bandwidth of a ring along `axes`. Axes of size 1 are ignored unless all have size 1."""
    axes = tuple(axis for axis in axes if mesh.axis_size(axis) > 1) or axes
    machine = _machine_of(mesh, axes)
    if machine is None:
        rates = [_axis_rate(mesh, axis) for axis in axes]
        return Rate(max(rate.latency for rate in rates), min(rate.bandwidth for rate in rates))
    spans, _ = spans_of(mesh, axes, machine)
    inner = machine.links[0]
    latency = max(span_seconds("all_gather", 1, span, inner) for span in spans) - 1 / inner.bytes_per_second
    return Rate(latency, min(_ring_bandwidth(span, inner) for span in spans))


@lru_cache(maxsize=4096)
def slowest_link(mesh: Mesh, axes: tuple[str, ...]) -> float:
    """Return the bytes per second that a device moves over the slowest links that groups along `axes` use."""
    machine = _machine_of(mesh, axes)
    if machine is None:
        return rate_along(mesh, axes).bandwidth
    crossed = (crossing.link for span in spans_of(mesh, axes, machine)[0] for crossing in span.crossings)
    return min(link.bytes_per_second for link in (machine.links[0], *crossed))


def best_rate(mesh: Mesh, ref: str) -> Rate:
    """Return an upper bound on the rate of any collective whose groups include axis `ref`.

    Groups over more axes may use more links between domains. Only levels that every step along `ref` crosses therefore
    limit the bandwidth.
    """
    machine = _machine_of(mesh, (ref,))
    if machine is None:
        return rate_along(mesh, (ref,))
    stride, inner = stride_of(mesh, ref), machine.links[0]
    crossed = (
        outer
        for inner, outer in zip(machine.links, machine.links[1:], strict=False)
        if stride % (inner.devices or 1) == 0
    )
    return Rate(inner.latency_seconds, min([link.bytes_per_second for link in crossed], default=inner.bytes_per_second))


def rate_between(mesh: Mesh) -> Rate:
    """Return the latency and bandwidth with which a device of `mesh` sends to a mesh on other hosts."""
    if mesh.machine:
        link = mesh.machine.links[-1]
        return Rate(link.latency_seconds, link.bytes_per_second)
    return Rate(DEFAULT.links.network_latency_seconds, DEFAULT.links.network_bytes_per_second)


def _ring_bandwidth(span: Span, inner: Link) -> float:
    outward = (crossing.least * crossing.link.bytes_per_second for crossing in span.crossings)
    return min(inner.bytes_per_second, *outward, math.inf)


def _axis_rate(mesh: Mesh, ref: str) -> Rate:
    """Return the latency and bandwidth of axis `ref`.

    A value that the axis does not set comes from the machine, or else from the default links within a host (NVLink).
    """
    axis = mesh.axis(ref)
    if axis.bandwidth is not None and axis.latency is not None:
        return Rate(axis.latency, axis.bandwidth)
    links = DEFAULT.links
    default = Rate(links.nvlink_latency_seconds, links.nvlink_bytes_per_second)
    if mesh.machine:
        axes = (
            replace(mesh_axis, bandwidth=None, latency=None) if mesh_axis is axis else mesh_axis
            for mesh_axis in mesh.axes
        )
        default = rate_along(replace(mesh, axes=tuple(axes)), (ref,))
    latency, bandwidth = axis.latency, axis.bandwidth
    return Rate(default.latency if latency is None else latency, default.bandwidth if bandwidth is None else bandwidth)


def _machine_of(mesh: Mesh, axes: Sequence[str]) -> Machine | None:
    """Return the mesh's machine, or None if the mesh has none or one of `axes` has its own links."""
    has_own_links = any(axis.bandwidth is not None or axis.latency is not None for axis in map(mesh.axis, axes))
    return None if has_own_links else mesh.machine
