"""Control flow, sorting and random bits."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from meshgen.errors import Diagnostic, ProgramError
from meshgen.ir.evaluate_common import Array, Handler, RunRegion, widen
from meshgen.ir.evaluate_elementwise import total_order
from meshgen.ir.evaluate_window import apply_region
from meshgen.ir.graph import Node, is_float

_MASK_32 = np.uint64(0xFFFFFFFF)


def _while(node: Node, args: list[Array], run: RunRegion) -> list[Array]:
    condition, body = node.regions
    while bool(run(condition, args)[0]):
        args = run(body, args)
    return args


def _if(node: Node, args: list[Array], run: RunRegion) -> list[Array]:
    return run(node.regions[0 if bool(args[0]) else 1], args[1:])


def _case(node: Node, args: list[Array], run: RunRegion) -> list[Array]:
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


def _sort(node: Node, args: list[Array], run: RunRegion) -> list[Array]:
    """Sort along a dim by the region's order. Ties keep their order, so the result is always the stable one."""
    dim = node.attrs["dim"]
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


def _top_k(node: Node, args: list[Array], run: RunRegion) -> list[Array]:
    """The k greatest along the last dim in total order, the first of equals first, and where they stood."""
    (x,) = args
    key = total_order(x) if is_float(node.operands[0].type.dtype) else widen(x, node.operands[0].type.dtype)
    order = np.argsort(np.invert(key), axis=-1, kind="stable")[..., : node.attrs["k"]]  # ~key falls as key rises
    return [np.take_along_axis(x, order, -1), order.astype(np.int32)]


def threefry(key: tuple[Array, Array], counter: tuple[Array, Array]) -> tuple[Array, Array]:
    """Threefry-2x32 with 20 rounds on uint32 arrays. Source: Salmon et al., SC 2011."""
    rotations = ((13, 15, 26, 6), (17, 29, 16, 24))
    keys = (key[0], key[1], key[0] ^ key[1] ^ np.uint32(0x1BD11BDA))
    x, y = counter[0] + keys[0], counter[1] + keys[1]
    for group in range(5):
        for rotation in rotations[group % 2]:
            x = x + y
            y = (y << np.uint32(rotation) | y >> np.uint32(32 - rotation)) ^ x
        x = x + keys[(group + 1) % 3]
        y = y + keys[(group + 2) % 3] + np.uint32(group + 1)
    return x, y


def _rng_bit_generator(node: Node, args: list[Array], run: RunRegion) -> list[Array]:
    """Threefry as XLA counts it: neighbours along the first even dim (else the greatest) share a counter."""
    if node.attrs.get("algorithm", "DEFAULT") == "PHILOX":
        raise ProgramError(Diagnostic("MG0103", "rng_bit_generator: algorithm PHILOX is not supported", node.loc,
                                      hint="use THREE_FRY"))  # fmt: skip
    state, result = args[0].astype(np.uint64), node.results[1].type
    double = result.numpy_dtype.itemsize == 8
    shape = list(result.sizes)
    split = 0 if double else next((d for d, n in enumerate(shape) if n % 2 == 0), int(np.argmax(shape)) if shape else 0)
    half = shape.copy()
    if shape and not double:
        half[split] = -(-shape[split] // 2)
    size = int(np.prod(half, dtype=np.int64))
    counter = state[1] + np.arange(size, dtype=np.uint64)
    parts = threefry(_halves(state[0]), _halves(counter))
    new_state = np.array([state[0], state[1] + np.uint64(size)], np.uint64).astype(args[0].dtype)
    if double:
        return [new_state, (parts[0].astype(np.uint64) | parts[1].astype(np.uint64) << np.uint64(32)).reshape(shape)]
    if not shape:
        return [new_state, parts[0].reshape(()).astype(result.numpy_dtype)]
    paired = np.stack([p.reshape(half) for p in parts], split + 1)
    joined = paired.reshape([2 * n if d == split else n for d, n in enumerate(half)])
    return [new_state, joined[tuple(slice(n) for n in shape)].astype(result.numpy_dtype)]


def _halves(wide: Array) -> tuple[Array, Array]:
    """Low and high 32 bits."""
    wide = np.asarray(wide)
    return (wide & _MASK_32).astype(np.uint32), (wide >> np.uint64(32)).astype(np.uint32)


HANDLERS: dict[str, Handler] = {
    "while": _while,
    "if": _if,
    "case": _case,
    "sort": _sort,
    "top_k": _top_k,
    "rng_bit_generator": _rng_bit_generator,
}
