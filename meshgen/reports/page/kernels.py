"""The kernels on the HTML page: operations, bytes and seconds of each kernel for the roofline plot, and their code."""

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

MOST_CODE = 600_000  # chosen: characters of Triton sources, and as many of PTX, so that the page stays below 2 MB


def kernels(executable: Compiled) -> list[dict[str, Any]]:
    """Return a record per kernel, ordered by the time that it takes in a step.

    Seconds, operations and bytes are per launch.
    """
    has_several_meshes = len(executable.parts) > 1
    records: list[dict[str, Any]] = []
    for part in executable.parts:
        launched: dict[str, list[Launched]] = {}
        for launch in part.plan.launches():
            if launch.item.kernel:
                launched.setdefault(launch.item.kernel, []).append(launch)
        prefix = f"{part.mesh.name}/" if has_several_meshes else ""
        records += [_kernel(prefix, name, launches, part) for name, launches in launched.items()]
    return sorted(records, key=lambda record: -record["total"])


def _kernel(prefix: str, name: str, launches: list[Launched], part: Compiled) -> dict[str, Any]:
    body, first = part.plan.kernels[name], launches[0]
    return {
        "name": f"{prefix}{name}",
        "launches": sum(launch.times for launch in launches),
        "seconds": first.item.seconds,
        "total": sum(launch.item.seconds * launch.times for launch in launches),
        "flops": graph_flops(body),
        "bytes": launch_bytes(first.item, first.plan),
        "ops": list(dict.fromkeys(node.op for node in body.nodes)),
        "sources": list(dict.fromkeys(launch.item.source for launch in launches))[:6],
    }


def roofline(executable: Compiled) -> dict[str, Any]:
    """Return the roofline of the device: peak FLOP/s of matmuls by type and of other arithmetic, and bytes/s of
    memory.
    """
    device = device_of(predicted_on(executable.target, None, executable.mesh)[0])
    return {
        "device": device.product,
        "peaks": dict(device.peaks) | {"vector": device.vector_flops},
        "bandwidth": device.bandwidth,
    }


def code(executable: Compiled, loaded: LoadedModule | None = None) -> dict[str, Any]:
    """Return the Triton source of each kernel, and its PTX if built.

    `left_out` in the result names the kernels whose code exceeds the size limit.

    Args:
        loaded: the module that contains the code; None to generate the code from `executable`.
    """
    order = [record["name"] for record in kernels(executable)]
    if loaded is not None:
        return _sources_that_fit(*_code_of_module(loaded), order)
    try:
        sources = {name: source.text for name, source in executable.sources.items()}
        sources |= {f"{name} ({arch})": source.text for (name, arch), source in executable.forms.items()}
    except MeshgenError as error:  # the target has no kernels; the page shows the error
        return _sources_that_fit({}, {}, order) | {"refused": str(error)}
    ptx = {f"{name} ({arch})": built.ptx.decode() for (name, arch), built in executable.built.items()}
    return _sources_that_fit(sources, ptx, order)


def _code_of_module(loaded: LoadedModule) -> tuple[dict[str, str], dict[str, str]]:
    """Return the sources and the PTX of a module's kernels."""
    sources: dict[str, str] = {}
    ptx: dict[str, str] = {}
    for part in loaded.parts:
        prefix = f"{part.mesh.name}/" if len(loaded.parts) > 1 else ""
        for name, kernel in part.manifest.kernels.items():
            sources[f"{prefix}{name}"] = part.source(name)
            sources |= {f"{prefix}{name} ({arch})": part.source(name, arch) for arch in kernel.forms}
            ptx |= {
                f"{prefix}{name} ({arch})": part.ptx(name, arch) for arch, built in kernel.binaries.items() if built.ptx
            }
    return sources, ptx


def _sources_that_fit(sources: dict[str, str], ptx: dict[str, str], order: list[str]) -> dict[str, Any]:
    """Return the code that fits into the size limit of the page. Kernels in `order` (the slowest first) have
    priority.
    """
    rank = {name: index for index, name in enumerate(order)}
    left_out: list[str] = []
    ordered = [
        dict(sorted(texts.items(), key=lambda pair: rank.get(pair[0].partition(" (")[0], len(rank))))
        for texts in (sources, ptx)
    ]
    fitting = [_fitting(texts, left_out) for texts in ordered]
    return {"triton": fitting[0], "ptx": fitting[1], "left_out": left_out, "refused": ""}


def _fitting(texts: dict[str, str], left_out: list[str]) -> dict[str, str]:
    """Return the first texts up to the size limit. The names of omitted texts are appended to `left_out`."""
    fitting: dict[str, str] = {}
    characters_left = MOST_CODE
    for name, text in texts.items():
        if not text:
            continue
        if len(text) <= characters_left:
            fitting[name] = text
            characters_left -= len(text)
        else:
            left_out.append(name)
    return fitting
