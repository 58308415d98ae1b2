"""Ahead-of-time compilation of Triton source to cubins, without a GPU: cached, in parallel, with kernel resources.

Builds are reproducible: equal source gives equal bytes. Cubins have no line information, PTX has line numbers only, and
all options are explicit. The cache key contains the source without names of the program, the launch options, the
architecture, and the versions of Triton and ptxas.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from meshgen.codegen.building.built_kernel import BuiltKernel, built_kernel, describe
from meshgen.codegen.building.cache import Cache, key_of
from meshgen.codegen.building.scratch import remove_abandoned
from meshgen.codegen.building.sources import Source
from meshgen.codegen.building.workers import Reply, compile_all
from meshgen.codegen.canonical_source import canonical_source, function_of
from meshgen.codegen.targets import architecture_faults
from meshgen.errors import CodegenError, Diagnostic, Location, MissingError, UsageError
from meshgen.ir.graph import Graph
from meshgen.kernels.architectures import ARCHITECTURES
from meshgen.ops.triton.registers import SIGNATURE_TYPES
from meshgen.packages import install_line, report_request
from meshgen.printable import distinguishable_sizes
from meshgen.reproducers import save_reproducer

FORMAT = 6  # version of the cache entries' format
DIVISOR = 16  # bytes of pointer alignment; chosen: all buffers are aligned to more, and vector loads need no more
# registers that the threads of a block can have, on every architecture from sm_80 on (CUDA C Programming Guide,
# "Compute Capabilities")
MAX_REGISTERS = 65536

Progress = Callable[[int, int, str], None]  # (kernels built so far, number of kernels, name of the last one)


class Request(NamedTuple):
    """A kernel to build, with (name, Triton type) pairs in launch order, and constants as (name, value) pairs."""

    name: str
    text: str
    entry: str
    signature: tuple[tuple[str, str], ...]
    constants: tuple[tuple[str, Any], ...] = ()
    num_warps: int = 4
    num_stages: int = 3
    fp_fusion: bool = True

    @property
    def pointers(self) -> tuple[str, ...]:
        return tuple(name for name, kind in self.signature if kind.startswith("*"))

    def content(self, arch: str) -> dict[str, Any]:
        """Return everything that decides the cubin, without names of the program. It is also the cache key."""
        constants = dict(self.constants)
        text, names = canonical_source(self.text, self.entry, constants)
        return {
            "text": text,
            "entry": self.entry,
            "signature": {names[name]: kind for name, kind in self.signature},
            "constants": constants,
            "divisible": [names[name] for name in self.pointers],
            "divisor": DIVISOR,
            "arch": arch,
            "options": {
                "num_warps": self.num_warps,
                "num_stages": self.num_stages,
                "enable_fp_fusion": self.fp_fusion,
            },
        }


def request_of(name: str, source: Source, body: Graph) -> Request:
    """Return the build request of a kernel. The Triton signature follows from the types of its body.

    Raises CodegenError MG0301 for an element type that Triton does not support.
    """
    names = [n for n in parameters(source.text, source.entry) if n not in source.constants]
    assert len(names) == len(source.params), f"'{name}': {names} do not match {source.params}"
    values = {"operand": body.inputs, "result": body.outputs}
    types: list[str] = []
    for kind, index in source.params:
        if kind == "coordinate":
            types.append("i32")
            continue
        dtype = values[kind][index].type.dtype
        if dtype not in SIGNATURE_TYPES:
            raise CodegenError(
                Diagnostic(
                    "MG0301", f"kernel '{name}': {kind} {index} has element type {dtype}, which Triton does not support"
                )
            )
        types.append(f"*{SIGNATURE_TYPES[dtype]}")
    return Request(
        name, source.text, source.entry, tuple(zip(names, types, strict=True)),
        tuple(sorted(source.constants.items())), source.num_warps, source.num_stages,
    )  # fmt: skip


def parameters(text: str, entry: str) -> list[str]:
    """Return the parameter names of function `entry`."""
    function = function_of(text, entry)
    assert function is not None, f"unknown function '{entry}' of the source"
    return [argument.arg for argument in function.args.args]


def build_kernels(requests: Sequence[Request], archs: Sequence[str], cache_dir: Path | None = None, workers: int | None = None,
                  progress: Progress | None = None, warn: Callable[[Diagnostic], object] | None = None,
                  ) -> dict[tuple[str, str], BuiltKernel]:  # fmt: skip
    """Build like `compile_kernels`, and check that the driver can launch every kernel.

    Raises:
        CodegenError: also MG0303, for each kernel that exceeds a launch limit.
    """
    built = compile_kernels(requests, archs, cache_dir, workers, progress, warn)
    if faults := [
        fault
        for request in requests
        for arch in archs
        for fault in limit_faults(request, arch, built[request.name, arch])
    ]:
        raise CodegenError(*faults)
    return built


def compile_kernels(requests: Sequence[Request], archs: Sequence[str], cache_dir: Path | None = None, workers: int | None = None,
                    progress: Progress | None = None, warn: Callable[[Diagnostic], object] | None = None,
                    ) -> dict[tuple[str, str], BuiltKernel]:  # fmt: skip
    """Build every request for every architecture (`sm_90`, ...), in this order.

    Args:
        cache_dir: default `MESHGEN_CACHE_DIR` or, if it is not set, the user's cache directory.
        workers: number of compiler processes; default: one per core.
        progress: called for each kernel as it is ready.
        warn: called with MG0004 if the cache cannot be used.
    Raises:
        CodegenError: MG0302, for each kernel that does not compile; MG0301, for each that uses a type that an
            architecture does not support.
        UsageError: MG0001, an unknown architecture.
        MissingError: MG0602, Triton is not installed or its ptxas cannot be run.
    """
    built, faults = compile_each(requests, archs, cache_dir, workers, progress, warn)
    if faults:
        raise CodegenError(*dict.fromkeys(faults.values()))
    return built


def compile_each(requests: Sequence[Request], archs: Sequence[str], cache_dir: Path | None = None, workers: int | None = None,
                 progress: Progress | None = None, warn: Callable[[Diagnostic], object] | None = None,
                 ) -> tuple[dict[tuple[str, str], BuiltKernel], dict[tuple[str, str], Diagnostic]]:  # fmt: skip
    """Build like `compile_kernels`, but return the compile errors (MG0302) instead of raising them.

    Returns:
        The built kernels, and the diagnostics of kernels that do not compile, both by (kernel, architecture).
    """
    _check_archs(archs, requests)
    cache = Cache(cache_dir)
    jobs = [(request, arch) for request in requests for arch in archs]
    keys = [key_of(format=FORMAT, versions=toolchain(a), **r.content(a)) for r, a in jobs]
    # Requests with equal cache keys are built only once, under the name of the first kernel.
    by_key = dict(zip(reversed(keys), reversed(jobs), strict=True))
    by_key = {key: by_key[key] for key in keys}
    built, faults = _built(by_key, cache, workers or os.cpu_count() or 1, progress)
    if cache.warning and warn:
        warn(cache.warning)
    names = [((r.name, arch), key) for (r, arch), key in zip(jobs, keys, strict=True)]
    return {name: built[key] for name, key in names if key in built}, {
        name: faults[key] for name, key in names if key in faults
    }


def _built(
    jobs: Mapping[str, tuple[Request, str]], cache: Cache, workers: int, progress: Progress | None
) -> tuple[dict[str, BuiltKernel], dict[str, Diagnostic]]:
    """Return the kernels by cache key, and the diagnostics of kernels that do not compile."""
    built: dict[str, BuiltKernel] = {}
    faults: dict[str, Diagnostic] = {}

    def tell(key: str) -> None:
        if progress:
            progress(len(built) + len(faults), len(jobs), jobs[key][0].name)

    for key, (request, arch) in jobs.items():
        if kernel := _cached(cache, key, request, arch):
            built[key] = kernel
            tell(key)
    uncached = [key for key in jobs if key not in built]

    def done(index: int, reply: Reply) -> None:
        key = uncached[index]
        request, arch = jobs[key]
        if "error" in reply:
            faults[key] = _compile_fault(request, arch, reply)
        else:
            code, description = describe(reply, arch)
            kernel = built_kernel(code, description, request.entry, arch, cached=False)
            assert kernel, f"'{request.name}': the compiler failed with {description}"
            cache.put(key, code, description)
            built[key] = kernel
        tell(key)

    if uncached:
        remove_abandoned()
    compile_all([request.content(arch) for request, arch in map(jobs.__getitem__, uncached)], workers, done)
    return built, faults


def _cached(cache: Cache, key: str, request: Request, arch: str) -> BuiltKernel | None:
    """Return the kernel from the cache, or None if the cache does not have it. Deletes a malformed entry."""
    if (entry := cache.get(key)) is None:
        return None
    kernel = built_kernel(*entry, request.entry, arch)
    if kernel is None:
        cache.drop(key)
    return kernel


def _check_archs(archs: Sequence[str], requests: Sequence[Request]) -> None:
    """Raise errors for unknown architectures, on which Triton's compiler would crash, and for unsupported element
    types.
    """
    if faults := [fault for arch in archs for fault in architecture_faults(arch)]:
        raise UsageError(*faults)
    if unsupported := [
        _unsupported_fault(request, arch, operation)
        for request in requests
        for arch in archs
        for operation in _unsupported_operations(request, arch)
    ]:
        raise CodegenError(*unsupported)


def _unsupported_operations(request: Request, arch: str) -> list[str]:
    """Return the f8 operations of a kernel that `arch` does not support: f8E4M3FN values, and rounding to f8E5M2."""
    if ARCHITECTURES[arch].has_f8:
        return []
    types = [kind for _, kind in request.signature]
    unsupported = ["element type f8E4M3FN"] if "*fp8e4nv" in types or "tl.float8e4nv" in request.text else []
    return unsupported + (["rounding to f8E5M2"] if ".to(tl.float8e5" in request.text else [])


def _unsupported_fault(request: Request, arch: str, lacks: str) -> Diagnostic:
    hint = "compile for sm_89 or newer, or with --target cpu: it runs on the reference device"
    return Diagnostic("MG0301", f"kernel '{request.name}' needs {lacks}, which {arch} lacks", hint=hint)


def _compile_fault(request: Request, arch: str, reply: Reply) -> Diagnostic:
    """Return a diagnostic with the first and last line of the compiler's message, and the first errors of its log.

    The source and the complete log are stored for a bug report, unless the installed Triton does not support the
    architecture.
    """
    supported = assembled_architectures(arch)
    if supported and arch not in supported:
        text = (
            f"target cuda:{arch} is not supported by the installed Triton, whose assembler knows {', '.join(supported)}"
        )
        return Diagnostic("MG0302", text, hint="name one of these, or install a newer Triton")
    reproducer = save_reproducer(
        {"kernel.py": request.text.encode(), "log.txt": f"{reply['error']}\n{reply['log']}".encode()}
    )
    message, log = ([x.strip() for x in reply[part].splitlines() if x.strip()] for part in ("error", "log"))
    error_lines = [line for line in log if "error" in line.lower()]
    excerpt = "; ".join(dict.fromkeys(line[:300] for line in [*message[:1], *message[-1:], *error_lines[:3]]))
    return Diagnostic(
        "MG0302", f"kernel '{request.name}' does not compile for {arch}: {excerpt}",
        Location(str(reproducer / "kernel.py"), 0) if reproducer else None,
        hint=report_request("the file and its log"),
    )  # fmt: skip


def limit_faults(request: Request, arch: str, built: BuiltKernel) -> list[Diagnostic]:
    """Return the reasons why the driver would refuse to launch the kernel."""
    texts: list[str] = []
    limit = ARCHITECTURES[arch].shared_bytes
    if built.shared > limit:
        needed, available = distinguishable_sizes(built.shared, limit)
        texts.append(f"{needed} of shared memory per block, but {arch} has {available}")
    # The hardware allocates a warp's registers in units of eight per thread.
    needed = -(-built.regs // 8) * 8 * built.threads
    if needed > MAX_REGISTERS:
        texts.append(f"{built.regs} registers x {built.threads} threads = {needed}, but a block has {MAX_REGISTERS}")
    hint = f"it was built with num_warps={request.num_warps}, num_stages={request.num_stages}"
    return [Diagnostic("MG0303", f"kernel '{request.name}' needs {text}", hint=hint) for text in texts]


def toolchain(arch: str) -> dict[str, str]:
    """Return the versions of the tools that decide the cubin. Raises MissingError if Triton is not installed."""
    tool = _tool_of(arch)
    return _versions(tool, os.environ.get(_variable_of(tool), ""))


@functools.cache
def assembled_architectures(arch: str) -> tuple[str, ...]:
    """Return the architectures that both meshgen and the ptxas for `arch` support, or none if ptxas does not list any."""
    help_text = subprocess.run([_binary(_tool_of(arch)), "--help"], capture_output=True, text=True, check=False).stdout
    supported = {*re.findall(r"'(sm_\d+)'", help_text)}
    return tuple(name for name in ARCHITECTURES if name in supported)


def _tool_of(arch: str) -> str:
    return ARCHITECTURES[arch].assembler


def _binary(tool: str) -> str:
    """Return the path of one of Triton's assemblers, which an environment variable may override."""
    return os.environ.get(_variable_of(tool), "") or str(_triton() / "backends" / "nvidia" / "bin" / tool)


