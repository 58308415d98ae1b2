"""Cost model of communication between devices, used where neither the mesh nor a machine profile defines the links."""

from __future__ import annotations

from dataclasses import dataclass

from meshgen.cost_model.fields import chosen, known, required

_RING = "NCCL's maintainers: 370 of NVLink 4's 450 GB/s (github.com/NVIDIA/nccl-tests/issues/212)"
_PORT = "NCCL's maintainers: 46 to 48 of 50 GB/s (github.com/NVIDIA/nccl-tests/issues/290), less a margin"
_TUNING = "the latencies of NCCL's tuning model (github.com/NVIDIA/nccl, src/graph/tuning.cc), ring and Simple protocol"
_STEP = "the latencies of NCCL's tuning model (github.com/NVIDIA/nccl, src/graph/tuning.cc), hwLat of NVLink and of the network"
_RATE = "bandwidths of NCCL's tuning model (github.com/NVIDIA/nccl, src/graph/tuning.cc): 120 / 128, a quarter, 1 / 3.8, 0.9"


@dataclass(frozen=True)
class Algorithm:
    """An algorithm, with a protocol, by which NCCL runs a collective over several hosts. NCCL uses the fastest one.

    A ring passes through all devices, host by host. A tree (all-reduce only) joins the hosts pairwise, up and down
    again. Inside a host, both take as long as a collective on that host alone. A ring additionally passes through the
    devices of the other hosts.
    """

    name: str
    is_tree: bool
    inside_seconds: float = required("s", "time of a ring step inside another host", _STEP)
    between_steps: float = required(
        "steps", "time of a step between hosts, relative to the Simple protocol (14 us)", _STEP
    )
    share: float = required("share", "share of the rate of the links that the algorithm reaches", _RATE)


_ALGORITHMS = (
    Algorithm("ring_ll", False, 0.6e-6 * 1.8, 2.7 / 14, 1 / 4),
    Algorithm("ring_ll128", False, 1.9e-6, 4.0 / 14, 120 / 128),
    Algorithm("ring_simple", False, 3.4e-6, 1.0, 1.0),
    Algorithm("tree_ll", True, 0.0, 5.0 / 14, 0.9 / 3.8),
    Algorithm("tree_ll128", True, 0.0, 8.5 / 14, 0.9 * 120 / 128),
    Algorithm("tree_simple", True, 0.0, 1.0, 0.9),
)


@dataclass(frozen=True, eq=False)
class Links:
    """Rates and latencies of links. A rate is the bytes per second of one device in one direction. Latencies are
    measured from launch to finish of the smallest collective.
    """

    nvlink_bytes_per_second: float = known(370e9, "bytes/s", "rate of a ring over NVLink 4 (H100, H200)", _RING)
    nvlink_latency_seconds: float = known(8e-6, "s", "latency of a collective inside a host", f"{_TUNING}: 8.4 us")
    network_bytes_per_second: float = known(
        45e9, "bytes/s", "rate of a ring over one 400 Gb/s InfiniBand port per GPU", _PORT
    )
    network_latency_seconds: float = known(
        20e-6,
        "s",
        "latency of a message between hosts or meshes",
        f"{_TUNING}: 8.4 us and 9.6 us of a step over the network",
    )
    peer_seconds: float = chosen(
        0.3e-6,
        "s",
        "time of one more peer in a group of sends and receives, which NCCL posts in one launch",
        matters=True,
    )
    ring_share: float = known(370 / 450, "share", "share of a link's data-sheet rate that NCCL's ring reaches", _RING)
    port_share: float = known(
        45 / 50, "share", "share of a network port's data-sheet rate that NCCL's ring reaches", _PORT
    )
    overlap_slowdown: float = known(
        0.35,
        "share",
        "share by which a concurrent collective slows a kernel down",
        "30 to 40 % for matmuls on H100 SXM beside NCCL's kernels (github.com/pytorch/pytorch/issues/179937)",
    )
    algorithms: tuple[Algorithm, ...] = _ALGORITHMS
