"""Write Inductor's code for an H100 on a machine without a GPU. Nothing is launched, and tensors have shapes but no
data.

`load` makes a build of PyTorch without CUDA find a CUDA device (`no_device.cpp`). `modules` runs a step on fake
tensors, answers Inductor's device queries from a table, and returns the text of every module that the step calls.
"""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from meshgen.errors import Diagnostic, MissingError

# Properties of the NVIDIA H100 SXM. Sources: CUDA C++ Programming Guide, table of technical specifications per compute
# capability; H100 white paper.
_H100 = SimpleNamespace(
    name="NVIDIA H100", major=9, minor=0, multi_processor_count=132, warp_size=32, max_threads_per_block=1024,
    max_threads_per_multi_processor=2048, regs_per_multiprocessor=65536, shared_memory_per_block=49152,
    shared_memory_per_block_optin=232448, L2_cache_size=50 << 20, total_memory=80 << 30,
)  # fmt: skip


def load() -> None:
    """Register a nonexistent CUDA device with PyTorch. Call this before any import of torch.

    Raises:
        MissingError: MG0602, torch, triton or g++ is not installed, or this build of torch has CUDA.
    """
    specs = {package: find_spec(package) for package in ("torch", "triton")}
    if missing := [package for package, spec in specs.items() if spec is None or spec.origin is None]:
        raise _missing(f"not installed: {', '.join(missing)}")
    root = Path(str(getattr(specs["torch"], "origin", ""))).parent
    if (root / "lib/libtorch_cuda.so").exists():
        raise _missing("this build of torch has CUDA")
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder) / "no_device.so"
        source = Path(__file__).with_name("no_device.cpp")
        command = ["g++", "-shared", "-fPIC", "-std=c++20", f"-I{root}/include", str(source), "-o", str(built)]
        try:
            subprocess.run(command, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise _missing(f"g++ does not build {source.name}: {error}") from error
        for library in (root / "lib/libtorch_global_deps.so", root / "lib/libtorch_cpu.so", built):
            ctypes.CDLL(str(library), ctypes.RTLD_GLOBAL)
    warnings.filterwarnings("ignore", module="torch")


def _missing(message: str) -> MissingError:
    hint = "install a build of torch for CPUs with its headers (2.13.0+cpu, say), triton and g++"
    return MissingError(Diagnostic("MG0602", message, hint=hint))


def modules(build: Callable[[], Callable[[], object]], *, triton_products: bool = False) -> list[str]:
    """Return the texts of Inductor's modules for a step, one for each call of a module, in call order.

    `build` creates the operands on "cuda" and returns the step, which contains compiled functions. By default the
    library computes GEMMs. With `triton_products` all GEMMs use Inductor's template, which fuses epilogues. In
    Inductor's mode `max-autotune`, a GEMM uses the template if it was the fastest on the device.
    """
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    texts: list[str] = []
    torch._dynamo.reset()
    with _device(texts), _templates() if triton_products else nullcontext(), FakeTensorMode(allow_non_fake_inputs=True):
        build()()
    return texts


@contextmanager
def _device(texts: list[str]) -> Generator[None]:
    """Within the context, answer Inductor's device queries from a table, and append the code of modules to `texts`
    instead of loading it.
    """
    import torch.utils._triton
    from torch._dynamo.device_interface import CudaInterface
    from torch._inductor import config
    from torch._inductor.fx_passes.joint_graph import UniformValueConstantFolder
    from torch._inductor.graph import GraphLowering

    answers: dict[str, Any] = {
        "is_available": True, "device_count": 1, "current_device": 0, "get_device_properties": _H100, "get_compute_capability": 90,
        "is_bf16_supported": True, "is_triton_capable": True, "get_raw_stream": 0, "synchronize": None,
    }  # fmt: skip
    with ExitStack() as stack:
        for name, answer in answers.items():
            stack.enter_context(patch.object(CudaInterface, name, staticmethod(_always(answer))))
        stack.enter_context(patch.object(CudaInterface.Worker, "get_device_properties", staticmethod(_always(_H100))))
        stack.enter_context(patch.object(torch.cuda, "get_device_properties", _always(_H100)))
        stack.enter_context(patch.object(torch.cuda, "get_device_capability", _always((9, 0))))
        stack.enter_context(patch.object(torch.utils._triton, "triton_hash_with_backend", _always("")))
        stack.enter_context(config.patch(force_disable_caches=True))
        folded = _on_host(UniformValueConstantFolder._deduce_value)
        stack.enter_context(patch.object(UniformValueConstantFolder, "_deduce_value", folded))
        stack.enter_context(patch.object(GraphLowering, "_compile_to_module", _noting(texts)))
        yield


@contextmanager
def _templates() -> Generator[None]:
    """Within the context, Triton's template is the only candidate for GEMMs, and its first tile is selected."""
    from torch._inductor import config
    from torch._inductor.select_algorithm import AlgorithmSelectorCache

    def first(_: Any, name: str, choices: list[Any], *args: Any, **kwargs: Any) -> Any:
        return choices[0].output_node(), choices[0]

    with (
        config.patch(max_autotune_gemm=True, max_autotune_gemm_backends="TRITON"),
        patch.object(AlgorithmSelectorCache, "__call__", first),
    ):
        yield


def _always(answer: Any) -> Callable[..., Any]:
    return lambda *_, **__: answer


def _noting(texts: list[str]) -> Callable[[Any], Any]:
    """Return a replacement for Inductor's function that loads a module. It records the module's text and returns the
    metadata of the results from the graph.
    """

    def compile_to_module(graph: Any) -> Any:
        text = graph.codegen()[0].value
        results = tuple(
            getattr(node, "meta", {}).get("val", node) for node in graph.orig_gm.graph.output_node().args[0]
        )

        def call(args: list[Any]) -> Any:
            texts.append(text)
            args.clear()
            return results

        return SimpleNamespace(__file__=None, runner=None, call=call)

    return compile_to_module


def _on_host(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a replacement for `function`, in which Inductor constant-folds on the CPU and not on the device."""
    from torch import device
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_map_only

    class OnHost(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            args, kwargs = tree_map_only(device, lambda _: device("cpu"), (args, kwargs or {}))
            return func(*args, **kwargs)

    def on_host(*args: Any) -> Any:
        with OnHost():
            return function(*args)

    return on_host