def _variable_of(tool: str) -> str:
    """Return the environment variable that overrides the path of an assembler."""
    return f"TRITON_{tool.upper().replace('-', '_')}_PATH"


@functools.cache
def _versions(tool: str, path: str) -> dict[str, str]:
    folder = _triton()
    binary = path or str(folder / "backends" / "nvidia" / "bin" / tool)
    try:
        output = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True).stdout
        version = output.strip().splitlines()[-1]
    except (OSError, ValueError, subprocess.CalledProcessError, IndexError) as error:
        hint = (
            f"unset {_variable_of(tool)}"
            if path
            else f"install Triton again: {install_line('triton')} --force-reinstall"
        )
        raise MissingError(Diagnostic("MG0602", f"'{binary}' cannot be run: {error}", hint=hint)) from error
    triton = re.search(r"^__version__ = ['\"]([^'\"]+)", (folder / "__init__.py").read_text("utf-8"), re.MULTILINE)
    return {"triton": triton[1] if triton else "unknown", "ptxas": version}


def _triton() -> Path:
    """Return Triton's folder. An import takes longer than most compilations. Raises MissingError MG0602 without Triton."""
    spec = importlib.util.find_spec("triton")
    if spec is None or not spec.submodule_search_locations:
        raise MissingError(Diagnostic("MG0602", "Triton is not installed", hint=install_line("triton")))
    return Path(spec.submodule_search_locations[0])
