"""A `libcuda.so.1` that wraps the emulated driver, so that NVIDIA's own bindings can run on it.

The library is a small C file: every function calls a pointer that Python has put into a table. The callback reads the
arguments by the C prototype, passes them to the emulated driver, and writes the results to the output pointers.
"""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from ctypes import POINTER, c_char_p, c_float, c_int, c_size_t, c_uint, c_ulonglong, c_void_p
from pathlib import Path
from typing import Any

from meshgen.emulator.cuda.driver import EmulatedDriver

# types of a handle, an unsigned, an int, a size and an address
H, U, N, Z, A = c_void_p, c_uint, c_int, c_size_t, c_ulonglong
UCHAR, USHORT = ctypes.c_ubyte, ctypes.c_ushort

# Prototypes by the names that bindings pass to cuGetProcAddress. Outputs are pointers. Source: cuda.h
PROTOTYPES: dict[str, list[Any]] = {
    "cuInit": [U], "cuDriverGetVersion": [POINTER(N)], "cuDeviceGetCount": [POINTER(N)], "cuDeviceGet": [POINTER(N), N],
    "cuDeviceTotalMem": [POINTER(Z), N], "cuDeviceGetAttribute": [POINTER(N), N, N],
    "cuDevicePrimaryCtxRetain": [POINTER(H), N], "cuDevicePrimaryCtxRelease": [N], "cuCtxSetCurrent": [H],
    "cuCtxGetCurrent": [POINTER(H)], "cuCtxSynchronize": [], "cuMemAlloc": [POINTER(A), Z], "cuMemFree": [A],
    "cuMemGetInfo": [POINTER(Z), POINTER(Z)], "cuMemHostAlloc": [POINTER(H), Z, U], "cuMemFreeHost": [H],
    "cuMemcpyHtoD": [A, H, Z], "cuMemcpyDtoH": [H, A, Z], "cuMemcpyHtoDAsync": [A, H, Z, H],
    "cuMemcpyDtoHAsync": [H, A, Z, H], "cuMemcpyDtoDAsync": [A, A, Z, H], "cuMemsetD8Async": [A, UCHAR, Z, H],
    "cuMemsetD16Async": [A, USHORT, Z, H], "cuMemsetD32Async": [A, U, Z, H], "cuModuleLoadData": [POINTER(H), H],
    "cuModuleUnload": [H], "cuModuleGetFunction": [POINTER(H), H, c_char_p], "cuFuncGetAttribute": [POINTER(N), N, H],
    "cuFuncSetAttribute": [H, N, N], "cuLaunchKernel": [H, U, U, U, U, U, U, U, H, H, H],
    "cuStreamCreate": [POINTER(H), U], "cuStreamCreateWithPriority": [POINTER(H), U, N], "cuStreamDestroy": [H],
    "cuStreamSynchronize": [H], "cuStreamQuery": [H], "cuStreamWaitEvent": [H, H, U], "cuStreamBeginCapture": [H, N],
    "cuStreamEndCapture": [H, POINTER(H)], "cuStreamIsCapturing": [H, POINTER(N)], "cuEventCreate": [POINTER(H), U],
    "cuEventDestroy": [H], "cuEventRecord": [H, H], "cuEventQuery": [H], "cuEventSynchronize": [H],
    "cuEventElapsedTime": [POINTER(c_float), H, H], "cuGraphInstantiateWithFlags": [POINTER(H), H, A],
    "cuStreamWriteValue32": [H, A, U, U], "cuGraphLaunch": [H, H], "cuGraphDestroy": [H], "cuGraphExecDestroy": [H],
}  # fmt: skip


class Memcpy3D(ctypes.Structure):
    """`CUDA_MEMCPY3D`"""

    _fields_ = [
        *((f"src{name}", Z) for name in ("XInBytes", "Y", "Z", "LOD")), ("srcMemoryType", N), ("srcHost", H),
        ("srcDevice", A), ("srcArray", H), ("reserved0", H), ("srcPitch", Z), ("srcHeight", Z),
        *((f"dst{name}", Z) for name in ("XInBytes", "Y", "Z", "LOD")), ("dstMemoryType", N), ("dstHost", H),
        ("dstDevice", A), ("dstArray", H), ("reserved1", H), ("dstPitch", Z), ("dstHeight", Z),
        ("WidthInBytes", Z), ("Height", Z), ("Depth", Z),
    ]  # fmt: skip


