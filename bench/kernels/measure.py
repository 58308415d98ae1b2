"""The programs on one GPU: times with warm and cold caches, their share of what the device was measured to do, results beside PyTorch's."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from bench.device import architecture
from bench.kernels.baselines import baseline
from bench.kernels.programs import PROGRAMS
from bench.kernels.static import compiled, described
from bench.timing import timed
from meshgen.ir.graph import Graph, TensorType
from meshgen.runtime.cuda.code import scratch_bytes
from meshgen.runtime.module import LoadedModule
from meshgen.runtime.module_file.manifest import Kernel

MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
PLAIN_SHARED = 48 * 1024  # bytes of dynamic shared memory that need no opt-in
COPIED = 2**30  # bytes of the copy that is the ceiling of traffic
WIDE = 8192  # rows and columns of the product that is the ceiling of arithmetic
FLUSHED = 2**28  # bytes written between launches with a cold cache: more than the L2 cache of any GPU yet
_TOLERANCE = 2e-2  # of the largest result, between two bf16 programs that add up in other orders


def measure_kernels(cupy: Any, names: Sequence[str] = ()) -> list[dict[str, Any]]:
    """A record per program: what `described` says, and `measured`."""
    target = f"cuda:{architecture(cupy)}"
    ceilings = _ceilings(cupy)
    found: list[dict[str, Any]] = []
    for name in names or PROGRAMS:
        with tempfile.TemporaryDirectory() as place:
            _, module = compiled(name, target, Path(place) / "program.mgx")
            record = described(name, target)
            record["measured"] = _measured(cupy, name, module, record, ceilings)
        found.append({"suite": "kernels", "ceilings": ceilings, **record})
    return found


def _ceilings(cupy: Any) -> dict[str, float]:
    """Bytes/s of a copy, and FLOP/s of a product of f16 matrices by cuBLAS."""
    source, target = (cupy.ones(COPIED, cupy.uint8) for _ in range(2))
    copy = timed(cupy, lambda: cupy.copyto(target, source))["us"] * 1e-6
    x = cupy.random.standard_normal((WIDE, WIDE), cupy.float32).astype(cupy.float16)
    product = timed(cupy, lambda: x @ x)["us"] * 1e-6
    return {"bytes_per_s": 2 * COPIED / copy, "flops_per_s": 2 * WIDE**3 / product}


def _measured(
    cupy: Any, name: str, module: LoadedModule, record: Mapping[str, Any], ceilings: Mapping[str, float]
) -> dict[str, Any]:
    args = [_random(binding.type, seed) for seed, binding in enumerate(module.inputs)]
    counts, arch = module.schedule.launch_counts(), architecture(cupy)
    times = {
        each: _times(cupy, kernel, module.cubin(each, arch), module.schedule.kernels[each], arch)
        for each, kernel in module.manifest.kernels.items()
    }
    total = {key: sum(times[each][key] * counts[each] for each in times) for key in ("us", "cold_us")}
    least = max(record["bytes"] / ceilings["bytes_per_s"], record["flops"] / ceilings["flops_per_s"])
    found = {**total, "spread": max(each["spread"] for each in times.values()), "of_ceiling": least * 1e6 / total["us"]}
    return {**found, **_against(cupy, name, args, module)}


def _times(cupy: Any, kernel: Kernel, cubin: bytes, body: Graph, arch: str) -> dict[str, float]:
    binary = kernel.binaries[arch]
    library = cupy.cuda.Module()
    library.load(cubin)
    function = library.get_function(kernel.entry)
    if binary.shared > PLAIN_SHARED:
        driver = import_module("cupy_backends.cuda.api.driver")
        driver.funcSetAttribute(function.ptr, MAX_DYNAMIC_SHARED, binary.shared)
    values = {"operand": body.inputs, "result": body.outputs}
    memory = {(kind, i): _on_device(cupy, v.type, i) for kind in values for i, v in enumerate(values[kind])}
    args = [np.int32(0) if p.kind == "coordinate" else memory[p.kind, p.index].data.ptr for p in kernel.params]
    sizes = scratch_bytes(kernel, binary)
    held = [cupy.zeros(max(1, size), cupy.uint8) for size in sizes]
    scratch = [array.data.ptr if size else 0 for array, size in zip(held, sizes, strict=True)]

    def launch() -> None:
        function(kernel.grid, (binary.threads, 1, 1), (*args, *scratch), shared_mem=binary.shared)

    flushed = cupy.empty(FLUSHED, cupy.uint8)
    return {**timed(cupy, launch), "cold_us": timed(cupy, launch, before=lambda: flushed.fill(1))["us"]}


def _against(cupy: Any, name: str, args: Sequence[Any], module: LoadedModule) -> dict[str, Any]:
    """Time of PyTorch's function, eager or compiled, whichever is faster, and whether the results agree."""
    try:
        torch = import_module("torch")
    except ImportError:
        return {}
    function = baseline(torch, name)
    if function is None:
        return {}
    tensors = [_as_torch(torch, each) for each in args]
    calls: dict[str, Callable[..., Any]] = {"torch": function, "torch.compile": torch.compile(function)}
    found = {each: timed(cupy, lambda call=call: call(*tensors))["us"] for each, call in calls.items()}
    wanted, *_ = _flat(function(*tensors))
    made = np.asarray(module.run(list(args), device="cuda")[0], np.float64)
    other = wanted.double().cpu().numpy()
    fastest = min(found, key=lambda each: found[each])
    is_near = bool(np.abs(made - other).max() <= _TOLERANCE * max(np.abs(other).max(), 1e-30))
    return {"against": fastest, "against_us": found[fastest], "correct": is_near}


def _random(kind: TensorType, seed: int) -> Any:
    """Values that are not 0: normal ones, and indices below 1000."""
    rng = np.random.default_rng(seed)
    if kind.numpy_dtype.kind in "iu":
        return rng.integers(1, min(1000, np.iinfo(kind.numpy_dtype).max), kind.sizes).astype(kind.numpy_dtype)
    return rng.standard_normal(kind.sizes, np.float32).astype(kind.numpy_dtype)


def _on_device(cupy: Any, kind: TensorType, seed: int) -> Any:
    """Random values as bytes on the device: types that CuPy does not know are no matter."""
    return cupy.asarray(np.atleast_1d(_random(kind, seed)).view(np.uint8))


def _as_torch(torch: Any, array: Any) -> Any:
    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16).cuda()
    return torch.from_numpy(array).cuda()


def _flat(found: Any) -> Sequence[Any]:
    return found if isinstance(found, tuple | list) else [found]
