"""The cost models that predict durations for the scheduler."""

from __future__ import annotations

from meshgen.ccl.collective import Collective
from meshgen.ccl.packing import packing
from meshgen.codegen.roofline.kernel_time import device_of, kernel_seconds, memory_seconds
from meshgen.codegen.scheduling.timeline import Costs


def default_costs(target: str) -> Costs:
    """Return the roofline model of the target's device and the link model of the mesh.

    A collective that packs or unpacks data also costs device memory traffic.
    """
    device = device_of(target)

    def seconds(collective: Collective) -> float:
        copied = packing(collective).local_bytes
        # Copies are kernels too, launched on the collective's stream.
        launched = device.launch_seconds if copied else 0.0
        return collective.link_seconds + launched + memory_seconds(copied, device)

    return Costs(
        kernel=lambda body: kernel_seconds(body, target),
        collective=seconds,
        copy=lambda nbytes: device.launch_seconds + memory_seconds(2 * nbytes, device) if nbytes else 0.0,
    )