class LibCuda:
    """The functions of an emulated driver as C function pointers."""

    def __init__(self, driver: EmulatedDriver) -> None:
        self._driver = driver
        self._texts: dict[bytes, ctypes.Array[ctypes.c_char]] = {}
        self.pointers: dict[str, Any] = {name: self._thunk(name, types) for name, types in PROTOTYPES.items()}
        special: dict[str, tuple[Callable[..., int], list[Any]]] = {
            "cuDeviceGetName": (self._device_name, [c_void_p, N, N]),
            "cuGetErrorName": (lambda number, out: self._text("cuGetErrorName", number, out), [N, POINTER(H)]),
            "cuGetErrorString": (lambda number, out: self._text("cuGetErrorString", number, out), [N, POINTER(H)]),
            "cuMemcpy3DAsync": (
                lambda box, stream: int(driver.cuMemcpy3DAsync(box[0], stream or 0)[0]),
                [POINTER(Memcpy3D), H],
            ),
            "cuGraphGetNodes": (self._nodes, [H, c_void_p, POINTER(Z)]),
            "cuGraphExecUpdate": (
                lambda graph, other, info: int(driver.cuGraphExecUpdate(graph, other)[0]),
                [H, H, c_void_p],
            ),
        }
        for name, (function, types) in special.items():
            self.pointers[name] = ctypes.CFUNCTYPE(c_int, *types)(function)

    def install(self, library: ctypes.CDLL) -> None:
        for name, pointer in self.pointers.items():
            assert library.meshgen_install(name.encode(), ctypes.cast(pointer, c_void_p)) == 0, name

    def _thunk(self, name: str, types: list[Any]) -> Any:
        function = getattr(self._driver, "cuGraphInstantiate" if name == "cuGraphInstantiateWithFlags" else name)

        def call(*args: Any) -> int:
            inputs = [
                0 if value is None else value for value, kind in zip(args, types, strict=True) if not _is_output(kind)
            ]
            result, *values = function(*inputs)
            outputs = [output for output, kind in zip(args, types, strict=True) if _is_output(kind)]
            for output, value in zip(outputs, values, strict=True):
                if not result:
                    output[0] = value
            return int(result)

        return ctypes.CFUNCTYPE(c_int, *types)(call)

    def _device_name(self, buffer: int, length: int, device: int) -> int:
        result, name = self._driver.cuDeviceGetName(length, device)
        ctypes.memmove(buffer, (name or b"") + b"\0", len(name or b"") + 1)
        return int(result)

    def _text(self, name: str, number: int, output: Any) -> int:
        result, text = getattr(self._driver, name)(number)
        if text is not None:
            buffer = self._texts.setdefault(text, ctypes.create_string_buffer(text))
            output[0] = ctypes.addressof(buffer)
        return int(result)

    def _nodes(self, graph: int, nodes: int | None, count: Any) -> int:
        result, _, node_count = self._driver.cuGraphGetNodes(graph)
        count[0] = node_count
        return int(result)


def _is_output(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, ctypes._Pointer)


def build(folder: Path) -> Path:
    """Compile the library to `libcuda.so.1` in `folder`."""
    names = sorted(
        [
            *PROTOTYPES,
            "cuDeviceGetName",
            "cuGetErrorName",
            "cuGetErrorString",
            "cuMemcpy3DAsync",
            "cuGraphGetNodes",
            "cuGraphExecUpdate",
        ]
    )
    functions = "\n".join(
        f"static long f{n}(long a, long b, long c, long d, long e, long f, long g, long h, long i, long j, long k)"
        f" {{ return table[{n}] ? table[{n}](a, b, c, d, e, f, g, h, i, j, k) : 100; }}"
        for n in range(len(names))
    )
    source = folder / "libcuda.c"
    source.write_text(
        "#include <stddef.h>\n#include <string.h>\n"
        "typedef int (*F)(long, long, long, long, long, long, long, long, long, long, long);\n"
        f"static F table[{len(names)}];\n"
        f"static const char *names[] = {{{', '.join(f'{chr(34)}{name}{chr(34)}' for name in names)}}};\n"
        f"{functions}\n"
        f"static void *functions[] = {{{', '.join(f'f{n}' for n in range(len(names)))}}};\n"
        f"static int place(const char *name) {{ for (int n = 0; n < {len(names)}; n++) if (!strcmp(name, names[n])) return n; return -1; }}\n"
        "int meshgen_install(const char *name, F f) { int n = place(name); if (n < 0) return 1; table[n] = f; return 0; }\n"
        "int cuGetProcAddress_v2(const char *name, void **f, int version, unsigned long flags, int *status)\n"
        "{ int n = place(name); *f = n < 0 ? NULL : functions[n]; if (status) *status = n < 0; return n < 0 ? 500 : 0; }\n"
        "int cuGetProcAddress(const char *name, void **f, int version, unsigned long flags)\n"
        "{ return cuGetProcAddress_v2(name, f, version, flags, NULL); }\n"
    )
    library = folder / "libcuda.so.1"
    subprocess.run(["gcc", "-shared", "-fPIC", "-w", "-o", str(library), str(source)], check=True)
    return library
