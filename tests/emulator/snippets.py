"""Run a few PTX instructions on arrays, in every thread of a few blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from meshgen.emulator.launch import Checks, launch
from meshgen.emulator.memory import Memory
from meshgen.emulator.parse import parse

Array = np.ndarray[Any, Any]
BITS = {1: "b8", 2: "b16", 4: "b32", 8: "b64"}
HEAD = """.version 8.7
.target sm_90a
.address_size 64
.extern .shared .align 16 .b8 global_smem[];
.visible .entry snippet(
{parameters}
)
.reqntid {threads}
{{
	.reg .pred %p<16>;
	.reg .b16 %rs<16>;
	.reg .b32 %r<64>;
	.reg .b64 %rd<64>;
	mov.u32 %r60, %ctaid.x;
	mov.u32 %r61, %tid.x;
	mad.lo.s32 %r62, %r60, {threads}, %r61;
"""


def ptx(body: str, pointers: int, threads: int = 32) -> str:
    """Return a PTX entry with `body`.

    %rd50, %rd51, ... are the pointers. %r60, %r61 and %r62 are the block index, the thread index and the global index.
    """
    parameters = ",\n".join(f"\t.param .u64 .ptr .global .align 1 p{n}" for n in range(pointers))
    loads = "".join(f"\tld.param.b64 %rd{50 + n}, [p{n}];\n" for n in range(pointers))
    return f"{HEAD.format(parameters=parameters, threads=threads)}{loads}{body}\n\tret;\n}}\n"


def run(body: str, *arrays: Array, threads: int = 32, blocks: int = 1, shared: int = 0, races: bool = True,
        writable: Sequence[bool] | None = None, issues: int = 100_000) -> list[Array]:  # fmt: skip
    """Run `body` and return the arrays afterwards. Each array is one pointer argument; accesses to other memory fault."""
    memory = Memory(1 << 26)
    addresses = [memory.allocate(array.nbytes, f"array {n}") for n, array in enumerate(arrays)]
    for address, array in zip(addresses, arrays, strict=True):
        memory.view(address, array.nbytes)[:] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    ranges = [(p, a.nbytes, w) for p, a, w in zip(addresses, arrays, writable or [True] * len(arrays), strict=True)]
    parameters = b"".join(address.to_bytes(8, "little") for address in addresses)
    entry = parse(ptx(body, len(arrays), threads)).entries["snippet"]
    checks = Checks(races=races, operands=ranges, issues=issues)
    launch(entry, (blocks, 1, 1), (threads, 1, 1), shared, parameters, memory, checks=checks)
    return [
        memory.view(p, a.nbytes).copy().view(a.dtype).reshape(a.shape) for p, a in zip(addresses, arrays, strict=True)
    ]


def compute(instructions: str, result: type | np.dtype[Any], *operands: Array) -> Array:
    """Run instructions on registers %a, %b, %c, %e, ... for each element of the operands.

    Returns %d of all elements as an array of dtype `result`. Registers have the width of their type, or at least 16
    bits.
    """
    count = len(operands[0])
    out = np.zeros(count, result)
    lines = ["\tcvt.u64.u32 %rd40, %r62;"]
    declared: list[str] = []
    for name, array in zip("abcefg", operands, strict=False):
        width = array.dtype.itemsize
        declared.append(f"\t.reg .{BITS[max(2, width)]} %{name};")
        number = 50 + len(declared) - 1
        lines += [f"\tmad.lo.s64 %rd41, %rd40, {width}, %rd{number};", f"\tld.global.{BITS[width]} %{name}, [%rd41];"]
    declared.append(f"\t.reg .{BITS[max(2, out.itemsize)]} %d;\n\t.reg .pred %q;")
    lines += [f"\t{line.strip()}" for line in instructions.strip().splitlines()]
    lines += [f"\tmad.lo.s64 %rd41, %rd40, {out.itemsize}, %rd{50 + len(operands)};"]
    lines += [f"\tst.global.{BITS[out.itemsize]} [%rd41], %d;"]
    assert count % 32 == 0
    arrays = run("\n".join(declared + lines), *operands, out, blocks=count // 32, races=False)
    return arrays[-1]
