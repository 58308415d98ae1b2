"""Predicted time of a kernel: the larger of compute and memory time.

Products take what the model of their main loop says (`meshgen/kernels/matmul_time.py`), other operations a part of the peak. Peaks, and
that part, are those of the cost model (`meshgen/cost_model/kernels.py`).
"""

from __future__ import annotations

from meshgen.codegen.emit.matmul_tiles import rank_joint_tiles, rank_side_by_side_tiles
from meshgen.codegen.fusion.accumulators import joint_products, side_by_side_products
from meshgen.codegen.fusion.row_passes import repeated_bytes
from meshgen.codegen.roofline.attention_work import Work, expanded_work, waiting_for_keys
from meshgen.codegen.roofline.nest_work import nest_operations, waiting_seconds
from meshgen.codegen.roofline.operand_layout import longer_share
from meshgen.codegen.roofline.read_bytes import read_bytes
from meshgen.cost_model.kernels import Device
from meshgen.cost_model.model import DEFAULT
from meshgen.ir.analysis import graph_analysis
from meshgen.ir.graph import Graph, Node, is_float
from meshgen.kernels.architectures import ARCHITECTURES, tensor_cores
from meshgen.kernels.matmul_time import Product, product_seconds
from meshgen.ops.classes import DOTS, MATRIX_PRODUCTS, NESTS, PRODUCTS
from meshgen.ops.dot_dims import is_depthwise, product_extents
from meshgen.ops.flops import node_flops
from meshgen.ops.precision import multiplied_as
from meshgen.ops.segments import segments
from meshgen.runtime.in_place import written

DEVICES = {device.name: device for device in DEFAULT.kernels.devices}


def device_of(target: str) -> Device:
    """The device of a target such as `cuda:sm_90,sm_80` (the first one), `sm_80`, or a machine's `h100`; `cpu` predicts for sm_90."""
    name = target.removeprefix("cuda:").split(",")[0].strip()
    if name in DEVICES:
        return DEVICES[name]
    return DEVICES[tensor_cores(name).device if name in ARCHITECTURES else "sm_90"]


def kernel_bytes(body: Graph) -> int:
    """Bytes that one launch moves: every operand read once, or more often where rows are long, and every result written once.

    Of an operand that is only looked up or sliced no more counts than what comes out (`read_bytes`); of what is updated in place, the window.
    """
    return sum(value.type.nbytes for value in written(body)) + repeated_bytes(body) + read_bytes(body)


@graph_analysis
def kernel_seconds(body: Graph, target: str) -> float:
    """Predicted duration of one launch, its launch overhead included."""
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
    """The part of its time by which a product takes longer, as its operands are in memory."""
    sides = (0, 1) if node.op in DOTS else ()
    return sum(longer_share(node, side) for side in sides if node.operands[side] in body.inputs)


def _seconds_together(body: Graph, device: Device) -> float:
    """Time of several products in one launch with a tile that suits all; 0 of other bodies."""
    dots = [node for node in body.nodes if node.op in MATRIX_PRODUCTS]
    if len(dots) < 2 or multiplied_as(dots[0]) not in device.peaks:
        return 0.0
    if joint := joint_products(body):
        seconds = rank_joint_tiles(joint, device)[0][0]
    elif len(segments(body)) > 1 and side_by_side_products(body):
        seconds = rank_side_by_side_tiles(dots, device)[0][0]
    else:
        return 0.0
    flops = [node_flops(dot) for dot in dots]
    longer = sum(_longer(dot, body) * count for dot, count in zip(dots, flops, strict=True)) / max(1.0, sum(flops))
    return seconds * (1 + longer)


def dot_seconds(node: Node, device: Device, beside: int = 1, multiplied: str = "") -> float:
    """Time of a product without the launch and without device memory; `beside` such products are in one launch.

    `multiplied` says of which numbers the factors are, where the node's precision does not.
    """
    multiplied = multiplied or multiplied_as(node)
    batch, m, n, k = product_extents(node)
    if not node_flops(node):
        return 0.0
    if multiplied not in device.peaks:
        return node_flops(node) / (device.vector_flops * DEFAULT.kernels.efficiency)
    return product_seconds(Product(batch * beside, m, n, k, multiplied), device) / beside


def memory_seconds(nbytes: int, device: Device) -> float:
    """Predicted time in which a device reads and writes so many bytes of its memory."""
    return nbytes / device.bandwidth / DEFAULT.kernels.efficiency
