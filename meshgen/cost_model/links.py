"""What moving bytes between devices takes, where a mesh or a machine profile does not say."""

from __future__ import annotations

from meshgen.cost_model.fields import chosen, known
from meshgen.records import dataclass

_RING = "NCCL's maintainers: 370 of NVLink 4's 450 GB/s (github.com/NVIDIA/nccl-tests/issues/212)"
_PORT = "NCCL's maintainers: 46 to 48 of 50 GB/s (github.com/NVIDIA/nccl-tests/issues/290), less a margin"
_TUNING = "the latencies of NCCL's tuning model (github.com/NVIDIA/nccl, src/graph/tuning.cc), ring and Simple protocol"


@dataclass(frozen=True)
class Links:
    """Bandwidths are those of one device in one direction; latencies go from launch to finish of the smallest collective."""

    nvlink_bytes_per_second: float = known(370e9, "bytes/s", "a ring over NVLink 4 (H100, H200)", _RING)
    nvlink_latency_seconds: float = known(8e-6, "s", "a collective inside a host", f"{_TUNING}: 8.4 us")
    network_bytes_per_second: float = known(45e9, "bytes/s", "a ring over one 400 Gb/s InfiniBand port per GPU", _PORT)
    network_latency_seconds: float = known(
        20e-6, "s", "a message between hosts or meshes", f"{_TUNING}: 8.4 us and 9.6 us of a step over the network"
    )
    peer_seconds: float = chosen(
        0.3e-6, "s", "one more peer in a group of sends and receives, which NCCL posts in one launch", matters=True
    )
    ring_share: float = known(370 / 450, "share", "of a link's data-sheet rate that NCCL's ring reaches", _RING)
    port_share: float = known(45 / 50, "share", "of a network port's data-sheet rate that NCCL's ring reaches", _PORT)
    overlap_slowdown: float = known(
        0.35,
        "share",
        "by which a kernel takes longer while a collective runs beside it",
        "30 to 40 % for matmuls on H100 SXM beside NCCL's kernels (github.com/pytorch/pytorch/issues/179937)",
    )
