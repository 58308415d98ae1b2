"""The figures of a compiled program as one JSON object."""

from __future__ import annotations

from collections import Counter
from typing import Any

from meshgen.ops.precision import matmuls_of, multiplied_as
from meshgen.reports.comms import collective_records
from meshgen.reports.donations import donation_records
from meshgen.reports.interface import Compiled
from meshgen.reports.link_classes import link_record
from meshgen.reports.memory import memory_record
from meshgen.reports.warnings import warning_records


def program_record(executable: Compiled) -> dict[str, Any]:
    """Return the figures that `explain --json` prints about a program on one mesh. They are per device and step."""
    cost = executable.cost
    return {
        "name": executable.name,
        "mesh": executable.mesh.by_name,
        "collectives": collective_records(executable.comms),
        "counts": executable.comms.counts,
        "ring_bytes": cost.ring_bytes,
        **memory_record(executable.memory),
        "flops_per_device": cost.flops,
        "redundant_flops_per_device": cost.redundant_flops,
        "kernels": cost.kernels,
        "distinct_kernels": cost.distinct_kernels,
        "multiplied_as": _multiplied_as(executable),
        "device_bytes": cost.device_bytes,
        "step_seconds": cost.step_seconds,
        "exposed_seconds": cost.exposed_seconds,
        "communication_seconds": cost.communication_seconds,
        "overlap_gain_seconds": cost.overlap_gain_seconds,
        "shorter_with_memory": cost.shorter._asdict() if cost.shorter else None,
        "donations": donation_records(executable),
        "warnings": warning_records(executable.warnings),
        **link_record(executable),
        **({"specialised": executable.specialized} if executable.specialized else {}),
        "seconds": executable.seconds,
    }


def _multiplied_as(executable: Compiled) -> dict[str, int]:
    """Count the launches with a matmul per step, by the number format of the multiplication (`ops/precision.py`)."""
    launch_counts = Counter[str]()
    for part in executable.parts:
        for name, launches in part.plan.launch_counts().items():
            formats = {multiplied_as(node) for node in matmuls_of(part.plan.kernels[name])}
            launch_counts.update(dict.fromkeys(formats, launches))
    return {kind: count for kind, count in sorted(launch_counts.items()) if count}
