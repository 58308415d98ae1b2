"""The GPU that a benchmark runs on, or a clear refusal."""

from __future__ import annotations

from typing import Any

from meshgen.errors import Diagnostic, MissingError


def cuda() -> Any:
    """CuPy with a device to run on. Raises MissingError MG0602 where either is absent."""
    try:
        import cupy
    except ImportError as error:
        raise MissingError(
            Diagnostic(
                "MG0602",
                "benchmarks need CuPy, which is not installed",
                hint="pip install 'meshgen[cuda12]' on a machine with a GPU",
            )
        ) from error
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise MissingError(
            Diagnostic(
                "MG0602", f"no GPU can be used: {error}", hint="run this on a machine with an NVIDIA GPU and driver"
            )
        ) from error
    if not count:
        raise MissingError(Diagnostic("MG0602", "this machine has no GPU"))
    return cupy


def architecture(cupy: Any) -> str:
    """The first device's architecture, such as `sm_90`."""
    return f"sm_{cupy.cuda.Device(0).compute_capability}"
