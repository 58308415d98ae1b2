"""Work of kernels with their own loop nests, such as sorts and scatters.

These kernels execute more operations than the op requires.
"""

from __future__ import annotations

import math

from meshgen.codegen.fusion.row_passes import levels
from meshgen.codegen.fusion.tiles import nest_shape, reduction_shape
from meshgen.cost_model.kernels import Device
from meshgen.cost_model.model import DEFAULT
from meshgen.ir.graph import Graph, Node
from meshgen.ops.classes import REDUCTIONS
from meshgen.ops.evaluate.window import cumulative_dim
from meshgen.ops.flops import node_flops, ranking_operations


def nest_operations(node: Node, body: Graph) -> float:
    """Return the operations of one launch of a kernel with its own loop nest.

    Each comparison, combination and search step counts as one operation.
    """
    size, operations_per_element = node.operands[0].type.size, sum(len(region.nodes) for region in node.regions)
    match node.op:
        case "recurrence":
            return node_flops(node)
        case "sort" | "top_k":
            return ranking_operations(node)
        case "reduce_window":
            init = body.index.producers.get(node.operands[-1])
            if cumulative_dim(node, init) is not None:
                return float(2 * size * operations_per_element)
            return float(node.results[0].type.size * math.prod(node.attrs.window_dimensions) * operations_per_element)
        case "scatter":
            indices, updates = node.operands[len(node.operands) // 2 :][:2]
            sizes, vector = indices.type.sizes, node.attrs.index_vector_dim
            count = math.prod(n for d, n in enumerate(sizes) if d != vector)
            if not node.attrs.indices_are_sorted:
                return float(size * count * (operations_per_element + 1))
            return float(2 * size * math.log2(max(2, count)) + updates.type.size * operations_per_element)
        case "select_and_scatter":
            window, strides = node.attrs.window_dimensions, node.attrs.window_strides
            covering = math.prod(-(-w // s) for w, s in zip(window, strides, strict=True))
            return float(size * covering * math.prod(window) * operations_per_element)
        case _:
            return float(size * operations_per_element)


def waiting_seconds(body: Graph, device: Device) -> float:
    """Return a lower bound of a kernel's time in seconds: the time that one program waits for its loads.

    A recurrence prefetches its rows some iterations ahead. A reduction or scan loads one tile after the other. If
    registers do not hold the rows, they are loaded again for each level of reductions, and to write results of full
    size.
    """
    loops = [node for node in body.nodes if node.op == "recurrence" and len(node.operands) > len(node.results)]
    trip_count = max((node.attrs.trips for node in loops), default=0)
    copying = trip_count * DEFAULT.kernels.copy_seconds / DEFAULT.kernels.trips_ahead
    scans = [_loading(node, body, device)[1] for node in body.nodes if node.op not in REDUCTIONS]
    return max([copying, *scans, _reducing_seconds(body, device)])


def _reducing_seconds(body: Graph, device: Device) -> float:
    """Return the seconds that the passes of all reductions wait for their loads."""
    passes = [max(_loading(node, body, device) for node in level) for level in levels(body)]
    seconds = [of_pass for _, of_pass in passes]
    if all(tiles <= 1 for tiles, _ in passes):
        return max(seconds, default=0.0)
    rows = max(node.result.type.size for node in body.nodes if node.op in REDUCTIONS)
    is_written = any(value.type.size > rows for value in body.outputs)
    return sum(seconds) + seconds[-1] * is_written


def _loading(node: Node, body: Graph, device: Device) -> tuple[int, float]:
    """Return the number of tiles that a program of a reduction or scan loads in sequence, and the seconds to load them.

    Returns zeros for other nodes.
    """
    dims = _folded_dims(node, body)
    if not dims or not node.operands[0].type.size:
        return 0, 0.0
    operand_type = node.operands[0].type
    reduced, last = (
        math.prod(operand_type.sizes[d] for d in dims),
        max((d for d, n in enumerate(operand_type.sizes) if n > 1), default=-1),
    )
    kept, is_contiguous = operand_type.size // reduced, last in dims
    if node.op in REDUCTIONS:
        tile = reduction_shape(kept, reduced, is_contiguous, device.multiprocessors)
    else:
        tile = nest_shape(kept, reduced, is_contiguous)
    tile_bytes = min(kept, tile.kept_block) * min(reduced, tile.reduced_block) * operand_type.numpy_dtype.itemsize
    tiles = -(-reduced // tile.reduced_block)
    transfer = tiles * tile_bytes / DEFAULT.kernels.multiprocessor_bandwidth
    # The launch overhead already contains the latency of the first tile.
    return tiles, max(transfer, (tiles - 1) * DEFAULT.kernels.copy_seconds)


def _folded_dims(node: Node, body: Graph) -> tuple[int, ...]:
    """Return the dims along which a node reduces or scans, or an empty tuple for other nodes."""
    if node.op in REDUCTIONS or node.op == "reduce_region":
        return tuple(node.attrs.dims)
    if node.op != "reduce_window":
        return ()
    along = cumulative_dim(node, body.index.producers.get(node.operands[-1]))
    return () if along is None else (along,)
