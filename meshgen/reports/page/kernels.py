"""The kernels of the page: work, traffic and time of each for the roofline, and their code."""

from __future__ import annotations

from typing import Any

from meshgen.codegen.roofline.kernel_time import device_of
from meshgen.codegen.targets import predicted_on
from meshgen.errors import MeshgenError
from meshgen.ops.flops import graph_flops
from meshgen.reports.cost import launch_bytes
from meshgen.reports.interface import Compiled
from meshgen.runtime.module import LoadedModule
from meshgen.runtime.plan import Launched

MOST_CODE = 600_000  # characters of sources, and as many of PTX: the page stays below 2 MB


def kernels(executable: Compiled) -> list[dict[str, Any]]:
    """A record per kernel, longest in a step first; seconds, operations and bytes are of one launch."""
    several = len(executable.parts) > 1
    found: list[dict[str, Any]] = []
    for part in executable.parts:
        launched: dict[str, list[Launched]] = {}
        for each in part.plan.launches():
            if each.item.kernel:
                launched.setdefault(each.item.kernel, []).append(each)
        head = f"{part.mesh.name}/" if several else ""
        found += [_kernel(head, name, launches, part) for name, launches in launched.items()]
    return sorted(found, key=lambda record: -record["total"])


def _kernel(head: str, name: str, launches: list[Launched], part: Compiled) -> dict[str, Any]:
    body, first = part.plan.kernels[name], launches[0]
    return {
        "name": f"{head}{name}",
        "launches": sum(each.times for each in launches),
        "seconds": first.item.seconds,
        "total": sum(each.item.seconds * each.times for each in launches),
        "flops": graph_flops(body),
        "bytes": launch_bytes(first.item, first.plan),
        "ops": list(dict.fromkeys(node.op for node in body.nodes)),
        "sources": list(dict.fromkeys(each.item.source for each in launches))[:6],
    }


def roofline(executable: Compiled) -> dict[str, Any]:
    """The limits of the device that times are predicted for: FLOP/s of products by type and of other arithmetic, bytes/s."""
    device = device_of(predicted_on(executable.target, None, executable.mesh)[0])
    return {
        "device": device.product,
        "peaks": dict(device.peaks) | {"vector": device.vector_flops},
        "bandwidth": device.bandwidth,
    }


def code(executable: Compiled, loaded: LoadedModule | None = None) -> dict[str, Any]:
    """Triton source per kernel, and PTX where it is built, as much as fits; `left_out` names the kernels whose code does not.

    With a module its code is taken, else what is generated now.
    """
    order = [record["name"] for record in kernels(executable)]
    if loaded is not None:
        return _sources_that_fit(*_of_module(loaded), order)
    try:
        sources = {name: source.text for name, source in executable.sources.items()}
        sources |= {f"{name} ({arch})": source.text for (name, arch), source in executable.forms.items()}
    except MeshgenError as error:  # the target lacks kernels; the page says which
        return _sources_that_fit({}, {}, order) | {"refused": str(error)}
    ptx = {f"{name} ({arch})": built.ptx.decode() for (name, arch), built in executable.built.items()}
    return _sources_that_fit(sources, ptx, order)


def _of_module(loaded: LoadedModule) -> tuple[dict[str, str], dict[str, str]]:
    """Sources and PTX of a module's kernels."""
    sources: dict[str, str] = {}
    ptx: dict[str, str] = {}
    for part in loaded.parts:
        head = f"{part.mesh.name}/" if len(loaded.parts) > 1 else ""
        for name, kernel in part.manifest.kernels.items():
            sources[f"{head}{name}"] = part.source(name)
            sources |= {f"{head}{name} ({arch})": part.source(name, arch) for arch in kernel.forms}
            ptx |= {
                f"{head}{name} ({arch})": part.ptx(name, arch) for arch, built in kernel.binaries.items() if built.ptx
            }
    return sources, ptx


def _sources_that_fit(sources: dict[str, str], ptx: dict[str, str], order: list[str]) -> dict[str, Any]:
    """What fits, that of the kernels that take longest first."""
    rank = {name: number for number, name in enumerate(order)}
    left_out: list[str] = []
    first = [
        dict(sorted(each.items(), key=lambda pair: rank.get(pair[0].partition(" (")[0], len(rank))))
        for each in (sources, ptx)
    ]
    found = [_fitting(each, left_out) for each in first]
    return {"triton": found[0], "ptx": found[1], "left_out": left_out, "refused": ""}


def _fitting(texts: dict[str, str], left_out: list[str]) -> dict[str, str]:
    """The texts up to the limit, in order; the names of others are added to `left_out`."""
    found: dict[str, str] = {}
    room = MOST_CODE
    for name, text in texts.items():
        if not text:
            continue
        if len(text) <= room:
            found[name] = text
            room -= len(text)
        else:
            left_out.append(name)
    return found
