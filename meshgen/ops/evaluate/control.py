"""Control flow, sorting and random bits."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from meshgen.ir.graph import Node, is_float
from meshgen.ops.evaluate.common import Array, RunRegion, widen
from meshgen.ops.evaluate.elementwise import total_order
from meshgen.ops.evaluate.window import apply_region
from meshgen.ops.random_bits import philox_bits, threefry_bits


def optimization_barrier(node: Node, args: list[Array], run: RunRegion) -> list[Array]:
    """Each result is its operand."""
    return args


def while_loop(node: Node, args: list[Array], run: RunRegion) -> list[Array]:
    condition, body = node.regions
    while bool(run(condition, args)[0]):
        args = run(body, args)
    return args


def scan(node: Node, args: list[Array], run: RunRegion) -> list[Array]:
    (body,) = node.regions
    results = range(len(body.outputs))
    state = [np.array(value) if n in results else value for n, value in enumerate(args)]
    for trip in range(node.attrs.trips):
        rows = rows_at(node, trip)
        after = run(body, [value[rows[n]] if n in rows else value for n, value in enumerate(state)])
        for n, value in enumerate(after):
            if n in rows:
                state[n][rows[n]] = value
            else:
                state[n] = value
    return [state[n] for n in results]


def rows_at(node: Node, trip: int) -> dict[int, slice]:
    """The rows that the body of a scan has at a trip, of each operand of which it has rows."""
    starts, inputs = node.attrs.starts(trip), node.regions[0].inputs
    return {n: slice(start, start + inputs[n].type.sizes[0]) for n, start in starts.items()}


def conditional(node: Node, args: list[Array], run: RunRegion) -> list[Array]:
    return run(node.regions[0 if bool(args[0]) else 1], args[1:])


def switch(node: Node, args: list[Array], run: RunRegion) -> list[Array]:
    return run(node.regions[case_branch(args[0], len(node.regions))], args[1:])


def case_branch(index: Array, count: int) -> int:
    """The branch that a `case` takes: the last one for an index out of range."""
    return int(index) if 0 <= int(index) < count else count - 1


def merge_exchange(count: int) -> Iterator[tuple[Array, int]]:
    """Batcher's sorting network for any count: steps of (lower places, distance), no place twice in a step.

    Source: Knuth, The Art of Computer Programming 3, algorithm 5.2.2M.
    """
    top = 1 << max(count - 1, 0).bit_length() >> 1
    p = top
    while p:
        q, r, distance = top, 0, p
        while True:
            places = np.arange(count - distance)
            yield places[(places & p) == r], distance
            if q == p:
                break
            distance, q, r = q - p, q // 2, p
        p //= 2


def sort_rows(node: Node, args: list[Array], run: RunRegion) -> list[Array]:
    """Sort along a dim by the region's order. Ties keep their order, so the result is always the stable one."""
    dim = node.attrs.dim
    rows = [np.moveaxis(x, dim, -1).copy() for x in args]
    count = rows[0].shape[-1]
    number = np.broadcast_to(np.arange(count), rows[0].shape).copy()
    for low, distance in merge_exchange(count):
        high = low + distance
        forward = [part for x in rows for part in (x[..., low], x[..., high])]
        backward = [part for x in rows for part in (x[..., high], x[..., low])]
        in_order = apply_region(node.regions[0], forward, run)[0]
        reverse = apply_region(node.regions[0], backward, run)[0]
        swap = reverse | (~in_order & (number[..., high] < number[..., low]))
        for x in (*rows, number):
            left, right = x[..., low], x[..., high]
            x[..., low], x[..., high] = np.where(swap, right, left), np.where(swap, left, right)
    return [np.moveaxis(x, -1, dim) for x in rows]


def top_k(node: Node, args: list[Array], run: RunRegion) -> list[Array]:
    """The k greatest along the last dim in total order, the first of equals first, and their indices."""
    (x,) = args
    key = total_order(x) if is_float(node.operands[0].type.dtype) else widen(x, node.operands[0].type.dtype)
    order = np.argsort(np.invert(key), axis=-1, kind="stable")[..., : node.attrs.k]  # ~key falls as key rises
    return [np.take_along_axis(x, order, -1), order.astype(np.int32)]


def rng_bit_generator(node: Node, args: list[Array], run: RunRegion) -> list[Array]:
    """Philox is also the default, as XLA's is on CPUs and GPUs. Fewer than 32 bits are the lowest of 32."""
    state, result = args[0].astype(np.uint64), node.results[1].type
    draw = threefry_bits if node.attrs.algorithm == "THREE_FRY" else philox_bits
    new_state, bits = draw(state, result.sizes, result.numpy_dtype)
    return [new_state.astype(args[0].dtype), bits.astype(result.numpy_dtype)]
