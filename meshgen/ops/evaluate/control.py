"""Evaluation of control flow, sorting and random bits."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from meshgen.ir.graph import Node, is_float
from meshgen.ops.evaluate.common import Array, RunRegion, widen
from meshgen.ops.evaluate.elementwise import total_order
from meshgen.ops.evaluate.window import apply_region
from meshgen.ops.random_bits import philox_bits, threefry_bits


def optimization_barrier(node: Node, args: list[Array], run: RunRegion) -> list[Array]:
    """Return the operands unchanged."""
    return args


def while_loop(node: Node, args: list[Array], run: RunRegion) -> list[Array]:
    condition, body = node.regions
    while bool(run(condition, args)[0]):
        args = run(body, args)
    return args


def scan(node: Node, args: list[Array], run: RunRegion) -> list[Array]:
    (body,) = node.regions
    results = range(len(body.outputs))
    state = [np.array(value) if index in results else value for index, value in enumerate(args)]
    for iteration in range(node.attrs.trips):
        row_slices = rows_at(node, iteration)
        body_results = run(
            body, [value[row_slices[index]] if index in row_slices else value for index, value in enumerate(state)]
        )
        for index, value in enumerate(body_results):
            if index in row_slices:
                state[index][row_slices[index]] = value
            else:
                state[index] = value
    return [state[index] for index in results]


def rows_at(node: Node, iteration: int) -> dict[int, slice]:
    """Return the rows that the body of a scan receives in iteration `iteration`, by index of the sliced operand."""
    starts, inputs = node.attrs.starts(iteration), node.regions[0].inputs
    return {index: slice(start, start + inputs[index].type.sizes[0]) for index, start in starts.items()}


def conditional(node: Node, args: list[Array], run: RunRegion) -> list[Array]:
    return run(node.regions[0 if bool(args[0]) else 1], args[1:])


def switch(node: Node, args: list[Array], run: RunRegion) -> list[Array]:
    return run(node.regions[case_branch(args[0], len(node.regions))], args[1:])


def case_branch(index: Array, count: int) -> int:
    """Return the index of the branch that a `case` executes. An index out of range selects the last branch."""
    return int(index) if 0 <= int(index) < count else count - 1


def merge_exchange(count: int) -> Iterator[tuple[Array, int]]:
    """Yield the steps of Batcher's sorting network for `count` elements.

    Each step is (lower positions, distance): it compares each lower position with the position `distance` above it. No
    position occurs twice in a step.
    Source: Knuth, The Art of Computer Programming 3, algorithm 5.2.2M.
    """
    top = 1 << max(count - 1, 0).bit_length() >> 1
    p = top
    while p:
        q, r, distance = top, 0, p
        while True:
            positions = np.arange(count - distance)
            yield positions[(positions & p) == r], distance
            if q == p:
                break
            distance, q, r = q - p, q // 2, p
        p //= 2


def sort_rows(node: Node, args: list[Array], run: RunRegion) -> list[Array]:
    """Sort along a dim by the region's order. Equal elements keep their order, so the result is always the stable one."""
    dim = node.attrs.dim
    rows = [np.moveaxis(x, dim, -1).copy() for x in args]
    count = rows[0].shape[-1]
    original_index = np.broadcast_to(np.arange(count), rows[0].shape).copy()
    for low, distance in merge_exchange(count):
        high = low + distance
        forward = [part for x in rows for part in (x[..., low], x[..., high])]
        backward = [part for x in rows for part in (x[..., high], x[..., low])]
        in_order = apply_region(node.regions[0], forward, run)[0]
        reverse = apply_region(node.regions[0], backward, run)[0]
        swap = reverse | (~in_order & (original_index[..., high] < original_index[..., low]))
        for x in (*rows, original_index):
            left, right = x[..., low], x[..., high]
            x[..., low], x[..., high] = np.where(swap, right, left), np.where(swap, left, right)
    return [np.moveaxis(x, -1, dim) for x in rows]


def top_k(node: Node, args: list[Array], run: RunRegion) -> list[Array]:
    """Return the k greatest elements along the last dim in total order, and their indices. Of equal elements the first
    wins.
    """
    (x,) = args
    key = total_order(x) if is_float(node.operands[0].type.dtype) else widen(x, node.operands[0].type.dtype)
    # ~key decreases as key increases, so a stable ascending sort puts the greatest elements first.
    order = np.argsort(np.invert(key), axis=-1, kind="stable")[..., : node.attrs.k]
    return [np.take_along_axis(x, order, -1), order.astype(np.int32)]


def rng_bit_generator(node: Node, args: list[Array], run: RunRegion) -> list[Array]:
    """Evaluate the random generator. The default algorithm is Philox, as in XLA on CPUs and GPUs.

    A result type below 32 bits takes the lowest bits of a 32-bit draw.
    """
    state, result = args[0].astype(np.uint64), node.results[1].type
    draw = threefry_bits if node.attrs.algorithm == "THREE_FRY" else philox_bits
    new_state, bits = draw(state, result.sizes, result.numpy_dtype)
    return [new_state.astype(args[0].dtype), bits.astype(result.numpy_dtype)]
