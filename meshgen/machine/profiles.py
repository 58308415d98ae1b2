"""Machine profiles: what a device is, and how devices are linked, level by level, from the fast links of a host outwards.

Devices are numbered through: with 8 devices per host, devices 0 to 7 share host 0. A collective whose group spans several
domains of a level (hosts, say) uses the links of the next level too. A profile does not say how many hosts there are: a mesh does.
"""

from __future__ import annotations

from dataclasses import dataclass

from meshgen.cost_model.model import DEFAULT


@dataclass(frozen=True)
class Link:
    """The links of one level.

    Attributes:
        devices: how many devices these links join into one domain; None: all.
        bytes_per_second: what a device can send, in one direction, when all of its domain send at once.
        latency_seconds: from launch to finish, of the innermost level of the smallest collective, further out of the smallest message.
    """

    name: str
    devices: int | None
    bytes_per_second: float
    latency_seconds: float


@dataclass(frozen=True)
class Machine:
    """A profile: `links` from the innermost level to the outermost, which joins all devices.

    Attributes:
        overlap_slowdown: by which share a kernel's time grows while a collective runs beside it.
        device: what computes, by its name in the cost model; None: what the target says.
        memory_bytes: of a device; None: unknown.
    """

    name: str
    links: tuple[Link, ...]
    overlap_slowdown: float = DEFAULT.links.overlap_slowdown
    device: str | None = None
    memory_bytes: int | None = None

    def __str__(self) -> str:
        return self.name


def _switched(name: str, devices: int, scale_up: float, scale_out: float, device: str, memory_bytes: float) -> Machine:
    """Hosts (or racks) of switched NVLink with one network port per device; data-sheet bytes/s of one direction."""
    links = DEFAULT.links
    inner = Link("nvlink", devices, scale_up * links.ring_share, links.nvlink_latency_seconds)
    outer = Link("infiniband", None, scale_out * links.port_share, links.network_latency_seconds)
    return Machine(name, (inner, outer), device=device, memory_bytes=int(memory_bytes))


MOST_DEVICES = 1 << 20  # of a domain: no mesh has more


def _one_host() -> Machine:
    """One host of NVLink 4 that has room for any mesh; other meshes of a program are on other hosts."""
    links = DEFAULT.links
    inner = Link("nvlink", MOST_DEVICES, links.nvlink_bytes_per_second, links.nvlink_latency_seconds)
    outer = Link("infiniband", None, links.network_bytes_per_second, links.network_latency_seconds)
    return Machine("one-host", (inner, outer))


# Source: NVIDIA's data sheets of DGX A100 (NVLink 3, eight HDR ports, 8 x 80 GB), DGX H100 and H200 (NVLink 4, eight NDR ports, 8 x 80
# and 8 x 141 GB), DGX B200 (NVLink 5, eight NDR ports, 1,440 GB in all) and GB200 NVL72 (NVLink 5, 72 devices in a domain, one NDR port each,
# 13.4 TB in all).
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
DEFAULT_MACHINE = "one-host"  # of programs that name no machine; its devices are those of the target
