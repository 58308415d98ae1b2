"""Build kernels for emulation only up to PTX. ptxas takes a third to half of a build, and the emulator reads no cubins."""

from __future__ import annotations

import functools

from meshgen.codegen.building.build import FORMAT, Request, limit_faults, request_of, toolchain
from meshgen.codegen.building.built_kernel import WARP, BuiltKernel
from meshgen.codegen.building.cache import Cache, key_of
from meshgen.codegen.building.workers import Reply, compile_all
from meshgen.codegen.triton_source import KernelSource
from meshgen.ir.graph import Graph


def ptx_of(source: KernelSource, body: Graph, arch: str) -> BuiltKernel:
    """Build a kernel up to PTX. The result has no cubin, and no properties that are read from a cubin.

    Raises:
        AssertionError: the kernel cannot be compiled or launched.
    """
    request = request_of(body.name, source, body)
    built = _built(request, arch)
    assert not limit_faults(request, arch, built)
    return built


@functools.lru_cache(maxsize=256)
def _built(request: Request, arch: str) -> BuiltKernel:
    cache = Cache()
    key = key_of(format=FORMAT, stage="ptx", versions=toolchain(arch), **request.content(arch))
    entry = cache.get(key)
    if entry is None:
        replies: list[Reply] = []
        compile_all([request.content(arch) | {"assembled": False}], 1, lambda _, reply: replies.append(reply))
        assert "error" not in replies[0], replies[0]
        entry = replies[0]["ptx"].encode(), replies[0]["metadata"]
        cache.put(key, *entry)
    ptx, metadata = entry
    return BuiltKernel(
        b"", request.entry, 0, 0, 0, metadata["shared"], WARP * metadata["num_warps"], metadata["num_warps"], {}, metadata,
        0.0, False, ptx,
    )  # fmt: skip
