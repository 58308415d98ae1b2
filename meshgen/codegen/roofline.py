"""Roofline model: the time of a kernel is the larger of compute and memory time.

Peaks, and the part of them that kernels reach, are those of the cost model (`meshgen/cost_model/kernels.py`).
"""

from __future__ import annotations

from meshgen.codegen.fusion.row_passes import repeated_bytes
from meshgen.codegen.nest_work import nest_operations
from meshgen.cost_model.kernels import Device
from meshgen.cost_model.model import DEFAULT
from meshgen.ir.graph import Graph, Node, is_float
from meshgen.kernels.matmul import slowdown
from meshgen.ops.classes import NESTS, PRODUCTS, TAKING
from meshgen.ops.dot_dims import is_depthwise, product_extents
from meshgen.ops.flops import node_flops

DEVICES = {device.name: device for device in DEFAULT.kernels.devices}


def device_of(target: str) -> Device:
    """The device of a target such as `cuda:sm_90,sm_80` (the first one), `sm_80`, or a machine's `h100`; `cpu` predicts for sm_90."""
    name = target.removeprefix("cuda:").split(",")[0].strip()
    if name in DEVICES:
        return DEVICES[name]
    digits = name.removeprefix("sm_")
    listed = [device.name for device in DEFAULT.kernels.devices if not device.arch]
    older = [n for n in listed if digits.isdigit() and int(n[3:]) <= int(digits)]
    return DEVICES[older[-1] if older else "sm_90"]


def kernel_bytes(body: Graph) -> int:
    """Bytes that one launch moves: every operand read once, or more often where rows are long, and every result written once.

    Of an operand that is only looked up or sliced no more counts than what comes out.
    """
    uses = body.uses()
    total = sum(value.type.nbytes for value in body.outputs) + repeated_bytes(body)
    for value in body.inputs:
        users = [node for node, number in uses[value] if number == 0 and node.op in TAKING]
        partial = len(users) == len(uses[value]) > 0
        read = sum(node.result.type.nbytes for node in users) if partial else value.type.nbytes
        total += min(value.type.nbytes, read)
    return total


def kernel_seconds(body: Graph, target: str) -> float:
    """Predicted duration of one launch, its launch overhead included."""
    device = device_of(target)
    dots = sum(node.op in PRODUCTS for node in body.nodes)
    compute = 0.0
    for node in body.nodes:
        if node.op in PRODUCTS and not is_depthwise(node):
            compute += dot_seconds(node, device, dots)
        else:
            share = 1.0 if is_float(node.results[0].type.dtype) else DEFAULT.kernels.integer_share
            operations = nest_operations(node, body) if node.op in NESTS else node_flops(node)
            compute += operations / (device.vector_flops * share)
    return device.launch_seconds + max(compute / DEFAULT.kernels.efficiency, memory_seconds(kernel_bytes(body), device))


def dot_seconds(node: Node, device: Device, beside: int = 1) -> float:
    """Time of a product at the peak of its element type, as far as its tiles fill the device; `beside` are in one launch."""
    dtype = node.operands[0].type.dtype
    batch, m, n, k = product_extents(node)
    ideal = node_flops(node) / device.peaks.get(dtype, device.vector_flops)
    return (
        ideal * slowdown(m, n, k, batch * beside, dtype, device.architecture, device.multiprocessors) if ideal else 0.0
    )


def memory_seconds(nbytes: int, device: Device) -> float:
    """Predicted time in which a device reads and writes so many bytes of its memory."""
    return nbytes / device.bandwidth / DEFAULT.kernels.efficiency
