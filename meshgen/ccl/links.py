"""What collectives take on the links between the devices of a mesh.

On a mesh without a machine, or along axes that say their own links, a collective takes the longest latency and the least bandwidth
of its axes. On a machine, where the devices of a group are decides: a group that spans several domains (hosts) uses the links of every
level that it crosses. Each level moves its share of the bytes at the same time, so the slowest level decides.

- Rings and trees (all_reduce, all_gather, reduce_scatter and the rooted ones): the fastest of NCCL's algorithms and protocols
  (`Algorithm`). A ring enters and leaves a domain once, with all its bytes; a tree carries between domains what one device of each
  would all-reduce. The group's members in a domain share that between their ports, as NCCL's channels do.
- All-to-all: each device sends its blocks for other domains through its own port.
- Point to point: a device's bytes go over the outermost level that its group crosses.

All groups of a collective run at the same time: the rates of `Link` are those of a device while all devices of its domain send.
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
EXCHANGES = ("all_to_all",)  # each device sends a block of its own to each other one
BOTH_WAYS = "all_reduce"  # reduces and gathers: two passes of a ring, a tree up and down


class Rate(NamedTuple):
    """Seconds from launch to finish of the smallest collective, and bytes per second of one device."""

    latency: float
    bandwidth: float


class Crossing(NamedTuple):
    """The domains of a level that a group spans, the fewest of its devices in one of them, and the links between them."""

    domains: int
    least: int
    link: Link


class Span(NamedTuple):
    """Where the devices of a group are: its size, and what it crosses, from the innermost level outwards."""

    size: int
    crossings: tuple[Crossing, ...]


@lru_cache(maxsize=4096)
def spans_of(mesh: Mesh, axes: tuple[str, ...], machine: Machine) -> tuple[tuple[Span, ...], Array]:
    """The different spans of the groups along some axes, and the number of the span of each group."""
    groups = groups_of(mesh, axes)
    levels = [
        (outer, *groups.domains(inner.devices or 1))
        for inner, outer in zip(machine.links, machine.links[1:], strict=False)
    ]
    rows = np.array([numbers for _, *pair in levels for numbers in pair], np.int64).reshape(
        2 * len(levels), len(groups.members)
    )
    kinds, number = np.unique(rows, axis=1, return_inverse=True)
    spans = (
        Span(
            groups.size,
            tuple(
                Crossing(int(d), int(n), level[0])
                for d, n, level in zip(row[::2], row[1::2], levels, strict=True)
                if d > 1
            ),
        )
        for row in kinds.T
    )
    return tuple(spans), number.reshape(-1)


def span_seconds(op: str, moved: int, span: Span, inner: Link, peers: int = 0) -> float:
    """Seconds of a collective in one group that moves so many bytes per device.

    Args:
        inner: the links of the innermost level.
        peers: devices with which one exchanges messages of its own, itself included; 0 for rings.
    """
    if not moved or span.size == 1:
        return 0.0
    if not span.crossings:
        return inner.latency_seconds + _posting(peers) + moved / inner.bytes_per_second
    if op not in RINGS:
        return span.crossings[-1].link.latency_seconds + _posting(peers) + _sent(op, moved, span, inner)
    ways = [way for way in DEFAULT.links.algorithms if op == BOTH_WAYS or not way.is_tree]
    return min(_waiting(way, op, span, inner) + _passed(way, moved, span, inner) / way.share for way in ways)


def _posting(peers: int) -> float:
    return DEFAULT.links.peer_seconds * max(peers - 2, 0)


def _sent(op: str, moved: int, span: Span, inner: Link) -> float:
    """Seconds on the links of messages from device to device."""
    found = moved / inner.bytes_per_second
    for crossing in span.crossings:
        share = (span.size - crossing.least) / (span.size - 1) if op in EXCHANGES else 1.0
        found = max(found, moved * share / crossing.link.bytes_per_second)
    return found


def _waiting(way: Algorithm, op: str, span: Span, inner: Link) -> float:
    """Seconds of the steps of an algorithm, without bytes."""
    passes = 2 if op == BOTH_WAYS else 1
    found = inner.latency_seconds
    if not way.is_tree:  # those of the first domain are in that latency
        first = span.crossings[0]
        found += passes * max(span.size - first.domains - first.least + 1, 0) * way.inside_seconds
    outwards = [*(crossing.domains for crossing in span.crossings[1:]), 1]
    for crossing, outer in zip(span.crossings, outwards, strict=True):
        steps = math.ceil(math.log2(crossing.domains / outer)) if way.is_tree else crossing.domains - outer
        step = max(crossing.link.latency_seconds - inner.latency_seconds, 0.0) * way.between_steps
        found += passes * steps * step
    return found


def _passed(way: Algorithm, moved: int, span: Span, inner: Link) -> float:
    """Seconds of the bytes of an algorithm on its slowest links."""
    found = moved / inner.bytes_per_second
    for domains, least, link in span.crossings:
        share = (domains - 1) / domains * span.size / (span.size - 1) if way.is_tree else 1.0
        found = max(found, moved * share / (least * link.bytes_per_second))
    return found


def seconds_along(op: str, moved: int, mesh: Mesh, axes: tuple[str, ...], peers: int = 0) -> float:
    """Seconds of a collective along some axes in the slowest of its groups."""
    return max(_seconds_of_spans(op, moved, mesh, axes, peers))


def group_seconds(op: str, moved: int, mesh: Mesh, axes: tuple[str, ...], peers: int = 0) -> Array:
    """Return the seconds of a collective in each of its groups [groups], which are those of `groups_of(mesh, axes)`."""
    seconds = np.array(_seconds_of_spans(op, moved, mesh, axes, peers))
    machine = _deciding(mesh, axes)
    number = (
        np.zeros(len(groups_of(mesh, axes).members), np.int64) if machine is None else spans_of(mesh, axes, machine)[1]
    )
    return seconds[number]


def _seconds_of_spans(op: str, moved: int, mesh: Mesh, axes: tuple[str, ...], peers: int) -> list[float]:
    """Return the seconds of a collective by the kind of span of its groups; one number where all groups are alike."""
    machine = _deciding(mesh, axes)
    if machine is None:
        latency, bandwidth = rate_along(mesh, axes)
        return [latency + _posting(peers) + moved / bandwidth]
    spans, _ = spans_of(mesh, axes, machine)
    return [span_seconds(op, moved, span, machine.links[0], peers) for span in spans]


@lru_cache(maxsize=4096)
def rate_along(mesh: Mesh, axes: tuple[str, ...]) -> Rate:
    """Latency and bandwidth of a ring along some axes; one of size 1 counts where all are."""
    axes = tuple(axis for axis in axes if mesh.axis_size(axis) > 1) or axes
    machine = _deciding(mesh, axes)
    if machine is None:
        rates = [_own_rate(mesh, axis) for axis in axes]
        return Rate(max(rate.latency for rate in rates), min(rate.bandwidth for rate in rates))
    spans, _ = spans_of(mesh, axes, machine)
    inner = machine.links[0]
    latency = max(span_seconds("all_gather", 1, span, inner) for span in spans) - 1 / inner.bytes_per_second
    return Rate(latency, min(_ring_bandwidth(span, inner) for span in spans))


@lru_cache(maxsize=4096)
def slowest_link(mesh: Mesh, axes: tuple[str, ...]) -> float:
    """Bytes per second of a device on the slowest links that groups along some axes need."""
    machine = _deciding(mesh, axes)
    if machine is None:
        return rate_along(mesh, axes).bandwidth
    crossed = (crossing.link for span in spans_of(mesh, axes, machine)[0] for crossing in span.crossings)
    return min(link.bytes_per_second for link in (machine.links[0], *crossed))


def best_rate(mesh: Mesh, ref: str) -> Rate:
    """What no collective whose group has an axis can exceed: along others too it has more links, unless each step is to another domain."""
    machine = _deciding(mesh, (ref,))
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
    """Latency and bandwidth of what a device sends to another mesh, whose devices are on other hosts."""
    if mesh.machine:
        link = mesh.machine.links[-1]
        return Rate(link.latency_seconds, link.bytes_per_second)
    return Rate(DEFAULT.links.network_latency_seconds, DEFAULT.links.network_bytes_per_second)


def _ring_bandwidth(span: Span, inner: Link) -> float:
    outward = (crossing.least * crossing.link.bytes_per_second for crossing in span.crossings)
    return min(inner.bytes_per_second, *outward, math.inf)


def _own_rate(mesh: Mesh, ref: str) -> Rate:
    """What an axis says, and else the machine, or the links of one host."""
    axis = mesh.axis(ref)
    if axis.bandwidth is not None and axis.latency is not None:
        return Rate(axis.latency, axis.bandwidth)
    links = DEFAULT.links
    other = Rate(links.nvlink_latency_seconds, links.nvlink_bytes_per_second)
    if mesh.machine:
        silent = (replace(each, bandwidth=None, latency=None) if each is axis else each for each in mesh.axes)
        other = rate_along(replace(mesh, axes=tuple(silent)), (ref,))
    latency, bandwidth = axis.latency, axis.bandwidth
    return Rate(other.latency if latency is None else latency, other.bandwidth if bandwidth is None else bandwidth)


def _deciding(mesh: Mesh, axes: Sequence[str]) -> Machine | None:
    """The mesh's machine, unless an axis says its own links."""
    says = any(axis.bandwidth is not None or axis.latency is not None for axis in map(mesh.axis, axes))
    return None if says else mesh.machine
