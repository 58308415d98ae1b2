"""NCCL's collectives over the GPUs of this machine, in nccl-tests' terms: size, time, algbw, busbw."""

from __future__ import annotations

from typing import Any

from bench.timing import timed
from meshgen.errors import Diagnostic, MissingError

SIZES = [1 << n for n in range(12, 29, 4)]  # bytes
FLOAT = 7  # ncclFloat32
SUM = 0  # ncclSum


def measure_collectives(cupy: Any) -> list[dict[str, Any]]:
    """A record per kind and size. One process drives all GPUs; with one GPU the group has one member."""
    if not cupy.cuda.nccl.available:
        raise MissingError(Diagnostic("MG0602", "CuPy finds no NCCL", hint="pip install 'meshgen[cuda12]'"))
    nccl = cupy.cuda.nccl
    count = cupy.cuda.runtime.getDeviceCount()
    comms = nccl.NcclCommunicator.initAll(list(range(count)))
    return [
        _measured(cupy, nccl, comms, kind, size)
        for kind in ("all_reduce", "all_gather", "reduce_scatter")
        for size in SIZES
    ]


def _measured(cupy: Any, nccl: Any, comms: list[Any], kind: str, size: int) -> dict[str, Any]:
    """`size` is the bytes of the whole tensor: per rank for all_reduce, over all ranks for the others."""
    n = len(comms)
    part = max(1, size // 4 // (1 if kind == "all_reduce" else n))
    buffers: list[tuple[Any, Any]] = []
    for device in range(n):
        with cupy.cuda.Device(device):
            whole = cupy.zeros(max(1, size // 4), cupy.float32)
            buffers.append((whole, cupy.zeros_like(whole)))

    def launch() -> None:
        nccl.groupStart()
        for device, (comm, (send, receive)) in enumerate(zip(comms, buffers, strict=True)):
            with cupy.cuda.Device(device):
                stream = cupy.cuda.get_current_stream().ptr
                if kind == "all_reduce":
                    comm.allReduce(send.data.ptr, receive.data.ptr, part, FLOAT, SUM, stream)
                elif kind == "all_gather":
                    comm.allGather(send.data.ptr, receive.data.ptr, part, FLOAT, stream)
                else:
                    comm.reduceScatter(send.data.ptr, receive.data.ptr, part, FLOAT, SUM, stream)
        nccl.groupEnd()

    time = timed(cupy, launch)
    algorithm = size / (time["us"] * 1e-6) / 1e9
    factor = (2 if kind == "all_reduce" else 1) * (n - 1) / n
    return {
        "suite": "collectives",
        "name": kind,
        "size": size,
        "ranks": n,
        **time,
        "algbw": round(algorithm, 2),
        "busbw": round(algorithm * factor, 2),
    }
