"""Predicted time of a kernel: the larger of compute and memory time.

The time of a GEMM comes from the model of its main loop (`meshgen/kernels/matmul_time.py`). Other operations run at a
fraction of the peak. The cost model contains the peaks and this fraction (`meshgen/cost_model/kernels.py`).
"""

from __future__ import annotations

from meshgen.codegen.emit.matmul_tiles import rank_joint_tiles, rank_segmented_tiles
from meshgen.codegen.fusion.accumulators import joint_products, side_by_side_products
from meshgen.codegen.fusion.row_passes import repeated_bytes
from meshgen.codegen.roofline.attention_work import Work, expanded_work, waiting_for_keys
from meshgen.codegen.roofline.nest_work import nest_operations, waiting_seconds
from meshgen.codegen.roofline.operand_layout import layout_slowdown
from meshgen.codegen.roofline.read_bytes import read_bytes
from meshgen.cost_model.kernels import Device
from meshgen.cost_model.model import DEFAULT
from meshgen.ir.analysis import graph_analysis
from meshgen.ir.graph import Graph, Node, is_float
from meshgen.kernels.architectures import ARCHITECTURES, tensor_cores
from meshgen.kernels.matmul_time import Product, product_seconds
from meshgen.ops.classes import DOTS, GEMMS, NESTS, PRODUCTS
from meshgen.ops.dot_dims import gemm_extents, is_depthwise
from meshgen.ops.flops import node_flops
from meshgen.ops.precision import multiplied_as
from meshgen.ops.segments import segments
from meshgen.runtime.in_place import written

DEVICES = {device.name: device for device in DEFAULT.kernels.devices}


def device_of(target: str) -> Device:
    """Return the device of a target.

    The target is `cuda:sm_90,sm_80` (its first device is used), `sm_80`, or the name of a machine such as `h100`. For
    `cpu`, returns the device of sm_90.
    """
    name = target.removeprefix("cuda:").split(",")[0].strip()
    if name in DEVICES:
        return DEVICES[name]
    return DEVICES[tensor_cores(name).device if name in ARCHITECTURES else "sm_90"]


def kernel_bytes(body: Graph) -> int:
    """Return the bytes per device that one launch reads and writes.

    It reads every operand once, or more often if rows are long, and writes every result once. A lookup or slice reads
    only as much of its operand as it returns (`read_bytes`). An in-place update writes only its window.
    """
    return sum(value.type.nbytes for value in written(body)) + repeated_bytes(body) + read_bytes(body)


@graph_analysis
def kernel_seconds(body: Graph, target: str) -> float:
    """Return the predicted duration of one launch in seconds, including the launch overhead."""
    device = device_of(target)
    nodes, works = expanded_work(body)
    dots = sum(node.op in PRODUCTS for node in nodes)
    products, compute, together = 0.0, 0.0, _seconds_together(body, device)
    for node in nodes:
        work = works.get(node, Work())
        if node.op in PRODUCTS and not is_depthwise(node):
            if not together:
                products += dot_seconds(node, device, dots, work.multiplied) * work.share * (1 + _longer(node, body))
        else:
            share = 1.0 if is_float(node.results[0].type.dtype) else DEFAULT.kernels.integer_share
            operations = nest_operations(node, body) if node.op in NESTS else node_flops(node)
            compute += operations * work.share / (device.vector_flops * share)
    computing = products + together + compute / DEFAULT.kernels.efficiency
    waiting = max(waiting_seconds(body, device), waiting_for_keys(body))
    return device.launch_seconds + max(computing, memory_seconds(kernel_bytes(body), device), waiting)


def _longer(node: Node, body: Graph) -> float:
    """Return the relative increase of a GEMM's time that the memory layout of its operands causes."""
    sides = (0, 1) if node.op in DOTS else ()
    return sum(layout_slowdown(node, side) for side in sides if node.operands[side] in body.inputs)


def _seconds_together(body: Graph, device: Device) -> float:
    """Return the predicted seconds of several GEMMs in one launch with a common tile, or 0 for other bodies."""
    dots = [node for node in body.nodes if node.op in GEMMS]
    if len(dots) < 2 or multiplied_as(dots[0]) not in device.peaks:
        return 0.0
    if joint := joint_products(body):
        seconds = rank_joint_tiles(joint, device)[0][0]
    elif len(segments(body)) > 1 and side_by_side_products(body):
        seconds = rank_segmented_tiles(dots, device)[0][0]
    else:
        return 0.0
    flops = [node_flops(dot) for dot in dots]
    longer = sum(_longer(dot, body) * count for dot, count in zip(dots, flops, strict=True)) / max(1.0, sum(flops))
    return seconds * (1 + longer)


def dot_seconds(node: Node, device: Device, beside: int = 1, multiplied: str = "") -> float:
    """Return the predicted seconds of a GEMM, without launch overhead and memory traffic.

    Args:
        beside: the number of equal GEMMs in one launch.
        multiplied: the number format in which the GEMM multiplies, if its precision does not determine it.
    """
    multiplied = multiplied or multiplied_as(node)
    batch, m, n, k = gemm_extents(node)
    if not node_flops(node):
        return 0.0
    if multiplied not in device.peaks:
        return node_flops(node) / (device.vector_flops * DEFAULT.kernels.efficiency)
    return product_seconds(Product(batch * beside, m, n, k, multiplied), device) / beside


def memory_seconds(nbytes: int, device: Device) -> float:
    """Return the predicted seconds in which a device reads or writes `nbytes` of its memory."""
    return nbytes / device.bandwidth / DEFAULT.kernels.efficiency
