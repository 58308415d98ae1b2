"""Kernels that copy boxes of elements within a device, as PTX that the driver compiles when a module is
loaded.

They are the same for every program: sizes and strides are parameters. One thread handles one element of a
box of up to four dims, with strides in bytes. If rows are contiguous on both sides, accesses coalesce. The
index computation takes three 32-bit divisions per element, which matters only for boxes of single bytes.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

RANK = 4  # number of dims of a box
THREADS = 256  # threads per block
MOST_ELEMENTS = 2**31  # most elements of a box, so that indices have 32 bits
POINTER, U32 = 8, 4  # bytes of a kernel parameter of each type
_HEADER = ".version 7.8\n.target sm_80\n.address_size 64\n"

# For each element size in bytes, the type suffix and the registers of loads and stores.
_WORDS = {1: ("u8", "%v0"), 2: ("u16", "%v0"), 4: ("u32", "%v0"), 8: ("u64", "%w0"), 16: ("v2.u64", "{%w0, %w1}")}


@dataclass(frozen=True)
class PtxKernel:
    """A PTX kernel. `parameters`: the sizes of its parameters in bytes, in order."""

    name: str
    text: str
    parameters: tuple[int, ...]


@functools.cache
def copy_kernel(itemsize: int) -> PtxKernel:
    """Return the kernel that copies a box of elements of 1, 2, 4, 8 or 16 bytes, aligned to their size.

    Its parameters are the addresses of target and source, the number of elements, the sizes of dims 1 to 3, the
    strides of the target's dims, and the strides of the source's dims.
    """
    word, registers = _WORDS[itemsize]
    body = [
        *_element(["target", "source"]),
        f"ld.global.{word} {registers}, [%source];",
        f"st.global.{word} [%target], {registers};",
    ]
    return _kernel(f"copy_{itemsize}", ["target", "source"], body)


def _element(sides: Sequence[str]) -> list[str]:
    """Return code that advances the pointer of each side (source, target) to the thread's element."""
    lines = ["mov.u32 %rest, %number;"]
    for dim in (3, 2, 1):
        lines += [f"rem.u32 %index, %rest, %size{dim};", f"div.u32 %rest, %rest, %size{dim};", *_moved(sides, dim)]
    return [*lines, "mov.u32 %index, %rest;", *_moved(sides, 0)]


def _moved(sides: Sequence[str], dim: int) -> list[str]:
    lines = ["cvt.u64.u32 %wide, %index;"]
    for side in sides:
        lines += [f"mul.lo.s64 %offset, %wide, %{side}_stride{dim};", f"add.s64 %{side}, %{side}, %offset;"]
    return lines


def _kernel(name: str, sides: Sequence[str], body: Sequence[str]) -> PtxKernel:
    """Return a kernel that runs `body` for every element of a box."""
    strides = [f"{side}_stride{dim}" for side in sides for dim in range(RANK)]
    words = ["count", "size1", "size2", "size3"]
    parameters = [*((side, "u64") for side in sides), *((word, "u32") for word in words)]
    registers = [".reg .b64 %wide, %offset, %w0, %w1;", ".reg .b32 %index, %rest, %v0;"]
    return threads_kernel(name, [*parameters, *((stride, "s64") for stride in strides)], [*registers, *body])


def threads_kernel(name: str, parameters: Sequence[tuple[str, str]], body: Sequence[str]) -> PtxKernel:
    """Return a kernel that runs `body` for every `%number` below its parameter `%count`.

    Args:
        parameters: name and PTX type of each parameter. Registers of the same names hold their values.
    """
    declared = ", ".join(f".param .{ptx_type} p_{parameter}" for parameter, ptx_type in parameters)
    wide = ", ".join(f"%{parameter}" for parameter, ptx_type in parameters if ptx_type != "u32")
    narrow = ", ".join(f"%{parameter}" for parameter, ptx_type in parameters if ptx_type == "u32")
    lines = [
        f".visible .entry {name}({declared}) .maxntid {THREADS}",
        "{",
        f".reg .b64 {wide};",
        f".reg .b32 {narrow}, %number, %block, %thread, %threads;",
        ".reg .pred %outside;",
        *(f"ld.param.{ptx_type} %{parameter}, [p_{parameter}];" for parameter, ptx_type in parameters),
        "mov.u32 %block, %ctaid.x;",
        "mov.u32 %threads, %ntid.x;",
        "mov.u32 %thread, %tid.x;",
        "mad.lo.u32 %number, %block, %threads, %thread;",
        "setp.ge.u32 %outside, %number, %count;",
        "@%outside bra done;",
        *body,
        "done:",
        "ret;",
        "}",
    ]
    sizes = tuple(U32 if ptx_type == "u32" else POINTER for _, ptx_type in parameters)
    return PtxKernel(name, _HEADER + "\n".join(lines) + "\n", sizes)
