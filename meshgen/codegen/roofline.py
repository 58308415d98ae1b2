"""Roofline model: the time of a kernel is the larger of compute and memory time.

Peaks are the vendor's data sheets for dense operands (A100 SXM, H100 / H200 SXM, B200); `EFFICIENCY` is the part
of them that good kernels reach.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from meshgen.ir.graph import Graph, Node, is_float
from meshgen.kernels.matmul import slowdown
from meshgen.ops.flops import node_flops

EFFICIENCY = 0.75
_LOOKS_UP = frozenset({"gather", "dynamic_slice", "slice", "all_slice"})


@dataclass(frozen=True)
class Device:
    """One architecture.

    Attributes:
        peaks: FLOP/s of a dot by element type of its operands.
        vector_flops: FLOP/s of f32 arithmetic outside of dots.
        bandwidth: bytes/s of device memory.
        launch_seconds: from the end of one kernel to the start of the next on a stream.
        multiprocessors, shared_bytes (of one block), registers (of one block): limits.
    """

    name: str
    peaks: dict[str, float]
    vector_flops: float
    bandwidth: float
    launch_seconds: float
    multiprocessors: int
    shared_bytes: int
    registers: int = 65536


DEVICES: dict[str, Device] = {
    "sm_80": Device(
        "sm_80", {"bf16": 312e12, "f16": 312e12, "f32": 19.5e12, "f64": 19.5e12, "i8": 624e12},
        19.5e12, 2.0e12, 2.5e-6, 108, 166912,
    ),
    "sm_90": Device(
        "sm_90", {"bf16": 989e12, "f16": 989e12, "f32": 67e12, "f64": 67e12, "i8": 1979e12,
                  "f8E4M3FN": 1979e12, "f8E5M2": 1979e12},
        67e12, 4.8e12, 2.0e-6, 132, 232448,
    ),
    "sm_100": Device(
        "sm_100", {"bf16": 2250e12, "f16": 2250e12, "f32": 75e12, "f64": 37e12, "i8": 4500e12,
                   "f8E4M3FN": 4500e12, "f8E5M2": 4500e12},
        75e12, 8.0e12, 2.0e-6, 148, 232448,
    ),
}  # fmt: skip


def device_of(target: str) -> Device:
    """The device of a target such as `cuda:sm_90,sm_80` (the first one) or `sm_80`; `cpu` predicts for sm_90."""
    name = target.removeprefix("cuda:").split(",")[0].strip()
    if name in DEVICES:
        return DEVICES[name]
    digits = name.removeprefix("sm_")
    older = [n for n in DEVICES if digits.isdigit() and int(n[3:]) <= int(digits)]
    return DEVICES[older[-1] if older else "sm_90"]


def kernel_bytes(body: Graph) -> int:
    """Bytes that one launch moves: every operand read once and every result written once.

    Of an operand that is only looked up or sliced no more counts than what comes out.
    """
    uses = body.uses()
    total = sum(value.type.nbytes for value in body.outputs)
    for value in body.inputs:
        users = [node for node, number in uses[value] if number == 0 and node.op in _LOOKS_UP]
        partial = len(users) == len(uses[value]) > 0
        read = sum(node.result.type.nbytes for node in users) if partial else value.type.nbytes
        total += min(value.type.nbytes, read)
    return total


def kernel_seconds(body: Graph, target: str) -> float:
    """Predicted duration of one launch, its launch overhead included."""
    device = device_of(target)
    dots = sum(node.op == "dot_general" for node in body.nodes)
    compute = 0.0
    for node in body.nodes:
        if node.op == "dot_general":
            compute += dot_seconds(node, device, dots)
        elif node.op == "convolution":
            compute += node_flops(node) / device.peaks.get(node.operands[0].type.dtype, device.vector_flops)
        else:
            rate = device.vector_flops if is_float(node.results[0].type.dtype) else device.vector_flops / 2
            compute += node_flops(node) / rate
    return device.launch_seconds + max(compute / EFFICIENCY, memory_seconds(kernel_bytes(body), device))


def dot_seconds(node: Node, device: Device, beside: int = 1) -> float:
    """Time of a product at the peak of its element type, as far as its tiles fill the device; `beside` are in one launch."""
    lhs, rhs = (value.type for value in node.operands)
    k, batch = (math.prod(lhs.sizes[d] for d in node.attrs[name]) for name in ("lhs_contract", "lhs_batch"))
    m, n = lhs.size // max(k * batch, 1), rhs.size // max(k * batch, 1)
    ideal = node_flops(node) / device.peaks.get(lhs.dtype, device.vector_flops)
    return ideal * slowdown(m, n, k, batch * beside, lhs.dtype, device.name, device.multiprocessors) if ideal else 0.0


def memory_seconds(nbytes: int, device: Device) -> float:
    """Predicted time in which a device reads and writes so many bytes of its memory."""
    return nbytes / device.bandwidth / EFFICIENCY
