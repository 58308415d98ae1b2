"""Machine profiles: the device, and the links between devices, level by level from those inside a host outwards.

Devices are numbered consecutively: with 8 devices per host, devices 0 to 7 share host 0. A collective whose group spans
several domains of a level (for example hosts) also uses the links of the next level. The number of hosts follows from
the mesh, not the profile.
"""

from __future__ import annotations

from dataclasses import dataclass

from meshgen.cost_model.model import DEFAULT


@dataclass(frozen=True)
class Link:
    """The links of one level.

    Attributes:
        devices: number of devices that these links join into one domain; None if they join all devices.
        bytes_per_second: send rate of a device, in one direction, while all devices of its domain send.
        latency_seconds: from launch to finish. On the innermost level, it is that of the smallest collective; on outer
            levels, that of the smallest message.
    """

    name: str
    devices: int | None
    bytes_per_second: float
    latency_seconds: float


@dataclass(frozen=True)
class Machine:
    """A machine profile. `links` are ordered from the innermost level to the outermost, which joins all devices.

    Attributes:
        overlap_slowdown: fraction by which a kernel's time grows while a collective runs concurrently.
        device: name of the device in the cost model; None for the device of the target.
        memory_bytes: memory of a device; None if unknown.
    """

    name: str
    links: tuple[Link, ...]
    overlap_slowdown: float = DEFAULT.links.overlap_slowdown
    device: str | None = None
    memory_bytes: int | None = None

    def __str__(self) -> str:
        return self.name


def _switched(name: str, devices: int, scale_up: float, scale_out: float, device: str, memory_bytes: float) -> Machine:
    """Return a machine of hosts (or racks) with switched NVLink and one network port per device.

    Rates are one-direction bytes/s from data sheets.
    """
    links = DEFAULT.links
    inner = Link("nvlink", devices, scale_up * links.ring_share, links.nvlink_latency_seconds)
    outer = Link("infiniband", None, scale_out * links.port_share, links.network_latency_seconds)
    return Machine(name, (inner, outer), device=device, memory_bytes=int(memory_bytes))


MOST_DEVICES = 1 << 20  # number of devices that a domain may have; larger than any mesh


def _one_host() -> Machine:
    """Return a machine with NVLink 4 in which one host has room for any mesh. Each mesh of a program is on another
    host.
    """
    links = DEFAULT.links
    inner = Link("nvlink", MOST_DEVICES, links.nvlink_bytes_per_second, links.nvlink_latency_seconds)
    outer = Link("infiniband", None, links.network_bytes_per_second, links.network_latency_seconds)
    return Machine("one-host", (inner, outer))


# Source: NVIDIA's data sheets of
# - DGX A100: NVLink 3, eight HDR ports, 8 x 80 GB
# - DGX H100 and H200: NVLink 4, eight NDR ports, 8 x 80 and 8 x 141 GB
# - DGX B200: NVLink 5, eight NDR ports, 1,440 GB in all
# - GB200 NVL72: NVLink 5, 72 devices in a domain, one NDR port each, 13.4 TB in all
MACHINES = {
    machine.name: machine
    for machine in (
        _one_host(),
        _switched("dgx-a100", 8, 300e9, 25e9, "sm_80", 80e9),
        _switched("dgx-h100", 8, 450e9, 50e9, "h100", 80e9),
        _switched("dgx-h200", 8, 450e9, 50e9, "sm_90", 141e9),
        _switched("dgx-b200", 8, 900e9, 50e9, "sm_100", 180e9),
        _switched("gb200-nvl72", 72, 900e9, 50e9, "sm_100", 186e9),
    )
}
# machine of programs that name no machine; its devices are those of the compilation target
DEFAULT_MACHINE = "one-host"
